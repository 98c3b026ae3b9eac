"""`--strategy async`: another strategy is a flag away in every command."""

import re

import support
from run_files import checkpoint, manifest, steps_of
from support import ProgramTest


class Async(ProgramTest):
    def small(self, *more):
        return ["fashion", "--set", f"data.path={self.data}", "--set", "data.batch=32", "--set",
                "model.width=2", *more]

    def async_train(self, run, steps, *more, devices="cpu:0-1", sets=(), log="json"):
        return self.call(*self.train_arguments(run, steps, devices, sets, log), "--strategy",
                         "async", *more)

    def test_the_start_and_the_reports_say_how_late_gradients_are(self):
        text = self.async_train(self.run_path("text"), 20, log="text")
        self.assertExit(0, text)
        self.assertRegex(text.out, r"(?m)^async on cpu:0 cpu:1$")
        self.assertRegex(text.out, r"(?m)^in 1 shard$")
        self.assertRegex(text.out, r"(?m)^applies each gradient 3 updates late$")
        self.assertRegex(text.out, r"(?m)^step 20 .*  staleness 3\.0, at most 3  \d+ samples/s")
        self.assertNotIn("1 shard on 2 devices", text.out + text.err)
        run = self.run_path()
        result = self.async_train(run, 20, "--placement-report")
        self.assertExit(0, result)
        self.assertEqual("async", result.events("start")[0]["strategy"])
        first, last = result.events("report")
        self.assertEqual({"mean": 2.4, "max": 3, "steps": {"0": 1, "1": 1, "2": 1, "3": 7}},
                         first["staleness"])
        self.assertEqual(3, last["staleness"]["mean"])
        self.assertSays("cpu:0 tower 0, 1 shard cpu:1 tower 1, 1 shard", result.err)
        self.assertEqual(320, sum(tower["rows"] for tower in last["towers"]))
        plain = self.train(self.run_path("mirrored"), 10)
        self.assertIsNone(plain.events("report")[0]["staleness"])

    def test_every_command_takes_its_checkpoints(self):
        run = self.run_path()
        self.assertExit(0, self.async_train(run, 10, sets=["optimizer.average=0.9"]))
        self.assertEqual(3, manifest(checkpoint(run, 10))["version"])
        trained = manifest(checkpoint(run, 10))["metrics"]["test/accuracy"]
        evaluated = self.call("evaluate", run, "--devices", "cpu:0", "--log", "json")
        self.assertExit(0, evaluated)
        self.assertEqual(trained, evaluated.events()[0]["metrics"]["accuracy"])
        inspected = self.call("inspect", run)
        self.assertExit(0, inspected)
        self.assertRegex(inspected.out, r"(?m)^  older-00001-of-00003\.safetensors  \d+ bytes")
        self.assertSays(r"older weights.*of step 7: \d+ tensors, norm .*of step 9: ", inspected.out)
        self.assertExit(0, self.call("export", run, f"{self.folder}/model.safetensors"))
        begun = self.train(self.run_path("begun"), 2, sets=[f"init.weights={run}"])
        self.assertExit(0, begun)
        self.assertNotIn("older", begun.err)

    def test_a_run_goes_on_with_another_strategy_only_if_that_is_asked_for(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 5))
        asked = self.async_train(run, 12)
        self.assertExit(0, asked)
        self.assertEqual((5, 4), tuple(asked.events("start")[0][key] for key in ("step", "shards")))
        self.assertSays('changed since the checkpoint: strategy: "mirrored" -> "async"', asked.err)
        refused = self.train(run, 20)
        self.assertExit(2, refused)
        self.assertSays(r"async.delay: 3 -> none, async.order: delay -> none.*--set", refused.err)
        again = self.async_train(run, 20, sets=["async.delay=1"])
        self.assertExit(0, again)
        self.assertIn("applies each gradient 1 update late", again.events("start")[0]["plan"])
        refused = self.async_train(run, 24)
        self.assertExit(2, refused)
        self.assertSays(r"\(async.delay: 1 -> 3\)", refused.err)
        back = self.call(*self.train_arguments(run, 24), "--strategy", "mirrored")
        self.assertExit(0, back)
        self.assertEqual(24, steps_of(run)[-1])

    def test_free_order_trains_and_goes_on(self):
        run = self.run_path()
        sets = ["async.order=free", "async.staleness=4"]
        for steps in (10, 20):
            result = self.async_train(run, steps, sets=sets, devices="cpu:0-2")
            self.assertExit(0, result)
            self.assertLessEqual(result.events("report")[-1]["staleness"]["max"], 4)
            self.assertEqual(steps, steps_of(run)[-1])

    def test_verify_compares_every_bit(self):
        result = self.call("verify", *self.small("--strategy", "async"), "--devices", "cpu:0-2")
        self.assertExit(0, result)
        self.assertEqual("1 and 3 devices, 6 steps in 1 shard: equal, bit for bit\n", result.out)
        result = self.call("verify", *self.small("--strategy", "async", "--set",
                                                 "async.order=free"), "--devices", "cpu:0-2")
        self.assertExit(2, result)
        self.assertSays("async.order is free.*Set async.order=delay", result.err)

    def test_scaling_measures_devices_with_batches_of_their_own(self):
        plot = f"{self.folder}/plot.svg"
        result = self.call(
            "scaling", *self.small("--strategy", "async", "--set", "async.delay=1"), "--devices",
            "cpu:0-2", "--counts", "1,3", "--seconds", "0.3", "--plot", plot)
        self.assertExit(0, result)
        self.assertNotIn("strong", result.out)
        self.assertIn("weak: the batch of a device stays 32", result.out)
        rows = re.findall(r"(?m)^ +([13]) +(\d+) +\d\.\d\d +\d+\.\d\d s  (\w.+)$", result.out)
        self.assertEqual(["1", "3"], [row[0] for row in rows], result.out)
        self.assertEqual("async.delay: it is 1, so 2 devices compute at a time", rows[1][2])
        with open(plot, encoding="utf-8") as file:
            self.assertNotIn("the global batch stays", file.read())

    def test_what_makes_no_sense_is_refused_by_name(self):
        def refused(pattern, *flags, sets=()):
            result = self.call(*self.train_arguments(self.run_path(), 4, sets=sets), *flags)
            self.assertExit(2, result)
            self.assertSays(pattern, result.err)

        refused("async.delay is read only when strategy is async", sets=["async.delay=2"])
        refused("async.staleness is read only when async.order is free", "--strategy", "async",
                sets=["async.staleness=2"])
        refused("async.delay: .*allowed: an integer from 0 to 1024", "--strategy", "async",
                sets=["async.delay=-1"])
        refused("--strategy.*mirrored,async,pipeline", "--strategy", "asink")


if __name__ == "__main__":
    support.main()
