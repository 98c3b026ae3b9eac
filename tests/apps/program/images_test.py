"""`lockstep train imagefolder`: a folder of one's own images."""

import os
import struct
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


class Images(support.ProgramTest):
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
        result = self.train("imagefolder", "--set", "train.steps=9")
        self.assertEqual(result.code, 2, result)
        self.assertIn(path, result.err)

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
