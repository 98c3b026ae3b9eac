"""At least 50 times kill -9 at random points, on changing numbers of devices, in the midst of saves
too: the training always ends with the weights of one that was never stopped. And a few times more
with asynchronous updates, and in a pipeline."""

import os
import random
import signal
import time

import support
from run_files import checkpoint, manifest, steps_of
from support import ProgramTest

KILLS = 50
SEED = 20260
STEPS = 90
SETS = ["train.report_every=2", "save.every_steps=1", "save.keep_last=2",
        "evaluate.every_steps=15", "model.dropout=0.4", "optimizer.average=0.95",
        "schedule.name=plateau", "schedule.patience=2", "schedule.factor=0.9"]


class Campaign(ProgramTest):
    def setUp(self):
        super().setUp()
        self.sets = SETS
        self.devices = ("cpu:0", "cpu:0-1", "cpu:0-2")
        self.rng = random.Random(SEED)
        self.kills = self.in_saves = self.before_begin = 0

    def kill_one(self, run):
        """One session that is killed, if it does not end first. True when it ended."""
        training = self.watch(run, STEPS, sets=self.sets, devices=self.rng.choice(self.devices))
        kind = self.rng.choice(("anywhere", "training", "training", "saving", "saving"))
        if kind == "anywhere":  # also before it has begun
            time.sleep(self.rng.uniform(0, 2))
        else:
            training.wait_for("start")
            time.sleep(self.rng.uniform(0, 0.1))
        if kind == "saving":
            self.wait_for_save(run, training)
        training.process.kill()
        result = training.finish()
        if result.code == -signal.SIGKILL:
            self.kills += 1
            self.before_begin += not result.out
            self.in_saves += any(name.endswith(".new") for name in self.folders(run))
            return False
        self.assertExit(0, result)
        return True

    def wait_for_save(self, run, training):
        """Until a checkpoint is being written, and a random little longer."""
        until = time.monotonic() + 5
        while time.monotonic() < until and training.process.poll() is None:
            if any(name.endswith(".new") for name in self.folders(run)):
                time.sleep(self.rng.uniform(0, 0.004))
                return
            training.process.stdout.readline()  # else it would wait for a reader

    @staticmethod
    def folders(run):
        return os.listdir(f"{run}/checkpoints") if os.path.isdir(f"{run}/checkpoints") else []

    def campaign(self, kills):
        whole = self.run_path("whole")
        self.assertExit(0, self.train(whole, STEPS, sets=self.sets))
        self.assertGreater(manifest(checkpoint(whole, STEPS))["progress"]["schedule"]["decays"], 0)
        trainings, begin = 0, time.monotonic()
        while self.kills < kills:
            run = self.run_path(f"run{trainings}")
            trainings += 1
            before = self.kills
            # At most 15 kills each, so that the end is reached, and compared, several times.
            while self.kills < min(before + 15, kills):
                if self.kill_one(run):
                    break
            else:
                self.assertExit(0, self.train(run, STEPS, devices="cpu:0-1", sets=self.sets))
            self.assertEqual(STEPS, steps_of(run)[-1])
            self.assertSameTraining(whole, run, f"after {self.kills - before} kills, seed {SEED}")
        print(f"\n{self.kills} kills in {trainings} trainings of {STEPS} steps, "
              f"{time.monotonic() - begin:.0f} s: {self.in_saves} hit a checkpoint that was being "
              f"written, {self.before_begin} came before the first line; equal weights every time")
        self.assertGreaterEqual(self.kills, kills)

    def test_fifty_random_kills_end_with_equal_weights_every_time(self):
        self.campaign(KILLS)
        self.assertGreaterEqual(self.in_saves, 10, "too few kills hit a save")
        self.assertLessEqual(self.before_begin, KILLS // 3, "too few kills hit a training")

    def test_eight_random_kills_of_asynchronous_updates_end_with_equal_weights_too(self):
        self.sets = [*SETS, "strategy=async"]
        self.campaign(8)

    def test_three_random_kills_of_a_pipeline_end_with_the_weights_of_one_device(self):
        self.sets = [*SETS, "strategy=pipeline"]
        self.devices = ("cpu:0-1", "cpu:0-3")
        self.campaign(3)


if __name__ == "__main__":
    support.main()
