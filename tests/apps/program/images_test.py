"""`lockstep train imagefolder`: a folder of one's own images."""

import os
import resource
import struct
import subprocess
import zlib

import support


def png(path, width, height, colour):
    """A PNG file of one colour."""

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    row = b"\0" + bytes(colour) * width
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(row * height)) + chunk(b"IEND", b""))


SMALL = ("--set", "model.name=convnet", "--set", "model.width=4")


class ImageTest(support.ProgramTest):
    """Images of two classes, to train and to evaluate on."""

    def setUp(self):
        super().setUp()
        for part, count in (("train", 6), ("test", 2)):
            for label, colour in (("blue", (20, 30, 200)), ("red", (200, 30, 20))):
                os.makedirs(f"{self.folder}/{part}/{label}")
                for i in range(count):
                    png(f"{self.folder}/{part}/{label}/{i}.png", 40 + i, 50 - i, colour)

    def arguments(self, command, recipe, *more):
        sets = [f"data.path={self.folder}/train", f"data.test_path={self.folder}/test", "data.size=64",
                "data.batch=4", "data.test_batch=4", "train.epochs=0", "train.steps=2"]
        return [command, recipe, *(flag for field in sets for flag in ("--set", field)), *more]

    def train(self, recipe, *more):
        return self.call(*self.arguments("train", recipe, "--run-dir", self.run_path(), "--log", "json",
                                         "--devices", "cpu:0-1", *more))


