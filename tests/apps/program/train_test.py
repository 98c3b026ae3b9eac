"""`lockstep train`: limits, what a run leaves behind, going on, retention, refusals."""

import glob
import os
import re
import shutil

import support
from run_files import checkpoint, manifest, steps_of, tree
from support import ProgramTest


class Train(ProgramTest):
    def test_trains_to_its_limit_and_leaves_recipe_checkpoint_and_events(self):
        run = self.run_path()
        result = self.train(run, 20)
        self.assertExit(0, result)
        self.assertEqual([20], steps_of(run))
        self.assertEqual(1, len(glob.glob(f"{run}/events.out.tfevents.*")))
        with open(f"{run}/recipe.toml", encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^steps = 20\b")
        (end,) = result.events("end")
        self.assertEqual(("done", 20, ""), (end["ending"], end["step"], end["error"]))
        self.assertEqual(checkpoint(run, 20), end["saved"])

    def test_the_same_command_again_says_that_it_is_done_and_changes_nothing(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 20))
        before = tree(run)
        again = self.train(run, 20, log="text")
        self.assertExit(0, again)
        self.assertSays("goes on from step 20", again.out)
        self.assertSays("done at step 20", again.out)
        self.assertNotIn("saved", again.out.split("goes on")[1])
        self.assertEqual(before, tree(run))

    def test_raising_the_limit_goes_on_and_says_what_changed(self):
        run, whole = self.run_path(), self.run_path("whole")
        self.assertExit(0, self.train(run, 15))
        longer = self.train(run, 30)
        self.assertExit(0, longer)
        self.assertEqual(15, longer.events("start")[0]["step"])
        self.assertIn("train.steps: 15 -> 30", longer.err)
        self.assertExit(0, self.train(whole, 30))
        self.assertSameTraining(whole, run)

    def test_epochs_limit_a_training_too(self):
        run = self.run_path()
        # 256 images in batches of 32: 8 steps an epoch.
        result = self.train(run, 0, sets=["train.epochs=2"])
        self.assertExit(0, result)
        self.assertEqual([16], steps_of(run))
        self.assertEqual([2, 0], manifest(checkpoint(run, 16))["progress"]["input"][:2])

    def test_the_run_folder_is_named_after_the_recipe_by_default(self):
        arguments = self.train_arguments("unused", 2)
        at = arguments.index("--run-dir")
        self.assertExit(0, self.call(*arguments[:at], *arguments[at + 2 :]))
        self.assertEqual([2], steps_of(f"{self.folder}/runs/fashion"))

    def test_a_recipe_may_be_a_file_and_recipe_toml_is_one(self):
        run, again = self.run_path(), self.run_path("again")
        self.assertExit(0, self.train(run, 6))
        result = self.call("train", f"{run}/recipe.toml", "--devices", "cpu:0-1", "--run-dir",
                           again, "--log", "json")
        self.assertExit(0, result)
        self.assertSameTraining(run, again)

    def test_a_recipe_in_the_run_folder_is_not_written_over(self):
        run = self.run_path()
        os.makedirs(run)
        with open(f"{run}/recipe.toml", "w", encoding="utf-8") as file:
            file.write("# my own words\n[train]\nsteps = 2\n")
        arguments = self.train_arguments(run, 2)
        arguments[1] = f"{run}/recipe.toml"
        self.assertExit(0, self.call(*arguments))
        with open(f"{run}/recipe.toml", encoding="utf-8") as file:
            self.assertEqual("# my own words\n[train]\nsteps = 2\n", file.read())

    def test_flags_may_stand_before_the_recipe(self):
        result = self.call("train", "--set", "train.steps=3", "--print-recipe", "fashion")
        self.assertExit(0, result)
        self.assertRegex(result.out, r"(?m)^steps = 3\b")

    def test_by_default_the_number_of_devices_does_not_change_the_result(self):
        alone = self.run_path("alone")
        result = self.train(alone, 4, log="text")
        self.assertExit(0, result)
        self.assertIn("\nin 4 shards, one after the other (gradient accumulation)\n", result.out)
        self.assertNotIn("note: 4 shards", result.out)
        for devices, sentence in (("cpu:0-4", "4 shards on 5 devices: one device has no shard"),
                                  ("cpu:0-7", "4 shards on 8 devices: 4 devices have no shard")):
            run = self.run_path(devices)
            result = self.train(run, 4, log="text", devices=devices)
            self.assertExit(0, result)
            self.assertSameTraining(alone, run, devices)
            self.assertRegex(result.out, r"(?m)^in 4 shards$")
            self.assertEqual(1, result.out.count(f"note: {sentence}"), result.out)
            self.assertNotIn("nan", result.out)  # a device without a shard has no loss to show

    def test_a_run_that_goes_on_keeps_its_number_of_shards(self):
        run, whole = self.run_path(), self.run_path("whole")
        self.assertExit(0, self.call(*self.train_arguments(run, 3), "--shards", "3"))
        rest = self.train(run, 6)
        self.assertExit(0, rest)
        self.assertEqual(3, rest.events("start")[0]["shards"])
        self.assertNotIn("shards:", rest.err)
        self.assertExit(0, self.train(whole, 6, sets=["shards=3"]))
        self.assertSameTraining(whole, run)

    def test_a_run_learns(self):
        run = self.run_path()
        result = self.train(run, 60, sets=["data.augment=false", "model.width=4"])
        self.assertExit(0, result)
        losses = [report["loss"] for report in result.events("report")]
        self.assertLess(losses[-1], 0.5 * losses[0])
        self.assertGreater(result.events("evaluation")[-1]["metrics"]["accuracy"], 0.5)


