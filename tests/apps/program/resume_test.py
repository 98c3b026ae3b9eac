"""Resume equals never having stopped, bit for bit, on any number of devices; and checkpoints that are
torn or altered are named and passed over."""

import os
import shutil
import threading

import support
from support import ProgramTest, checkpoint, flip_byte, manifest, steps_of

# Everything that has a state: dropout, slots, moving averages, a schedule that watches the loss.
STATEFUL = ["model.dropout=0.4", "optimizer.average=0.95", "optimizer.average_warm_up=true",
            "optimizer.clip=1", "schedule.name=plateau", "schedule.patience=2", "schedule.factor=0.9",
            "train.report_every=2", "data.augment=true"]


class Resume(ProgramTest):
    def hundred_steps(self, sets):
        run, whole = self.run_path(), self.run_path("whole")
        sets = [*STATEFUL, *sets]
        self.assertExit(0, self.train(whole, 100, sets=sets))
        self.assertGreater(manifest(checkpoint(whole, 100))["progress"]["schedule"]["decays"], 0,
                           "the schedule did nothing that could be lost")
        self.assertIn("averages.safetensors", os.listdir(checkpoint(whole, 100)))

        first = self.watch(run, 100, sets=[*sets, "save.every_steps=37"], devices="cpu:0-2")
        first.wait_for("save", step=37)
        self.assertTrue(first.kill(), "it ended before it was killed")
        self.assertEqual([37], steps_of(run))
        rest = self.train(run, 100, sets=sets, devices="cpu:0")
        self.assertExit(0, rest)
        self.assertEqual(37, rest.events("start")[0]["step"])
        self.assertSameTraining(whole, run)

    def test_hundred_steps_are_37_and_kill_9_and_the_rest_elsewhere_with_adam(self):
        self.hundred_steps(["optimizer.name=adam"])

    def test_hundred_steps_are_37_and_kill_9_and_the_rest_elsewhere_with_momentum(self):
        self.hundred_steps(["optimizer.name=momentum", "optimizer.momentum=0.9",
                            "optimizer.lr=0.02"])

    def test_evaluations_early_stopping_and_best_go_on_as_well(self):
        run, whole = self.run_path(), self.run_path("whole")
        sets = [*STATEFUL, "evaluate.every_steps=7", "evaluate.averaged=true", "save.every_steps=10",
                "evaluate.stop_after=4", "optimizer.lr=0.05"]
        once = self.train(whole, 400, sets=sets)
        self.assertExit(0, once)
        self.assertEqual("early_stop", once.events("end")[0]["ending"])
        evaluations = {e["step"]: e for e in once.events("evaluation")}

        found = {}
        for at in (12, 24):
            part = self.watch(run, 400, sets=sets, devices="cpu:0-1")
            part.wait_for("save", step=at)
            self.assertTrue(part.kill(), "it ended before it was killed")
            found |= {e["step"]: e for e in support.Result(0, "".join(part.lines), "").events("evaluation")}
        rest = self.train(run, 400, sets=sets)
        self.assertExit(0, rest)
        found |= {e["step"]: e for e in rest.events("evaluation")}
        self.assertEqual("early_stop", rest.events("end")[0]["ending"])
        shown = ("step", "averaged", "best", "metrics")
        self.assertEqual({s: [e[k] for k in shown] for s, e in evaluations.items()},
                         {s: [e[k] for k in shown] for s, e in found.items()})
        self.assertSameTraining(whole, run)

    def test_time_spent_in_training_is_counted_over_all_sessions(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 20))
        before = manifest(checkpoint(run, 20))["progress"]["seconds"]
        self.assertGreater(before, 0)
        self.assertExit(0, self.train(run, 30))
        self.assertGreater(manifest(checkpoint(run, 30))["progress"]["seconds"], before)

    def test_what_a_kill_left_half_written_or_half_removed_is_gone_after_the_next_start(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 5))
        for name in ("step-000000003.new", "step-000000002.old"):
            shutil.copytree(checkpoint(run, 5), f"{run}/checkpoints/{name}")
            os.remove(f"{run}/checkpoints/{name}/manifest.json")
        self.assertExit(0, self.train(run, 8))
        self.assertEqual([5, 8], steps_of(run))
        self.assertEqual([], support.left_over(run))

    def test_a_checkpoint_that_is_saved_again_is_there_all_the_while(self):
        # The last step is saved as it is due, and again with the metrics of the last evaluation.
        sets = ["save.every_steps=8", "save.files=40"]  # many files take longer to write
        for attempt in range(12):
            run = self.run_path(f"run{attempt}")
            training = self.watch(run, 8, sets=sets)
            reader = threading.Thread(target=training.finish)
            reader.start()
            seen = missing = False
            while training.process.poll() is None and not missing:
                there = os.path.isdir(checkpoint(run, 8))
                missing = seen and not there
                seen = seen or there
            training.process.kill()
            reader.join()
            if missing:
                rest = self.train(run, 8, sets=sets)
                self.assertExit(0, rest)
                self.assertEqual(8, rest.events("start")[0]["step"], "all that was trained is lost")