class Images(ImageTest):
    def test_both_resnets_train_on_a_folder_by_class(self):
        for recipe in ("imagefolder", "imagefolder50"):
            with self.subTest(recipe):
                result = self.call(*self.arguments("train", recipe, "--run-dir", self.run_path(recipe), "--log", "json",
                                                   "--devices", "cpu:0-1"))
                self.assertEqual(result.code, 0, result)
                metrics = result.events("evaluation")[-1]["metrics"]
                self.assertIn(metrics["accuracy"], (0, 0.25, 0.5, 0.75, 1))
                self.assertEqual(result.events("end")[-1]["step"], 2)

    def test_a_damaged_image_is_named_and_what_was_trained_is_saved(self):
        path = f"{self.folder}/train/blue/3.png"
        with open(path, "r+b") as file:
            file.truncate(60)
        result = self.train("imagefolder", *SMALL, "--set", "train.steps=9", "--set", "data.refuse_bad=true")
        self.assertEqual(result.code, 2, result)
        self.assertIn(path, result.err)

    def test_a_damaged_image_is_told_once_and_training_goes_on(self):
        paths = [f"{self.folder}/{part}/blue/1.png" for part in ("train", "test")]
        for path in paths:
            with open(path, "r+b") as file:
                file.truncate(60)
        result = self.train("imagefolder", *SMALL, "--set", "train.steps=9", "--set", "data.batch=8")
        self.assertEqual(result.code, 0, result)
        for path, what in zip(paths, ("the next image stands in for it", "it is left out")):
            told = [line for line in result.err.splitlines() if path in line]
            self.assertEqual(len(told), 1, result)
            self.assertIn(what, told[0])
        one = self.call(*self.arguments("verify", "imagefolder", *SMALL, "--devices", "cpu:0-1", "--steps", "2", "--set", "data.batch=8"))
        self.assertIn("equal, bit for bit", one.out)
        self.assertEqual(one.err.count(paths[0]), 1, "not by each of its trainings")

    def test_only_the_first_of_many_damaged_images_are_named(self):
        for i in range(30):
            with open(f"{self.folder}/train/blue/broken{i}.png", "wb"):
                pass
        result = self.train("imagefolder", *SMALL, "--set", "train.steps=9", "--set", "data.batch=8")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(10, result.err.count("the next image stands in for it"), result)

    def test_an_evaluation_reads_only_what_it_evaluates(self):
        self.assertEqual(self.train("imagefolder", *SMALL).code, 0)
        os.rename(f"{self.folder}/train", f"{self.folder}/gone")
        result = self.call("evaluate", self.run_path())
        self.assertEqual(result.code, 0, result)
        held = [flag for field in ("data.test_path=", "data.held_out=0.4", f"data.path={self.folder}/gone")
                for flag in ("--set", field)]
        self.assertEqual(self.call(*self.arguments("train", "imagefolder", "--run-dir", self.run_path("held"), *SMALL,
                                                   *held)).code, 0)
        for root, _, files in os.walk(f"{self.folder}/gone"):
            for file in files:
                os.truncate(f"{root}/{file}", 60)
        result = self.call("evaluate", self.run_path("held"))
        self.assertIn("it is left out", result.err)
        self.assertNotIn("stands in for it", result.err, "images to train on are not read")

    def test_classes_may_have_names_in_any_script(self):
        for part in ("train", "test"):
            os.rename(f"{self.folder}/{part}/blue", f"{self.folder}/{part}/猫")
            os.rename(f"{self.folder}/{part}/red", f"{self.folder}/{part}/\U0001F431 red")
        result = self.train("imagefolder", *SMALL)
        self.assertEqual(result.code, 0, result)
        self.assertIn("note: in pictures/test-confusion: U+1F431 is shown as a frame: GNU Unifont has no such letter",
                      result.err)
        evaluated = self.call("evaluate", self.run_path(), "--pictures", self.run_path("pictures"))
        self.assertIn("note: in that picture U+1F431 is shown as a frame", evaluated.err)
        self.assertRegex(evaluated.out, r"\nclass   images .*\n(.*\n)?猫      2 ", "columns are as wide as a terminal shows them")

    def test_another_model_than_the_checkpoints_is_refused_with_the_field(self):
        self.assertEqual(self.train("imagefolder", *SMALL).code, 0)
        for dry in ((), ("--dry-run",)):
            result = self.call("resume", self.run_path(), "--set", "model.width=8", "--set", "train.steps=3", *dry)
            self.assertEqual(result.code, 2, result)
            self.assertRegex(result.err, r"of another model \(model\.width: 4 -> 8\): 'conv1.weight' of the state is "
                             r"Float \[4, 3, 3, 3\], and the model's is Float \[8, 3, 3, 3\]\.")

    def test_too_little_memory_is_told_with_what_to_change(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (64 << 30, 64 << 30))

        arguments = self.arguments("train", "imagefolder", "--dry-run", "--set", "model.name=convnet", "--set",
                                   "model.width=4096", "--set", "data.size=4096")
        done = subprocess.run([support.PROGRAM, *arguments], cwd=self.folder, capture_output=True, text=True,
                              preexec_fn=limit, timeout=support.TIMEOUT)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a smaller data.batch, smaller images or texts, or a smaller model need less", done.stderr)
        self.assertNotIn("frame #", done.stderr)

    def test_what_is_there_and_what_is_ignored_is_said(self):
        os.makedirs(f"{self.folder}/train/red/more")
        for name in ("red/a.gif", "red/b.webp", "red/c.gif", "notes.txt"):
            with open(f"{self.folder}/train/{name}", "wb"):
                pass
        result = self.train("imagefolder", *SMALL)
        self.assertEqual(result.code, 0, result)
        for line in ("12 images to train on, 4 to evaluate on, 2 classes", "to train on: blue 6, red 6",
                     "to train on: from 40 x 50 to 45 x 45 pixels",
                     "to train on: ignored: 2 .gif files", "to train on: ignored: 1 .webp files",
                     "to train on: ignored: 1 folders inside of classes",
                     "to train on: ignored: 1 files beside the classes"):
            self.assertIn(f"note: {line}\n", result.err)
        again = self.train("imagefolder", *SMALL, "--set", "train.steps=3")
        self.assertNotIn("images to train on", again.err, "it was said at the first start")

    def test_images_can_be_held_out(self):
        sets = ["--set", "data.test_path=", "--set", "data.held_out=0.4"]
        result = self.train("imagefolder", *SMALL, *sets)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.err, r"note: (\d+) images to train on, (\d+) to evaluate on")
        both = self.call(*self.arguments("train", "imagefolder", *SMALL, "--run-dir", self.run_path("both"), "--set",
                                         "data.held_out=0.4"))
        self.assertEqual(both.code, 2, both)
        self.assertIn("set one of them only", both.err)

    def test_other_classes_than_those_of_the_checkpoint_are_refused_by_name(self):
        self.assertEqual(self.train("imagefolder", *SMALL).code, 0)
        for part in ("train", "test"):
            os.rename(f"{self.folder}/{part}/blue", f"{self.folder}/{part}/violet")
        for result in (self.call("evaluate", self.run_path()), self.call("resume", self.run_path()),
                       self.train("imagefolder", *SMALL, "--set", "train.steps=4")):
            self.assertEqual(result.code, 2, result)
            self.assertIn("only in the checkpoint: blue; only in the data: violet", result.err)

    def test_an_epoch_that_leaves_one_image_over_trains(self):
        # 12 images in batches of 11, and at 32 pixels ResNet normalises single values.
        sets = ["data.size=32", "data.batch=11", "train.steps=0", "train.epochs=2"]
        flags = [flag for field in sets for flag in ("--set", field)]
        result = self.train("imagefolder", *flags)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.events("end")[-1]["step"], 2, "two epochs of one batch")
        kept = self.call(*self.arguments("train", "imagefolder", "--run-dir", self.run_path("kept"), *flags,
                                         "--set", "data.rest=keep"))
        self.assertEqual(kept.code, 2, kept)
        self.assertIn("set data.batch to at least 8", kept.err)
        self.assertFalse(os.path.exists(self.run_path("kept") + "/recipe.toml"), "nothing was begun")

    def test_a_rest_that_is_all_there_is_cannot_be_dropped(self):
        result = self.train("imagefolder", "--set", "data.batch=16", "--set", "data.rest=drop")
        self.assertEqual(result.code, 2, result)
        self.assertIn("there are 12 images", result.err)

    def test_the_number_of_devices_does_not_matter(self):
        result = self.call(*self.arguments("verify", "imagefolder", "--devices", "cpu:0-1", "--steps", "2"))
        self.assertEqual(result.code, 0, result)
        self.assertIn("equal, bit for bit", result.out)

    def test_a_folder_without_classes_is_named(self):
        os.makedirs(f"{self.folder}/none")
        result = self.train("imagefolder", "--set", f"data.path={self.folder}/none")
        self.assertEqual(result.code, 2, result)
        self.assertIn(f"{self.folder}/none", result.err)


if __name__ == "__main__":
    support.main()