class Retention(ProgramTest):
    def test_the_last_stay_and_the_plan_is_said_at_the_start(self):
        run = self.run_path()
        result = self.train(run, 40, log="text", sets=[
            "save.every_steps=5", "save.keep_last=2", "save.keep_best=0"])
        self.assertExit(0, result)
        head = result.out.split("step ")[0]
        self.assertSays("trains for 40 steps", head)
        self.assertSays("saves every 5 steps.*keeps the last 2", head)
        # A save that is due while the one before is being written comes a step or more later.
        saves = [int(step) for step in re.findall(r"^step (\d+)  saved ", result.out, re.MULTILINE)]
        self.assertEqual(40, saves[-1])
        self.assertEqual(saves[-2:], steps_of(run))

    def test_the_best_stay_besides_the_last(self):
        run = self.run_path()
        result = self.train(run, 48, sets=[
            "evaluate.every_steps=8", "save.keep_last=1", "save.keep_best=2"])
        self.assertExit(0, result)
        self.assertTrue(any("the best 2" in line for line in result.events("start")[0]["plan"]))
        accuracy = {event["step"]: event["metrics"]["accuracy"]
                    for event in result.events("evaluation")}
        self.assertEqual([8, 16, 24, 32, 40, 48], sorted(accuracy))
        kept = steps_of(run)
        self.assertIn(48, kept)
        ranking = sorted(accuracy.values(), reverse=True)
        self.assertEqual(ranking[:2], sorted((accuracy[step] for step in kept), reverse=True)[:2])
        self.assertLessEqual(len(kept), 3)

    def test_one_every_few_hours_stays(self):
        run = self.run_path()
        result = self.train(run, 30, log="text", sets=[
            "save.every_steps=5", "save.keep_last=1", "save.keep_best=0",
            "save.keep_every_hours=1000"])
        self.assertExit(0, result)
        self.assertSays("one every 1000 hours", result.out)
        self.assertEqual([5, 30], steps_of(run), "the first of these hours, and the last")

    def test_weights_in_three_files_are_read_back(self):
        run, whole = self.run_path(), self.run_path("whole")
        sets = ["save.files=3"]
        self.assertExit(0, self.train(run, 12, sets=sets))
        names = sorted(os.listdir(checkpoint(run, 12)))
        self.assertEqual([f"weights-0000{i}-of-00003.safetensors" for i in (1, 2, 3)],
                         [name for name in names if name.startswith("weights")])
        self.assertExit(0, self.train(run, 24, sets=sets, devices="cpu:0-1"))
        self.assertExit(0, self.train(whole, 24, sets=sets))
        self.assertSameTraining(whole, run)

    def test_the_number_of_files_may_change_between_sessions(self):
        run, whole = self.run_path(), self.run_path("whole")
        self.assertExit(0, self.train(run, 12, sets=["save.files=3"]))
        self.assertExit(0, self.train(run, 24))
        self.assertExit(0, self.train(whole, 24))
        self.assertSameTraining(whole, run)


