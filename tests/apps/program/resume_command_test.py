"""`lockstep resume`: a run goes on by its own recipe, from any of its checkpoints."""

import csv
import os

import support
from run_files import checkpoint, manifest, steps_of, tree
from support import ProgramTest


class ResumeCommand(ProgramTest):
    def begin(self, steps=20, sets=(), **how):
        result = self.train(self.run_path(), steps, sets=["save.every_steps=10", "evaluate.every_steps=10", *sets], **how)
        self.assertExit(0, result)
        return self.run_path()

    def test_it_goes_on_by_the_runs_own_recipe_and_comes_to_the_same_bits(self):
        run = self.begin(sets=["optimizer.lr=0.02"])
        self.assertExit(0, self.call("resume", run, "--set", "train.steps=40", "--devices", "cpu:0-1"))
        whole = self.run_path("whole")
        self.assertExit(0, self.train(whole, 40, sets=["save.every_steps=10", "evaluate.every_steps=10",
                                                       "optimizer.lr=0.02"]))
        self.assertSameTraining(whole, run)

    def test_what_set_changes_stays_changed(self):
        run = self.begin()
        self.assertExit(0, self.call("resume", run, "--set", "optimizer.lr=0.001", "--set", "train.steps=30"))
        again = self.call("resume", run, "--set", "train.steps=35")
        self.assertExit(0, again)
        self.assertNotIn("optimizer.lr", again.err)
        self.assertIn('lr = 0.001', manifest(checkpoint(run, 35))["recipe"])

    def test_from_a_step_sets_later_checkpoints_aside(self):
        run = self.begin(30)
        self.assertExit(0, self.call("resume", run, "--from", "20", "--set", "optimizer.lr=0.001"))
        self.assertIn("step-000000030.aside", os.listdir(f"{run}/checkpoints"))
        self.assertEqual(30, steps_of(run)[-1])
        none = self.call("resume", run, "--from", "17")
        self.assertExit(2, none)
        self.assertSays(r"no checkpoint of step 17; it has: .*30", none.err)

    def test_from_best_takes_the_best_evaluation(self):
        run = self.begin(30)
        best = max(steps_of(run), key=lambda step: manifest(checkpoint(run, step))["metrics"]["test/accuracy"])
        result = self.call("resume", run, "--from", "best", "--log", "json")
        self.assertExit(0, result)
        self.assertEqual(best, result.events("start")[0]["step"])

    def test_other_data_can_begin_at_the_next_epoch(self):
        run = self.begin()  # in the middle of the third epoch of 8 steps
        fields = ["--set", "data.batch=128", "--set", "train.steps=22"]
        refused = self.call("resume", run, *fields)
        self.assertExit(2, refused)
        self.assertSays(rf"is no position .*`lockstep resume {run} --next-epoch`", refused.err)
        self.assertExit(0, self.call("resume", run, *fields, "--next-epoch"))
        self.assertEqual([4, 0], manifest(checkpoint(run, 22))["progress"]["input"])

    def test_a_run_without_its_recipe_file_has_that_of_its_checkpoint(self):
        run = self.begin()
        os.remove(f"{run}/recipe.toml")
        self.assertExit(0, self.call("resume", run, "--set", "train.steps=25"))
        self.assertEqual(25, steps_of(run)[-1])
        self.assertTrue(os.path.exists(f"{run}/recipe.toml"))

    def test_a_finished_run_says_what_could_be_done(self):
        run = self.begin()
        result = self.call("resume", run)
        self.assertExit(0, result)
        self.assertSays(f"nothing to do: the run has reached the limit.*lockstep resume {run} --set train.steps=40",
                        result.err)

    def test_train_of_a_run_or_of_its_recipe_says_resume(self):
        run = self.begin()
        before = tree(self.folder)
        for recipe in (run, f"{run}/recipe.toml"):
            result = self.call("train", recipe)
            self.assertExit(2, result)
            self.assertIn(f"`lockstep resume {run}` goes on with it", result.err)
        self.assertEqual(before, tree(self.folder), "nothing was begun")
        self.assertExit(0, self.call("train", f"{run}/recipe.toml", "--run-dir", self.run_path("other")))

    def test_what_is_no_run_is_refused(self):
        os.makedirs(self.run_path("empty"))
        for path in (self.run_path("empty"), self.run_path("none")):
            result = self.call("resume", path)
            self.assertExit(2, result)
            self.assertIn("is no run", result.err)

    def test_a_dry_run_says_what_would_be_and_writes_nothing(self):
        result = self.call(*self.train_arguments(self.run_path("dry"), 10, log="text"), "--dry-run")
        self.assertExit(0, result)
        self.assertSays(r"would train classify, \d+ parameters, mirrored on cpu:0 in 4 shards, one after the other \(gradient accumulation\) 8 steps an epoch", result.out)
        self.assertFalse(os.path.exists(self.run_path("dry")))

    def test_quiet_prints_the_last_line_only(self):
        result = self.call(*self.train_arguments(self.run_path(), 10, log="text"), "--quiet")
        self.assertExit(0, result)
        self.assertRegex(result.out, r"^done at step 10 after .*\n$")


