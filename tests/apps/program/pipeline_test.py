"""`--strategy pipeline`: parts of a model on different devices, with the result of one device."""

import json
import os
import re

import support
import text_files
from run_files import checkpoint, last_checkpoint, manifest, tensor_bytes
from support import ProgramTest

# A model that takes milliseconds a step, with dropout, averages and clipping.
SMALL = ["seq2seq.hidden=16", "seq2seq.embedding=8", "seq2seq.layers=1", "seq2seq.keep=0.7", "data.batch=16",
         "data.test_batch=16", "data.workers=1", "data.kind=tsv", "text.vocabulary=60", "text.held_out=0.2",
         "decode.max_length=4", "decode.tested=1", "optimizer.average=0.9", "optimizer.clip=1", "train.epochs=0",
         "train.report_every=3", "evaluate.every_epochs=0", "save.every_seconds=0",
         "schedule.name=inverse_sqrt", "schedule.warm_up=5", "train.steps=12"]


class Pipeline(ProgramTest):
    def setUp(self):
        super().setUp()
        self.tsv = text_files.write_tsv(f"{self.folder}/pairs.tsv", text_files.pairs(120))

    def sets(self, *more):
        fields = [*SMALL, f"data.path={self.tsv}", *more]
        return [flag for field in fields for flag in ("--set", field)]

    def chat(self, run, steps, devices, strategy, *more, sets=(), log="json", **how):
        return self.call("train", "chat", *self.sets(f"train.steps={steps}", *sets), "--run-dir", run, "--log", log,
                         "--devices", devices, "--strategy", strategy, *more, **how)

    def images(self, *more):
        return ["fashion", "--set", f"data.path={self.data}", "--set", "data.batch=16", "--strategy", "pipeline",
                "--steps", "2", *(flag for field in more for flag in ("--set", field))]

    def test_a_run_goes_on_with_other_stages_devices_and_strategies_bit_for_bit(self):
        parts = ((3, "0-1", "pipeline", ()), (5, "0-2", "pipeline", ["pipeline.stages=3"]),
                 (7, "0-2", "mirrored", ()), (9, "0", "pipeline", ["pipeline.ahead=1"]),
                 (12, "0-3", "pipeline", ["pipeline.recompute=true", "pipeline.ahead=2"]))
        for kind in ("cpu", "sim"):
            alone, moved = self.run_path(f"{kind}-alone"), self.run_path(f"{kind}-moved")
            self.assertExit(0, self.chat(alone, 12, f"{kind}:0", "mirrored"))
            for steps, devices, strategy, sets in parts:
                result = self.chat(moved, steps, f"{kind}:{devices}", strategy, sets=sets)
                self.assertExit(0, result)
                self.assertEqual("mirrored" if devices == "0" else strategy, result.events("start")[0]["strategy"])
            if kind == "cpu":
                self.assertSameTraining(alone, moved)
            # A pipeline evaluates on the CPU, whose metrics are not those of another kind of device.
            self.assertEqual(*(tensor_bytes(last_checkpoint(run)) for run in (alone, moved)), kind)

    def test_its_checkpoints_are_evaluated_on_any_number_of_cpu_devices(self):
        run = self.run_path()
        self.assertExit(0, self.chat(run, 3, "cpu:0-1", "pipeline"))
        trained = manifest(checkpoint(run, 3))["metrics"]
        for devices in ("cpu:0", "cpu:0-2"):
            evaluated = self.call("evaluate", run, "--devices", devices, "--log", "json")
            self.assertExit(0, evaluated)
            self.assertEqual(trained["test/perplexity"], evaluated.events()[0]["metrics"]["perplexity"])

    def test_the_console_has_the_plan_and_the_trace_every_forward_and_backward(self):
        result = self.chat(self.run_path(), 3, "sim:0-1", "pipeline", "--trace", "trace.json", log="text")
        self.assertExit(0, result)
        self.assertRegex(result.out, r"(?m)^pipeline on sim:0 sim:1$")
        for stage, shards in ((1, "2 shards"), (2, "1 shard")):
            self.assertRegex(result.out, rf"(?m)^note: stage {stage} of 2 on sim:{stage - 1}: \d+ parameters, .*up to "
                                         rf"{shards} in flight\.$")
        self.assertRegex(result.out, r"(?m)^step 3 .*samples/s  sim:1 \d\.\d+")
        self.assertNotIn("nan", result.out)
        with open(f"{self.folder}/trace.json", encoding="utf-8") as file:
            content = json.load(file)
        events = content["traceEvents"] if isinstance(content, dict) else content
        spans = [event["name"] for event in events if re.fullmatch(r"[FB] \d", event.get("name", ""))]
        self.assertEqual(3 * 2 * 2 * 4, len(spans), "3 steps, 2 stages, forward and backward, 4 shards")
        alone = self.chat(self.run_path("alone"), 1, "cpu:0", "pipeline", log="text")
        self.assertExit(0, alone)
        self.assertSays("note: one device has the whole model: a pipeline there is mirrored", alone.err)

    def test_a_model_that_does_not_fit_one_device_trains_on_two(self):
        big = ["seq2seq.hidden=128", "seq2seq.embedding=128", "seq2seq.layers=2"]
        small_memory = {"env": {**os.environ, "LOCKSTEP_SIM": "devices=2,memory=12400000"}}
        result = self.chat(self.run_path("one"), 2, "sim:0-1", "mirrored", sets=big, **small_memory)
        self.assertExit(1, result)
        self.assertSays("out of memory", result.err)
        self.assertExit(0, self.chat(self.run_path("two"), 2, "sim:0-1", "pipeline", sets=big, **small_memory))

    def test_verify_compares_stages_and_replicas_with_one_device(self):
        equal = "1 and {} devices, {} steps in 4 shards: equal, bit for bit\n"
        result = self.call("verify", "chat", *self.sets(), "--strategy", "pipeline", "--devices", "sim:0-3",
                           "--counts", "1,2,4")
        self.assertExit(0, result)
        self.assertEqual(equal.format(2, 3) + equal.format(4, 3), result.out)
        for fields in (["model.width=2", "pipeline.stages=3"], ["model.name=resnet20", "pipeline.stages=3"]):
            with self.subTest(fields):
                result = self.call("verify", *self.images(*fields), "--devices", "cpu:0-2")
                self.assertExit(0, result)
                self.assertEqual(equal.format(3, 2), result.out)

    def test_scaling_measures_one_device_and_the_multiples_of_stages(self):
        result = self.call("scaling", "chat", *self.sets(), "--strategy", "pipeline", "--devices", "sim:0-4",
                           "--seconds", "0.1", "--plot", f"{self.folder}/plot.svg",
                           env={**os.environ, "LOCKSTEP_SIM": "devices=5"})
        self.assertExit(0, result)
        rows = re.findall(r"(?m)^ +(\d) +\d+ +\d\.\d\d +\d+\.\d\d s  \w.+$", result.out)
        self.assertEqual(["1", "2", "4"] * 2, rows, result.out)
        with open(f"{self.folder}/plot.svg", encoding="utf-8") as file:
            self.assertIn("chat, pipeline of 2 stages, 4 shards", file.read())

    def test_what_makes_no_sense_is_refused_by_name(self):
        def refused(pattern, devices, strategy, *sets):
            result = self.chat(self.run_path(), 2, devices, strategy, sets=sets)
            self.assertExit(2, result)
            self.assertSays(pattern, result.err)

        refused("pipeline.stages is read only when strategy is pipeline", "cpu:0-1", "mirrored", "pipeline.stages=3")
        refused("pipeline.ahead is read only when strategy is pipeline", "cpu:0-1", "async", "pipeline.ahead=1")
        refused("async.delay is read only when strategy is async", "cpu:0-1", "pipeline", "async.delay=1")
        refused("pipeline.stages is 4, and models of the family seq2seq are cut into 2 or 3", "cpu:0-3", "pipeline",
                "pipeline.stages=4")
        refused("pipeline.stages is 2, and there are 3 devices: give --devices 2 of them or a multiple", "cpu:0-2",
                "pipeline")
        result = self.call("verify", *self.images("pipeline.stages=4"), "--devices", "cpu:0-3")
        self.assertExit(2, result)
        self.assertSays("pipeline.stages is 4, and this model.name has 3 parts.*2 to 3", result.err)
        shown = self.call("train", "--help").out
        self.assertSays(r"\[pipeline\] .*pipeline.stages +2 parts of the model.*pipeline.recompute.*pipeline.ahead",
                        shown)


if __name__ == "__main__":
    support.main()