class Refusals(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.given = f"{cls.class_folder}/given"
        maker = cls("test_never_does_not_write_over_checkpoints")
        maker.folder = cls.class_folder
        maker.assertExit(0, maker.train(cls.given, 4))

    def refused(self, pattern, *more, sets=()):
        run = self.run_path()
        shutil.copytree(self.given, run)
        before = tree(run)
        result = self.call(*self.train_arguments(run, 8, sets=sets), *more)
        self.assertExit(2, result)
        self.assertSays(pattern, result.err)
        self.assertEqual("", result.out)
        self.assertEqual(before, tree(run), "a refused training changes nothing")

    def test_never_does_not_write_over_checkpoints(self):
        self.refused(f"{re.escape(self.run_path())}.*has checkpoints already", "--resume", "never")

    def test_another_number_of_shards_is_refused(self):
        self.refused("checkpoint is of a training in 4 shards, this one is in 8", "--shards", "8")

    def test_a_method_that_changed_is_refused_unless_it_was_set(self):
        plain = f"{self.class_folder}/plain.toml"
        fields = self.call(*self.train_arguments(self.run_path(), 8), "--print-recipe").out
        changed = fields.replace("lr = 0.003", "lr = 0.002").replace("seed = 1", "seed = 2")
        self.assertNotEqual(fields, changed)
        with open(plain, "w") as file:
            file.write(changed)
        run = self.run_path()
        shutil.copytree(self.given, run)
        before = tree(run)
        result = self.call("train", plain, "--run-dir", run)
        self.assertExit(2, result)
        self.assertSays(r"optimizer.lr: 0.003 -> 0.002, seed: 1 -> 2.*--set", result.err)
        self.assertEqual(before, tree(run), "a refused training changes nothing")
        result = self.call("train", plain, "--run-dir", run, "--set", "optimizer.lr=0.002")
        self.assertExit(2, result)
        self.assertSays(r"\(seed: 1 -> 2\)", result.err)
        result = self.call("train", plain, "--run-dir", run, "--set", "optimizer.lr=0.002",
                           "--set", "seed=2")
        self.assertExit(0, result)
        self.assertSays("changed since the checkpoint: optimizer.lr: 0.003 -> 0.002", result.err)
        with open(plain, "w") as file:
            file.write(fields.replace("decay_biases_and_norms = true",
                                      "decay_biases_and_norms = false"))
        run = self.run_path("decay")
        shutil.copytree(self.given, run)
        result = self.call("train", plain, "--run-dir", run)
        self.assertExit(2, result)
        self.assertSays(r"\(rules: none -> ", result.err)
        self.assertExit(0, self.call("train", plain, "--run-dir", run, "--set",
                                     "optimizer.decay_biases_and_norms=false"))

    def test_another_model_is_refused_by_the_name_of_a_tensor(self):
        self.refused(r"'[a-z0-9]+\.weight' of the state", sets=["model.width=3"])

    def test_another_optimizer_is_refused(self):
        self.refused("20 slots, the optimizer has 10", sets=["optimizer.name=adagrad"])

    def test_resume_of_what_is_not_there_names_the_path(self):
        self.refused("no run and no checkpoint at 'nowhere'", "--resume", "nowhere")

    def test_resume_takes_the_path_of_a_run_or_of_a_checkpoint(self):
        for number, path in enumerate((self.given, checkpoint(self.given, 4))):
            run = self.run_path(f"run{number}")
            result = self.call(*self.train_arguments(run, 8), "--resume", path)
            self.assertExit(0, result)
            self.assertEqual(4, result.events("start")[0]["step"])
            self.assertEqual(8, steps_of(run)[-1])


if __name__ == "__main__":
    support.main()
