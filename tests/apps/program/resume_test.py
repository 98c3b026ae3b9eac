"""Resume equals never having stopped, bit for bit, on any number of devices."""

import os
import shutil
import threading

import support
from run_files import checkpoint, left_over, manifest, steps_of
from support import ProgramTest

# Everything that has a state: dropout, slots, moving averages, a schedule that watches the loss.
STATEFUL = ["model.dropout=0.4", "optimizer.average=0.95", "optimizer.average_warm_up=true",
            "optimizer.clip=1", "schedule.name=plateau", "schedule.patience=2",
            "schedule.factor=0.9", "train.report_every=2", "data.augment=true"]


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

    def test_hundred_steps_are_37_and_kill_9_and_the_rest_elsewhere_when_asynchronous(self):
        self.hundred_steps(["strategy=async"])

    def test_evaluations_early_stopping_and_best_go_on_as_well(self):
        run, whole = self.run_path(), self.run_path("whole")
        sets = [*STATEFUL, "evaluate.every_steps=7", "evaluate.averaged=true",
                "save.every_steps=10", "evaluate.stop_after=4", "optimizer.lr=0.05"]
        once = self.train(whole, 400, sets=sets)
        self.assertExit(0, once)
        self.assertEqual("early_stop", once.events("end")[0]["ending"])
        evaluations = {e["step"]: e for e in once.events("evaluation")}

        found = {}
        for at in (12, 24):
            part = self.watch(run, 400, sets=sets, devices="cpu:0-1")
            part.wait_for("save", step=at)
            self.assertTrue(part.kill(), "it ended before it was killed")
            found |= {e["step"]: e for e in part.finish().events("evaluation")}
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
        self.assertEqual([], left_over(run))

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

if __name__ == "__main__":
    support.main()
