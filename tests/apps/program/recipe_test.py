"""Recipes with mistakes and data that is missing or damaged: exit code 2, and where and what."""

import gzip
import os
import re
import shutil

import support
from support import ProgramTest


class Recipe(ProgramTest):
    def refused(self, arguments, *patterns):
        result = self.call(*arguments)
        self.assertExit(2, result)
        self.assertEqual("", result.out)
        for pattern in patterns:
            self.assertSays(pattern, result.err)
        self.assertEqual(1, result.err.count("\n"), f"one line: {result.err}")
        return result

    def file_refused(self, text, *patterns):
        with open(f"{self.folder}/my.toml", "w", encoding="utf-8") as file:
            file.write(text)
        self.refused(["train", "my.toml", "--run-dir", self.run_path()], *patterns)
        self.assertFalse(os.path.exists(self.run_path()), "nothing is made of a bad recipe")

    def test_an_unknown_key_is_named_with_file_line_and_the_nearest(self):
        self.file_refused("[train]\nsteps = 5\n\n[optimizer]\nlearning = 1\nlrr = 0.1\n",
                          r"my\.toml:5:1: unknown key 'optimizer\.learning'")
        self.file_refused("[train]\nsteps = 5\n[optimizer]\nmomentun = 0.1\n",
                          r"my\.toml:4:1: unknown key.*did you mean 'optimizer\.momentum'\?")

    def test_an_unknown_section_is_named(self):
        self.file_refused("[optimiser]\nlr = 1\n", r"my\.toml:\d+:1: ", "did you mean 'optimizer")

    def test_a_wrong_type_is_named_with_what_is_allowed(self):
        self.file_refused('[train]\nsteps = "many"\n',
                          r"my\.toml:2:1: train\.steps: found the text 'many'; allowed: ")

    def test_a_bad_value_is_named_with_what_is_allowed(self):
        self.file_refused("[train]\nsteps = 5\n[optimizer]\nlr = -1\n",
                          r"my\.toml:4:1: optimizer\.lr: found -1; allowed: .*above 0")
        self.file_refused('[train]\nsteps = 5\n[optimizer]\nname = "adm"\n',
                          r"my\.toml:4:1: optimizer\.name: .*did you mean 'adam'\?")

    def test_a_syntax_error_is_placed(self):
        self.file_refused("[train]\nsteps = = 5\n", r"my\.toml:2:\d+: this is not TOML")

    def test_fields_that_do_not_go_together(self):
        self.file_refused("[train]\nsteps = 5\n[evaluate]\naveraged = true\n",
                          r"my\.toml:4:1: evaluate\.averaged .*optimizer\.average")
        self.file_refused("[data]\nbatch = 5\n", r"my\.toml: train\.steps .*would never end")

    def test_fields_of_another_family_are_refused_with_it(self):
        self.file_refused("[train]\nsteps = 5\n[seq2seq]\nlayers = 3\n",
                          r"my\.toml:4:1: seq2seq\.layers is read by the family seq2seq.*family is classify")
        for command in ("train", "verify", "scaling"):
            self.refused([command, "fashion", "--set", "seq2seq.layers=3"], "read by the family seq2seq")
            self.refused([command, "chat", "--set", "model.width=3"], "read by the family classify")
        self.refused(["train", "fashion", "--set", "data.size=64"], r"data\.size is read only when data\.kind is folder")
        self.refused(["train", "fashion", "--set", "evaluate.better=higher"], r"evaluate\.better: remove it")

    def test_a_recipe_of_an_older_program_is_trained_and_what_it_does_not_need_is_told(self):
        printed = self.call("train", "fashion", "--print-recipe").out
        printed = printed.replace("[evaluate]\n", '[evaluate]\nbetter = "higher"\n')
        with open(f"{self.folder}/old.toml", "w", encoding="utf-8") as file:
            file.write(printed + "\n[text]\nunique = true\n[seq2seq]\nlayers = 2\n")
        result = self.call("train", "old.toml", "--set", f"data.path={self.data}", "--set", "train.epochs=0", "--set",
                           "train.steps=1", "--set", "schedule.name=constant", "--run-dir", self.run_path())
        self.assertExit(0, result)
        self.assertSays("note: old.toml: the family classify does not read \\[text\\], \\[seq2seq\\]", result.err)
        self.assertSays("note: old.toml:.*evaluate.better: remove it", result.err)
        with open(f"{self.run_path()}/recipe.toml", encoding="utf-8") as file:
            kept = file.read()
        self.assertNotIn("better =", kept)
        self.assertNotIn("[seq2seq]", kept)

    def test_a_bad_set(self):
        for assignment, pattern in (
            ("optimizer.rl=1", r"--set optimizer\.rl=1: unknown key.*did you mean 'optimizer\.lr'"),
            ("optimizer.lr=fast", r"--set optimizer\.lr=fast: optimizer\.lr: found .*'fast'"),
            ("optimizer.lr", r"--set optimizer\.lr: there is no '='"),
            ("train.steps=1.5", r"train\.steps: found 1\.5; allowed: an integer"),
        ):
            self.refused(["train", "fashion", "--set", assignment], pattern)

    def test_an_unknown_recipe_names_those_that_there_are(self):
        self.refused(["train", "fashon"], "no recipe 'fashon'",
                     "cifar10, detect, fashion, imagefolder", r"did you mean 'fashion'\?")

    def test_every_command_that_takes_a_recipe_refuses_alike(self):
        for command in ("verify", "scaling"):
            self.refused([command, "fashon"], r"did you mean 'fashion'\?")
            self.refused([command, "fashion", "--set", "modle.width=3"],
                         "did you mean 'model.width'")

    def test_flags_are_checked(self):
        for flags, pattern in (
            (["--devices", "tpu:0"], "tpu"),
            (["--devices", "cpu:3-1"], "a range runs upwards"),
            (["--shards", "-1"], "--shards"),
            (["--shards", "0"], "--shards"),
            (["--log", "xml"], "--log"),
            (["--unknown"], "--unknown"),
        ):
            result = self.call("train", "fashion", "--set", f"data.path={self.data}", "--run-dir",
                               self.run_path(), *flags)
            self.assertExit(2, result)
            self.assertSays(pattern, result.err)

    def test_print_recipe_prints_a_recipe_with_every_field_and_trains_nothing(self):
        result = self.call("train", "fashion", "--print-recipe", "--run-dir", self.run_path())
        self.assertExit(0, result)
        self.assertFalse(os.path.exists(self.run_path()))
        for section in ("data", "model", "optimizer", "schedule", "train", "evaluate", "save",
                        "log"):
            self.assertRegex(result.out, rf"(?m)^\[{section}\]$")
        with open(f"{self.folder}/printed.toml", "w", encoding="utf-8") as file:
            file.write(result.out)
        again = self.call("train", "printed.toml", "--print-recipe")
        self.assertExit(0, again)
        self.assertEqual(result.out, again.out)


