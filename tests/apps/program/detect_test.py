"""`lockstep train detect` and `lockstep detect`: things in pictures, drawn here."""

import json
import os
import shutil

import box_files
import support


class Detect(support.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.boxes = f"{cls.class_folder}/boxes"
        cls.made = box_files.make_scenes(f"{cls.boxes}/train", 24, 1)
        cls.test = box_files.make_scenes(f"{cls.boxes}/val", 7, 2, 101)
        box_files.write_coco(f"{cls.boxes}/train/all.json", cls.made)
        box_files.write_coco(f"{cls.boxes}/val/all.json", cls.test)

    def fields(self, steps, more=()):
        return [f"data.path={self.boxes}/train/all.json", f"data.test_path={self.boxes}/val/all.json", "data.kind=coco",
                "data.batch=8", "data.test_batch=3", "detector.width=0.25", "detector.size=96", "detector.lite=true",
                "init.weights=", "train.epochs=0", f"train.steps={steps}", "train.report_every=2", "evaluate.every_epochs=0",
                "augment.expand=2", "save.every_seconds=0", *more]

    def arguments(self, command, steps, *more, sets=()):
        return [command, "detect", *(flag for field in self.fields(steps, sets) for flag in ("--set", field)), *more]

    def train(self, steps, *more, run="run", devices="cpu:0-1", sets=()):
        return self.call(*self.arguments("train", steps, "--run-dir", self.run_path(run), "--log", "json",
                                         "--devices", devices, *more, sets=sets))

    def coco_with(self, change):
        """A copy of the training data whose annotations `change` has edited."""
        data = box_files.coco(self.made)
        change(data)
        path = f"{self.folder}/changed.json"
        with open(path, "w") as file:
            json.dump(data, file, indent=1)
        return [f"data.path={path}", f"data.pictures={self.boxes}/train"]

    def test_it_trains_resumes_on_other_devices_and_finds_things(self):
        whole = self.train(6, run="whole", devices="cpu:0", sets=["save.every_steps=3"])
        self.assertEqual(whole.code, 0, whole)
        metrics = whole.events("evaluation")[-1]["metrics"]
        for name in ("AP", "AP50", "APs", "AR100", "voc2007", "voc2010", "loss"):
            self.assertIn(name, metrics)
        report = whole.events("report")[-1]["metrics"]
        self.assertEqual(sorted(report), ["classification", "localization", "negatives", "positives"])
        for name in ("input-pictures", "val-confusion", "val-detections", "val-precision_recall"):
            self.assertTrue(os.path.exists(f"{self.run_path('whole')}/pictures/{name}.png"), name)

        first = self.train(3, run="parts", devices="cpu:0-2", sets=["save.every_steps=3"])
        self.assertEqual(first.code, 0, first)
        second = self.train(6, run="parts", devices="cpu:0-1", sets=["save.every_steps=3"])
        self.assertEqual(second.code, 0, second)
        self.assertSameTraining(self.run_path("whole"), self.run_path("parts"))

        out = self.call("detect", self.run_path("whole"), f"{self.boxes}/val", "--out", "found", "--score", "0",
                        "--most", "3", "--json", "found.json", "--yolo")
        self.assertEqual(out.code, 0, out)
        self.assertEqual(len(out.out.splitlines()), 7)
        self.assertEqual(sorted(os.listdir(f"{self.folder}/found")),
                         sorted([f"{i:06}.jpg" for i in range(101, 108)] + ["labels"]))
        with open(f"{self.folder}/found.json") as file:
            found = json.load(file)
        self.assertEqual(len(found), 21)
        self.assertEqual({thing["image_id"] for thing in found}, set(range(101, 108)))
        self.assertLessEqual({thing["category_id"] for thing in found}, set(box_files.CLASSES))
        with open(f"{self.folder}/found/labels/000101.txt") as file:
            self.assertEqual(len(file.readlines()), 3)

    def test_the_number_of_devices_does_not_matter(self):
        for strategy, devices in (("mirrored", "cpu:0-2"), ("async", "cpu:0-2"), ("pipeline", "cpu:0-1")):
            result = self.call(*self.arguments("verify", 3, "--devices", devices, "--steps", "2", "--strategy", strategy,
                                               sets=["async.delay=1"] if strategy == "async" else ()))
            self.assertEqual(result.code, 0, result)
            self.assertIn("equal, bit for bit", result.out)

    def test_voc_and_yolo_evaluate_as_coco_does(self):
        coco = self.train(1, run="coco", sets=["augment.crop=false", "augment.flip=false", "augment.expand=1"])
        self.assertEqual(coco.code, 0, coco)
        plain = ["augment.crop=false", "augment.flip=false", "augment.expand=1"]
        folder = f"{self.folder}/other"
        for part in ("train", "val"):
            shutil.copytree(f"{self.boxes}/{part}", f"{folder}/images/{part}")
        box_files.write_yolo(folder, {"train": self.made, "val": self.test})
        yolo = self.call("evaluate", self.run_path("coco"), "--log", "json", "--set", "data.kind=yolo", "--set",
                         f"data.path={folder}/data.yaml", "--set", "data.test_path=")
        # Class ids differ (COCO's 3 and 8), so the checkpoint says what it was trained for.
        self.assertEqual(yolo.code, 2, yolo)
        self.assertIn("red, blue", yolo.err)
        for part, made in (("train", self.made), ("val", self.test)):
            box_files.write_voc(f"{folder}/images/{part}", made)
        numbers = {}
        for kind, sets in (("yolo", [f"data.path={folder}/data.yaml", "data.test_path="]),
                           ("voc", [f"data.path={folder}/images/train", f"data.test_path={folder}/images/val"])):
            result = self.train(1, run=kind, sets=[f"data.kind={kind}", *sets, *plain])
            self.assertEqual(result.code, 0, result)
            numbers[kind] = result.events("evaluation")[-1]["metrics"]
        self.assertAlmostEqual(numbers["yolo"]["loss"], coco.events("evaluation")[-1]["metrics"]["loss"], places=5)

    def test_what_is_wrong_with_boxes_is_told_with_its_line_or_refused(self):
        def spoil(data):
            data["annotations"][0]["bbox"][2] = 0
            data["annotations"][1]["category_id"] = 77
            data["annotations"].append(dict(data["annotations"][2], id=999))
            data["images"].append({"id": 500, "file_name": "gone.png", "width": 9, "height": 9})
        sets = self.coco_with(spoil)
        skipped = self.train(1, run="skipped", sets=sets)
        self.assertEqual(skipped.code, 0, skipped)
        for text in ("changed.json:", "gone.png", "77"):
            self.assertIn(text, skipped.err)
        refused = self.train(1, run="refused", sets=[*sets, "data.refuse_bad=true"])
        self.assertEqual(refused.code, 2, refused)
        self.assertRegex(refused.err, r"changed\.json:\d+: .*")

    def test_a_training_without_a_box_says_so_before_it_starts(self):
        result = self.train(1, sets=self.coco_with(lambda data: data["annotations"].clear()))
        self.assertEqual(result.code, 2, result)
        self.assertIn("not a single box", result.err)
        self.assertEqual(result.out, "")

    def test_bad_data_is_named_with_its_line(self):
        for content, expected in (("{\n\"images\": [", "line 2"), ("[1, 2]", "images"), ("{}", "images")):
            with self.subTest(content):
                with open(f"{self.folder}/bad.json", "w") as file:
                    file.write(content)
                result = self.train(1, sets=[f"data.path={self.folder}/bad.json"])
                self.assertEqual(result.code, 2, result)
                self.assertIn(expected, result.err)

    def test_a_broken_picture_is_skipped_and_told(self):
        pictures = f"{self.folder}/pictures"
        shutil.copytree(f"{self.boxes}/train", pictures)
        with open(f"{pictures}/000003.png", "r+b") as file:
            file.truncate(os.path.getsize(file.name) // 2)
        result = self.train(4, sets=[f"data.pictures={pictures}"])
        self.assertEqual(result.code, 0, result)
        self.assertIn("000003.png", result.err)
        refused = self.train(4, run="refused", sets=[f"data.pictures={pictures}", "data.refuse_bad=true"])
        self.assertEqual(refused.code, 2, refused)
        self.assertIn("000003.png", refused.err)
        shutil.copy(f"{pictures}/000003.png", f"{self.folder}/bad.png")
        some = self.call("detect", self.run_path(), "bad.png", f"{self.boxes}/val/000101.png")
        self.assertEqual(some.code, 0, some)
        self.assertIn("bad.png", some.err)
        self.assertIn("1 skipped", some.err)
        none = self.call("detect", self.run_path(), "bad.png")
        self.assertEqual(none.code, 2, none)

    def test_other_classes_are_refused_by_name(self):
        self.assertEqual(self.train(1).code, 0)

        def rename(data):
            data["categories"][1]["name"] = "green"
        result = self.train(2, sets=[*self.coco_with(rename), f"data.test_path={self.folder}/changed.json",
                                     f"data.test_pictures={self.boxes}/train"])
        self.assertEqual(result.code, 2, result)
        self.assertIn("green", result.err)
        self.assertIn("blue", result.err)

    def test_pictures_that_are_not_there_and_runs_of_other_families_are_named(self):
        self.assertEqual(self.train(1).code, 0)
        os.makedirs(f"{self.folder}/empty")
        for arguments, expected in ((["none/*.jpg"], "none/*.jpg"), (["empty"], "no JPEG or PNG"),
                                    ([f"{self.boxes}/val", "--yolo"], "--out")):
            result = self.call("detect", self.run_path(), *arguments)
            self.assertEqual(result.code, 2, result)
            self.assertIn(expected, result.err)

    def test_the_focal_loss_and_the_other_backbone_train(self):
        result = self.train(2, sets=["detector.backbone=mobilenet_v1", "loss.name=focal", "loss.class_bias=-4.6",
                                     "loss.background_as_zeros=true", "detector.pixels=half", "precision=bfloat16"])
        self.assertEqual(result.code, 0, result)


if __name__ == "__main__":
    support.main()
