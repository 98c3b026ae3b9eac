"""`lockstep predict` and `export`: what a classifier is good for once it is trained."""

import json
import os
import struct

import support
from images_test import ImageTest, png
from run_files import read_safetensors


def metadata(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length))["__metadata__"]


class Predict(ImageTest):
    """Red and blue images, learned well enough to be told apart."""

    def setUp(self):
        super().setUp()
        sets = ["model.name=convnet", "model.width=4", "data.size=32", "data.batch=12", "train.steps=30",
                "schedule.warm_up=0", "optimizer.name=adam", "optimizer.momentum=0", "optimizer.lr=0.01",
                "optimizer.average=0.5"]
        result = self.train("imagefolder", *(flag for field in sets for flag in ("--set", field)))
        self.assertEqual(result.code, 0, result)

    def test_the_classes_of_files_and_folders_are_printed_with_scores(self):
        png(f"{self.folder}/one.png", 33, 50, (200, 30, 20))
        result = self.call("predict", self.run_path(), "one.png", "test/blue", "--json")
        self.assertExit(0, result)
        found = [json.loads(line) for line in result.out.splitlines()]
        self.assertEqual(["one.png", "test/blue/0.png", "test/blue/1.png"], [one["file"] for one in found])
        self.assertEqual(["red", "blue", "blue"], [one["classes"][0]["class"] for one in found])
        for one in found:
            self.assertAlmostEqual(1, sum(each["score"] for each in one["classes"]), places=4)
        table = self.call("predict", self.run_path(), "one.png", "--top", "1")
        self.assertRegex(table.out, r"^one\.png:  red 0\.\d{3}\n$")

    def test_bad_files_are_told_and_skipped(self):
        with open(f"{self.folder}/bad.png", "wb") as file:
            file.write(b"no picture")
        result = self.call("predict", self.run_path(), "bad.png", "test/red")
        self.assertExit(0, result)
        self.assertEqual(2, result.out.count("\n"))
        self.assertIn("skipped: bad.png", result.err)
        self.assertExit(2, self.call("predict", self.run_path(), "bad.png"))
        self.assertExit(2, self.call("predict", self.run_path(), "nowhere.png"))

    def test_an_export_says_what_it_means(self):
        result = self.call("export", self.run_path(), "model.safetensors")
        self.assertExit(0, result)
        self.assertIn("averaged weights", result.out)
        path = f"{self.folder}/model.safetensors"
        found = metadata(path)
        self.assertEqual(("classify", "averaged", "pt"), (found["family"], found["weights"], found["format"]))
        images = json.loads(found["images.json"])
        self.assertEqual(["blue", "red"], images["classes"])
        self.assertEqual([0.485, 0.456, 0.406], images["mean"])
        self.assertIn("[model]", found["recipe"])
        self.assertIn("output.weight", read_safetensors(path))
        # And another training can begin from it.
        begun = self.call(*self.arguments("train", "imagefolder", "--run-dir", self.run_path("second"), "--set",
                                          f"init.weights={path}", "--set", "model.name=convnet", "--set",
                                          "model.width=4", "--set", "data.size=32", "--set", "data.batch=8"))
        self.assertExit(0, begun)
        self.assertRegex(begun.err, r"init\.weights: (\d+) of \1 tensors")

    def test_a_name_that_promises_another_format_is_refused(self):
        for name in ("model.pt", "model.onnx"):
            result = self.call("export", self.run_path(), name)
            self.assertExit(2, result)
            self.assertIn("promises another format", result.err)
            self.assertFalse(os.path.exists(f"{self.folder}/{name}"))

    def test_evaluate_has_figures_for_each_class(self):
        result = self.call("evaluate", self.run_path())
        self.assertExit(0, result)
        self.assertRegex(result.out, r"(?m)^class +images +recall +precision$")
        for name in ("blue", "red"):
            self.assertRegex(result.out, rf"(?m)^{name} +2 +[01]\.\d+ +([01]\.\d+|-)$")


if __name__ == "__main__":
    support.main()
