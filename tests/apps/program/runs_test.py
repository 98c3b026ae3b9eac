"""`lockstep runs`, `compare` and `init`."""

import json
import os

import support
from images_test import png
from support import ProgramTest


class Runs(ProgramTest):
    def setUp(self):
        super().setUp()
        os.makedirs(f"{self.folder}/runs/group")
        for name, lr in (("a", 0.003), ("group/b", 0.01)):
            self.assertExit(0, self.train(f"runs/{name}", 10, sets=[f"optimizer.lr={lr}"], devices="cpu:0-1"))

    def test_lists_every_run_with_step_best_and_devices(self):
        result = self.call("runs")
        self.assertExit(0, result)
        lines = result.out.splitlines()
        self.assertEqual(3, len(lines), result)
        for line, name in zip(lines[1:], ("runs/a", "runs/group/b")):
            self.assertRegex(line, rf"^{name} +classify fashion_mnist +10 +\d+ s +test/accuracy 0\.\d{{4}} at step 10 +"
                                   r"cpu:0, cpu:1 +\d{4}-\d\d-\d\d \d\d:\d\d$")
        found = [json.loads(line) for line in self.call("runs", "--json").out.splitlines()]
        self.assertEqual([("runs/a", 10), ("runs/group/b", 10)], [(run["run"], run["step"]) for run in found])

    def test_no_run_is_said_and_no_folder_is_refused(self):
        os.makedirs(f"{self.folder}/none")
        result = self.call("runs", "none")
        self.assertExit(0, result)
        self.assertIn("there is no run in 'none'", result.err)
        self.assertExit(2, self.call("runs", "nowhere"))

    def test_compare_shows_what_differs_and_nothing_else(self):
        result = self.call("compare", "runs/a", "runs/group/b")
        self.assertExit(0, result)
        recipe = result.out.split("\n\n")[0].splitlines()
        self.assertEqual([["recipe", "runs/a", "runs/group/b"], ["optimizer.lr", "0.003", "0.01"]],
                         [line.split() for line in recipe])
        self.assertRegex(result.out, r"(?m)^last test/accuracy +0\.\d+ +0\.\d+$")
        same = self.call("compare", "runs/a", "runs/a")
        self.assertIn("the recipes are the same", same.out)
        self.assertExit(2, self.call("compare", "runs/a", "runs"))


class Init(ProgramTest):
    def init(self, *arguments):
        result = self.call("init", *arguments)
        self.assertExit(0, result)
        return result

    def assertRecipe(self, path, *fields):
        """The file is a recipe with these lines."""
        result = self.call("train", path, "--print-recipe")
        self.assertExit(0, result)
        for field in fields:
            self.assertIn(field, result.out.splitlines())

    def test_images_by_class_become_a_recipe_that_trains(self):
        for label, colour in (("blue", (20, 30, 200)), ("red", (200, 30, 20))):
            os.makedirs(f"{self.folder}/photos/{label}")
            for i in range(24):
                png(f"{self.folder}/photos/{label}/{label}{i}.png", 40, 40, colour)
        self.assertIn("images in 2 classes", self.init("photos").out)
        self.assertRecipe("photos.toml", 'kind = "folder"', 'path = "photos"', "held_out = 0.1")
        result = self.call("train", "photos.toml", "--set", "data.size=32", "--set", "train.epochs=1", "--log", "json")
        self.assertExit(0, result)
        self.assertIn("test", result.events("evaluation")[-1]["set"])
        again = self.call("init", "photos")
        self.assertExit(2, again)
        self.assertIn("--force", again.err)
        self.init("photos", "--force")

    def test_folders_to_train_and_test_on_are_found(self):
        for part in ("train", "val"):
            for label in ("a", "b"):
                os.makedirs(f"{self.folder}/set/{part}/{label}")
                png(f"{self.folder}/set/{part}/{label}/0.png", 8, 8, (1, 2, 3))
        self.init("set")
        self.assertRecipe("set.toml", 'path = "set/train"', 'test_path = "set/val"')

    def test_other_data_is_recognised(self):
        def write(path, text):
            os.makedirs(os.path.dirname(f"{self.folder}/{path}"), exist_ok=True)
            with open(f"{self.folder}/{path}", "w", encoding="utf-8") as file:
                file.write(text)

        write("texts/pairs.tsv", "a\tb\nc\td\n")
        write("texts/train.en", "a\n")
        write("texts/train.fr", "b\n")
        write("voc/Annotations/1.xml", "<annotation/>")
        write("yolo/data.yaml", "names: [a]\n")
        write("boxes/instances.json", "{}")
        for arguments, fields in (
                (["texts/pairs.tsv"], ['family = "seq2seq"', 'kind = "tsv"']),
                (["texts/train.en", "texts/train.fr"], ['kind = "parallel"', 'target_path = "texts/train.fr"']),
                (["voc"], ['family = "detect"', 'kind = "voc"']),
                (["yolo"], ['kind = "yolo"']),
                (["boxes/instances.json"], ['kind = "coco"']),
                ([self.data], ['family = "classify"', 'kind = "fashion_mnist"'])):
            with self.subTest(arguments):
                self.init(*arguments, "--out", "x.toml", "--force")
                self.assertRecipe("x.toml", *fields)

    def test_what_it_does_not_know_is_refused_with_what_it_knows(self):
        os.makedirs(f"{self.folder}/things")
        result = self.call("init", "things")
        self.assertExit(2, result)
        self.assertSays("nothing that init knows. It knows: a folder with one folder of JPEG or PNG images", result.err)
        self.assertExit(2, self.call("init", "nowhere"))


if __name__ == "__main__":
    support.main()