class Data(ProgramTest):
    images = "train-images-idx3-ubyte.gz"

    def setUp(self):
        super().setUp()
        self.own = f"{self.folder}/own"
        shutil.copytree(self.data, self.own)

    def refused(self, *patterns, path=None):
        result = self.train(self.run_path(), 5, sets=[f"data.path={path or self.own}"])
        self.assertExit(2, result)
        self.assertEqual("", result.out)
        for pattern in patterns:
            self.assertSays(pattern, result.err)

    def rewrite(self, name, change):
        with gzip.open(f"{self.own}/{name}", "rb") as file:
            content = file.read()
        with gzip.open(f"{self.own}/{name}", "wb") as file:
            file.write(change(content))

    def test_a_missing_folder_is_named_with_debians_package(self):
        self.refused("looked for in nowhere", "dataset-fashion-mnist", path="nowhere")

    def test_a_missing_file_is_named(self):
        os.remove(f"{self.own}/{self.images}")
        self.refused(f"{re.escape(self.own)}/{self.images}: cannot open: No such file")

    def test_a_truncated_file_is_named_with_the_offset(self):
        os.truncate(f"{self.own}/{self.images}", 50_000)
        self.refused(f"{re.escape(self.own)}/{self.images}: at byte [1-9][0-9]+: expected")

    def test_too_few_bytes_are_named_with_the_offset(self):
        self.rewrite(self.images, lambda content: content[:1000])
        self.refused(f"{self.images}: at byte 1000: expected as many bytes as the dimensions say")

    def test_too_many_bytes_are_named(self):
        self.rewrite(self.images, lambda content: content + b"x")
        self.refused(f"{self.images}: at byte {16 + 256 * 784}: expected the end of the file")

    def test_what_is_not_idx_is_named(self):
        self.rewrite(self.images, lambda content: b"\x01" + content[1:])
        self.refused(f"{self.images}: at byte 0: expected an IDX file")

    def test_a_label_that_is_no_class_is_named_with_the_offset(self):
        name = "t10k-labels-idx1-ubyte.gz"
        self.rewrite(name, lambda content: content[:13] + b"\x0a" + content[14:])
        self.refused(f"{name}: at byte 13: expected a label from 0 to 9, not 10")

    def test_labels_of_another_number_of_images_are_named(self):
        shutil.copy(f"{self.own}/t10k-labels-idx1-ubyte.gz",
                    f"{self.own}/train-labels-idx1-ubyte.gz")
        self.refused("train-labels-idx1-ubyte.gz: at byte 4: expected 256 labels")

    def test_a_batch_larger_than_the_data_is_all_of_it(self):
        result = self.train(self.run_path(), 4, sets=["data.batch=512"])
        self.assertExit(0, result)
        self.assertEqual((4 * 256, 4), tuple(result.events("report")[-1][key]
                                             for key in ("rows", "epoch")))


if __name__ == "__main__":
    support.main()
