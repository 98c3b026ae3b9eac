"""`lockstep evaluate`, `inspect` and `export` of what a training left behind."""

import json
import math
import os
import re
import struct
import zlib

import support
from run_files import checkpoint, last_checkpoint, manifest, read_safetensors, steps_of
from support import ProgramTest


class OfARun(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.live, cls.averaged = f"{cls.class_folder}/live", f"{cls.class_folder}/averaged"
        maker = cls("test_inspect_lists_names_shapes_norms_step_and_metrics")
        maker.folder = cls.class_folder
        sets = ["optimizer.average=0.9", "evaluate.every_steps=10", "save.every_steps=10",
                "save.keep_last=2", "data.augment=false"]
        cls.trained = maker.train(cls.live, 40, sets=sets)
        maker.assertExit(0, cls.trained)
        cls.trained_averaged = maker.train(cls.averaged, 40,
                                           sets=[*sets, "evaluate.averaged=true"])
        maker.assertExit(0, cls.trained_averaged)

    def evaluation(self, *arguments):
        result = self.call("evaluate", *arguments, "--log", "json")
        self.assertExit(0, result)
        (event,) = result.events("evaluation")
        return event

    def test_evaluate_says_what_the_training_said_to_the_digit_on_any_devices(self):
        told = self.trained.events("evaluation")[-1]
        for devices in ("cpu:0", "cpu:0-2"):
            found = self.evaluation(self.live, "--devices", devices)
            self.assertEqual((40, "test", False), (found["step"], found["set"], found["averaged"]))
            self.assertEqual(told["metrics"], found["metrics"], devices)
        self.assertEqual(told["metrics"]["accuracy"],
                         manifest(checkpoint(self.live, 40))["metrics"]["test/accuracy"])

    def test_evaluate_takes_the_averaged_weights_if_the_recipe_did(self):
        told = self.trained_averaged.events("evaluation")[-1]
        self.assertTrue(told["averaged"])
        found = self.evaluation(self.averaged, "--devices", "cpu:0-1")
        self.assertTrue(found["averaged"])
        self.assertEqual(told["metrics"], found["metrics"])

    def test_live_and_averaged_weights_can_be_asked_for(self):
        # The two runs differ in what is evaluated only: each has what the other evaluated.
        live = self.evaluation(self.averaged, "--weights", "live", "--devices", "cpu:0")
        self.assertEqual(self.trained.events("evaluation")[-1]["metrics"], live["metrics"])
        averaged = self.evaluation(self.live, "--weights", "averaged", "--devices", "cpu:0")
        self.assertEqual(self.trained_averaged.events("evaluation")[-1]["metrics"],
                         averaged["metrics"])
        self.assertNotEqual(live["metrics"], averaged["metrics"])

    def test_evaluate_takes_one_checkpoint_too_and_the_text_has_four_digits(self):
        result = self.call("evaluate", checkpoint(self.live, 40), "--devices", "cpu:0")
        self.assertExit(0, result)
        told = self.trained.events("evaluation")[-1]["metrics"]
        self.assertSays(f"step 40 test: accuracy {told['accuracy']:.4f} loss {told['loss']:.4f}",
                        result.out)
        older = steps_of(self.live)[0]
        result = self.call("evaluate", checkpoint(self.live, older), "--devices", "cpu:0")
        self.assertSays(f"^step {older} test: accuracy", result.out)

    def test_best_is_the_best_by_the_recipes_metric(self):
        found = self.evaluation(self.live, "--best", "--devices", "cpu:0")
        self.assertEqual(max(e["metrics"]["accuracy"] for e in self.trained.events("evaluation")),
                         found["metrics"]["accuracy"])

    def test_pictures_are_png_files(self):
        folder = f"{self.folder}/pictures"
        result = self.call("evaluate", self.live, "--devices", "cpu:0", "--pictures", folder)
        self.assertExit(0, result)
        self.assertIn(f"{folder}/test-confusion.png", result.err)
        with open(f"{folder}/test-confusion.png", "rb") as file:
            content = file.read()
        self.assertEqual(b"\x89PNG\r\n\x1a\n", content[:8])
        at, kinds, pixels = 8, [], b""
        while at < len(content):
            (length,) = struct.unpack(">I", content[at : at + 4])
            kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
            (crc,) = struct.unpack(">I", content[at + 8 + length : at + 12 + length])
            self.assertEqual(zlib.crc32(kind + body), crc)
            kinds.append(kind)
            pixels += body if kind == b"IDAT" else b""
            at += 12 + length
        self.assertEqual([b"IHDR", b"IEND"], [kinds[0], kinds[-1]])
        self.assertGreater(len(set(zlib.decompress(pixels))), 10, "something is drawn")

    def test_inspect_lists_names_shapes_norms_step_and_metrics(self):
        result = self.call("inspect", self.live)
        self.assertExit(0, result)
        for step in steps_of(self.live):
            self.assertSays(f"step-{step:09d} whole", result.out)
        self.assertSays("every file has the size and the SHA-256 of the manifest", result.out)
        self.assertSays(r"step 40, 40 updates, epoch 5, 1280 samples", result.out)
        self.assertSays(r"input position 5 0.*seed 1, 4 shards", result.out)
        metrics = manifest(checkpoint(self.live, 40))["metrics"]
        self.assertSays(f"metrics: test/accuracy {metrics['test/accuracy']:.4f}", result.out)
        for title in ("weights", "averages", "slots"):
            self.assertRegex(result.out, rf"(?m)^{title}: \d+ tensors, \d+ values$")
        tensors = read_safetensors(f"{checkpoint(self.live, 40)}/weights.safetensors")
        self.assertIn("conv1.weight", tensors)
        for name, (dtype, shape, content) in tensors.items():
            self.assertRegex(result.out, rf"(?m)^  {re.escape(name)}  .*{re.escape(str(shape))}")
            if dtype == "F32":
                values = struct.unpack(f"<{len(content) // 4}f", content)
                norm = math.sqrt(math.fsum(value * value for value in values))
                line = next(line for line in result.out.splitlines() if f" {name} " in line)
                shown = float(line.split("norm ")[1])
                self.assertAlmostEqual(norm, shown, delta=1e-4 * norm + 1e-9)

    def test_inspect_and_evaluate_say_what_is_missing(self):
        for command in ("inspect", "evaluate"):
            result = self.call(command, f"{self.folder}/nothing")
            self.assertExit(2, result)
            self.assertSays("no run and no checkpoint at '.*nothing'", result.err)
            result = self.call(command, self.folder)
            self.assertExit(2, result)
            self.assertSays("no whole checkpoint in", result.err)

    def exported(self, *arguments):
        path = f"{self.folder}/model.safetensors"
        result = self.call("export", self.live, path, *arguments)
        self.assertExit(0, result)
        self.assertIn(path, result.out)
        return read_safetensors(path)

    def test_export_of_live_weights_has_the_names_and_bytes_of_the_checkpoint(self):
        inside = read_safetensors(f"{last_checkpoint(self.live)}/weights.safetensors")
        self.assertTrue(inside == self.exported("--weights", "live", "--newest"))
        self.assertTrue({"conv1.weight", "norm1.running_mean", "output.bias"} <= set(inside))

    def test_export_of_averaged_weights_has_the_same_names_and_the_averages(self):
        inside = read_safetensors(f"{last_checkpoint(self.live)}/weights.safetensors")
        averages = read_safetensors(f"{last_checkpoint(self.live)}/averages.safetensors")
        found = self.exported("--newest")
        self.assertEqual(set(inside), set(found))
        self.assertTrue(averages)
        for name, tensor in found.items():
            self.assertEqual(averages.get(name, inside[name]), tensor, name)
        self.assertNotEqual(inside["conv1.weight"], found["conv1.weight"])

    def test_export_of_weights_in_several_files_makes_one(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 3, sets=["save.files=4"]))
        path = f"{self.folder}/one.safetensors"
        self.assertExit(0, self.call("export", run, path))
        inside = {}
        for name in os.listdir(last_checkpoint(run)):
            if name.startswith("weights-"):
                inside |= read_safetensors(f"{last_checkpoint(run)}/{name}")
        self.assertTrue(inside == read_safetensors(path))

    def test_export_does_not_write_over_a_file_without_force(self):
        path = f"{self.folder}/model.safetensors"
        with open(path, "w", encoding="ascii") as file:
            file.write("precious")
        refused = self.call("export", self.live, path)
        self.assertExit(2, refused)
        self.assertSays("is there already: --force", refused.err)
        with open(path, encoding="ascii") as file:
            self.assertEqual("precious", file.read())
        self.assertIn("conv1.weight", self.exported("--force"))

    def test_averages_that_are_not_there_are_not_made_up(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 2))
        for arguments in (["export", run, f"{self.folder}/x"], ["evaluate", run]):
            result = self.call(*arguments, "--weights", "averaged")
            self.assertExit(2, result)
            self.assertSays("has no moving averages", result.err)
        self.assertFalse(os.path.exists(f"{self.folder}/x"))

    def test_the_manifest_has_no_number_of_devices(self):
        one, three = self.run_path("one"), self.run_path("three")
        self.assertExit(0, self.train(one, 5))
        self.assertExit(0, self.train(three, 5, devices="cpu:0-2"))
        def timeless(run):
            content = manifest(last_checkpoint(run))
            del content["time"]
            for mark in (content["progress"], content["progress"]["evaluated"],
                         content["progress"]["saved"]):
                del mark["seconds"]
            return json.dumps(content)
        self.assertEqual(timeless(one), timeless(three))

    def test_the_last_checkpoint_has_the_metrics_of_the_last_evaluation(self):
        # Also when a save was due at the last step, before that evaluation.
        run = self.run_path()
        result = self.train(run, 10, sets=["save.every_steps=10"])
        self.assertExit(0, result)
        self.assertEqual(result.events("evaluation")[-1]["metrics"]["accuracy"],
                         manifest(checkpoint(run, 10))["metrics"].get("test/accuracy"))


if __name__ == "__main__":
    support.main()