class Figures(ProgramTest):
    def rows(self, run):
        with open(f"{run}/metrics.csv", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def test_all_figures_are_in_one_csv_file_as_if_it_had_never_stopped(self):
        sets = ["evaluate.every_steps=10", "save.every_steps=10", "train.report_every=5"]
        run, whole = self.run_path(), self.run_path("whole")
        self.assertExit(0, self.train(whole, 30, sets=sets))
        self.assertExit(0, self.train(run, 20, sets=sets))
        self.assertExit(0, self.call("resume", run, "--from", "10", "--set", "train.steps=30"))

        def figures(path):
            return [(row["step"], row["set"], row["name"], row["value"]) for row in self.rows(path)
                    if row["name"] != "samples_per_second"]

        self.assertEqual(figures(whole), figures(run))
        names = {(row["set"], row["name"]) for row in self.rows(run)}
        self.assertLessEqual({("train", "loss"), ("train", "learning_rate"), ("test", "accuracy")}, names)

    def test_it_can_be_switched_off(self):
        self.assertExit(0, self.train(self.run_path(), 3, sets=["log.csv=false"]))
        self.assertFalse(os.path.exists(self.run_path() + "/metrics.csv"))


class Divergence(ProgramTest):
    def test_what_diverged_is_not_saved_and_the_way_back_is_a_command(self):
        run = self.run_path()
        sets = ["save.every_steps=5", "evaluate.every_steps=5"]
        self.assertExit(0, self.train(run, 10, sets=sets))
        # A rate at which weights overflow within a few steps.
        broken = self.call("resume", run, "--set", "train.steps=60", "--set", "optimizer.lr=1e38", "--set",
                           "save.every_steps=1000")
        self.assertExit(1, broken)
        self.assertEqual(10, steps_of(run)[-1], "the steps that led there are not saved")
        self.assertSays(rf"diverged: .*lockstep resume {run} --from best --set optimizer.lr=5e\+37 # from step \d+: "
                        "test/accuracy", broken.err)
        back = self.call("resume", run, "--from", "best", "--set", "optimizer.lr=0.001", "--set", "train.steps=15")
        self.assertExit(0, back)
        self.assertEqual(15, steps_of(run)[-1])

    def test_a_checkpoint_that_leads_straight_there_is_no_way_back(self):
        run = self.run_path()
        sets = ["optimizer.name=sgd", "optimizer.lr=1e30", "save.every_steps=1"]
        self.assertExit(1, self.train(run, 60, sets=sets))
        self.assertNotEqual([], steps_of(run), "weights that are large, but finite")
        again = self.call("resume", run)
        self.assertExit(1, again)
        self.assertSays("leads straight there: its weights are spoilt already. There is no checkpoint to go back to. Begin "
                        "anew in another --run-dir,", again.err)

    def test_without_a_checkpoint_it_says_what_to_change(self):
        broken = self.train(self.run_path(), 60, sets=["optimizer.name=sgd", "optimizer.lr=1e30"])
        self.assertExit(1, broken)
        self.assertSays("no checkpoint to go back to. Begin anew with a smaller learning rate", broken.err)
        self.assertEqual([], steps_of(self.run_path()))


if __name__ == "__main__":
    support.main()
