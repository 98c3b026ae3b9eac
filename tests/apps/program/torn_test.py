"""Checkpoints that are torn or altered are named and passed over, and cost nothing else."""

import os
import shutil

import support
from run_files import checkpoint, flip_byte, steps_of
from support import ProgramTest


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
        self.torn(lambda at: os.truncate(f"{at}/manifest.json", 200),
                  "step-000000030/manifest.json")

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