class Torn(ProgramTest):
    sets = ["save.every_steps=10", "optimizer.average=0.9"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole, cls.stopped = f"{cls.class_folder}/whole", f"{cls.class_folder}/stopped"
        maker = cls("test_a_truncated_file")
        maker.folder = cls.class_folder
        maker.assertExit(0, maker.train(cls.whole, 40, sets=cls.sets))
        maker.assertExit(0, maker.train(cls.stopped, 30, sets=cls.sets))

    def torn(self, damage, name):
        """Damages the newest of the checkpoints, and trains on. `name` is what has to be said."""
        run = self.run_path()
        shutil.copytree(self.stopped, run)
        older, newest = steps_of(run)[-2:]
        self.assertEqual(30, newest)
        damage(checkpoint(run, 30))

        inspected = self.call("inspect", run)
        self.assertExit(1, inspected)
        self.assertSays(f"problem: [^ ]*{name}", inspected.out)
        self.assertSays(f"step-{older:09d} whole", inspected.out)
        alone = self.call("inspect", checkpoint(run, 30))
        self.assertIn(alone.code, (1, 2), str(alone))
        self.assertIn("step-000000030", alone.out + alone.err)

        result = self.train(run, 40, sets=self.sets)
        self.assertExit(0, result)
        self.assertSays(f"skipped a checkpoint: [^ ]*{name}", result.err)
        self.assertEqual(older, result.events("start")[0]["step"])
        self.assertSameTraining(self.whole, run)
        self.assertExit(0, self.call("inspect", run))

    def test_a_truncated_file(self):
        self.torn(lambda at: os.truncate(f"{at}/weights.safetensors", 1000), "weights.safetensors")

    def test_an_empty_file(self):
        self.torn(lambda at: os.truncate(f"{at}/slots.safetensors", 0), "slots.safetensors")

    def test_a_byte_of_the_weights_altered(self):
        self.torn(lambda at: flip_byte(f"{at}/weights.safetensors", -5), "weights.safetensors")

    def test_a_byte_of_the_averages_altered(self):
        self.torn(lambda at: flip_byte(f"{at}/averages.safetensors", -5000), "averages.safetensors")

    def test_a_file_that_is_missing(self):
        self.torn(lambda at: os.remove(f"{at}/weights.safetensors"), "weights.safetensors")

    def test_a_truncated_manifest(self):
        self.torn(lambda at: os.truncate(f"{at}/manifest.json", 200), "step-000000030/manifest.json")

    def test_an_altered_manifest(self):
        def alter(at):
            path = f"{at}/manifest.json"
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace('"step": 30', '"step": -30', 1))

        self.torn(alter, "step-000000030/manifest.json")

    def test_without_a_manifest(self):
        self.torn(lambda at: os.remove(f"{at}/manifest.json"), "step-000000030/manifest.json")

    def test_inspect_of_one_torn_checkpoint_exits_with_1_as_its_help_says(self):
        run = self.run_path()
        shutil.copytree(self.stopped, run)
        flip_byte(f"{checkpoint(run, 30)}/weights.safetensors", -5)
        self.assertExit(1, self.call("inspect", checkpoint(run, 30)))

    def test_when_all_are_torn_it_says_what_to_do(self):
        run = self.run_path()
        shutil.copytree(self.stopped, run)
        self.assertEqual(3, len(steps_of(run)))
        for step in steps_of(run):
            flip_byte(f"{checkpoint(run, step)}/weights.safetensors", -5)
        result = self.train(run, 40, sets=self.sets)
        self.assertExit(2, result)
        self.assertEqual(3, result.err.count("skipped a checkpoint"))
        self.assertSays("no checkpoint in .* is whole.*--run-dir", result.err)
        inspected = self.call("inspect", run)
        self.assertNotEqual(0, inspected.code)
        self.assertEqual(3, inspected.out.count("NOT WHOLE"), str(inspected))

    def test_a_torn_newest_does_not_cost_the_checkpoints_that_follow(self):
        # Only one is kept, and the torn one has the highest step: what is saved on the way there
        # has to stay all the same.
        run = self.run_path()
        shutil.copytree(self.stopped, run)
        flip_byte(f"{checkpoint(run, 30)}/weights.safetensors", -5)
        sets = [*self.sets, "save.every_steps=2", "save.keep_last=1", "save.keep_best=0",
                "train.report_every=1"]
        part = self.watch(run, 40, sets=sets)
        part.wait_for("save", step=24)
        self.assertTrue(part.kill(), "it ended before it was killed")
        result = self.train(run, 40, sets=sets)
        self.assertExit(0, result)
        self.assertGreaterEqual(result.events("start")[0]["step"], 24)

    def test_going_back_to_an_older_checkpoint_keeps_what_is_saved_from_there(self):
        run = self.run_path()
        shutil.copytree(self.stopped, run)
        sets = [*self.sets, "save.keep_last=1", "save.keep_best=0", "train.report_every=1",
                "optimizer.lr=0.001"]
        back = self.call(*self.train_arguments(run, 15, sets=sets), "--resume",
                         checkpoint(run, steps_of(run)[0]))
        self.assertExit(0, back)
        end = back.events("end")[0]
        self.assertEqual(15, end["step"])
        self.assertTrue(os.path.isdir(end["saved"]), f"{end['saved']} was said to be saved")


if __name__ == "__main__":
    support.main()
