"""Trainings that begin from the weights of another, and the pictures that a run leaves behind."""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import time

import support
from images_test import png
from run_files import (checkpoint, checkpoints, last_checkpoint, manifest, read_safetensors,
                       steps_of)
from support import ProgramTest, waits_in


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def weights_of(run):
    return read_safetensors(f"{last_checkpoint(run)}/weights.safetensors")


class AfterATraining(ProgramTest):
    """A test with a run, the same exported, and a run with averages."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source, cls.averaged = f"{cls.class_folder}/source", f"{cls.class_folder}/averaged"
        cls.file = f"{cls.class_folder}/model.safetensors"
        maker = cls()
        maker.folder = cls.class_folder
        cls.trained = maker.train(cls.source, 30)
        maker.assertExit(0, cls.trained)
        maker.assertExit(0, maker.train(cls.averaged, 10, sets=["optimizer.average=0.9"]))
        maker.assertExit(0, maker.call("export", cls.source, cls.file))

    def from_weights(self, path, *sets):
        return [f"init.weights={path}", "seed=5", *sets]


class FromWeights(AfterATraining):
    def stop_before_the_first_step(self, run, sets):
        """Trains until its first line, for which there is no room in the pipe, and stops there."""
        reading, writing = os.pipe()
        size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writing, b"\n" * size)
        training = subprocess.Popen(
            [support.PROGRAM, *self.train_arguments(run, 30, sets=sets)], cwd=self.folder,
            stdout=writing, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        os.close(writing)
        until = time.monotonic() + support.TIMEOUT
        while "pipe" not in waits_in(training.pid):
            self.assertLess(time.monotonic(), until, "it does not stand still")
            self.assertIsNone(training.poll(), "it has ended")
            time.sleep(0.02)
        training.send_signal(signal.SIGTERM)
        with os.fdopen(reading, "rb") as out:
            out.read()
        _, err = training.communicate(timeout=support.TIMEOUT)
        self.assertEqual(3, training.returncode, err.decode())
        self.assertEqual([0], steps_of(run))

    def test_before_its_first_step_the_model_is_worth_what_it_was(self):
        told = self.trained.events("evaluation")[-1]["metrics"]
        for name, path in (("file", self.file), ("run", self.source),
                           ("checkpoint", last_checkpoint(self.source))):
            run = self.run_path(name)
            self.stop_before_the_first_step(run, self.from_weights(path))
            self.assertEqual(weights_of(self.source), weights_of(run))
            result = self.call("evaluate", run, "--devices", "cpu:0-1", "--log", "json")
            self.assertExit(0, result)
            (found,) = result.events("evaluation")
            self.assertEqual((0, told), (found["step"], found["metrics"]), name)

    def test_an_export_and_its_run_are_the_same_beginning(self):
        a, b = self.run_path("a"), self.run_path("b")
        first = self.train(a, 5, sets=self.from_weights(self.file))
        self.assertExit(0, first)
        size = len(read_safetensors(self.file))
        self.assertSays(f"note: init.weights: {size} of {size} tensors of '{self.file}' taken $",
                        first.err)
        second = self.train(b, 5, devices="cpu:0-2", sets=self.from_weights(self.source))
        self.assertExit(0, second)
        self.assertSays(f"tensors of the weights of '{last_checkpoint(self.source)}' taken",
                        second.err)
        self.assertSameTraining(a, b)
        scratch = self.run_path("scratch")
        self.assertExit(0, self.train(scratch, 5, sets=["seed=5"]))
        self.assertNotEqual(weights_of(scratch), weights_of(a))

    def test_the_averages_of_a_run_are_taken_if_it_has_some(self):
        run, path = self.run_path(), f"{self.folder}/averaged.safetensors"
        result = self.train(run, 5, sets=self.from_weights(self.averaged))
        self.assertExit(0, result)
        self.assertSays("of the averaged weights of ", result.err)
        self.assertExit(0, self.call("export", self.averaged, path, "--weights", "averaged"))
        other = self.run_path("other")
        self.assertExit(0, self.train(other, 5, sets=self.from_weights(path)))
        self.assertSameTraining(other, run)

    def test_what_was_loaded_is_in_the_recipe_with_its_checksum(self):
        files = sorted(file for file in manifest(last_checkpoint(self.averaged))["files"]
                       for file in [(file["name"], file["sha256"])]
                       if file[0].startswith(("weights", "averages")))
        lines = "".join(f"{checksum}  {name}\n" for name, checksum in files)
        for path, checksum in ((self.file, sha256(self.file)),
                               (self.averaged, hashlib.sha256(lines.encode()).hexdigest())):
            run = self.run_path(checksum)
            self.assertExit(0, self.train(run, 2, sets=self.from_weights(path)))
            with open(f"{run}/recipe.toml", encoding="utf-8") as file:
                self.assertIn(f'checksum = "{checksum}"\n', file.read())
            self.assertIn(f'checksum = "{checksum}"\n', manifest(last_checkpoint(run))["recipe"])
            # The run's own recipe trains the same anew.
            again = f"{run}-again"
            self.assertExit(0, self.call("train", f"{run}/recipe.toml", "--run-dir", again,
                                         "--devices", "cpu:0"))
            self.assertSameTraining(run, again)

    def test_other_weights_than_the_checksum_says_are_refused(self):
        result = self.train(self.run_path(), 2, sets=self.from_weights(
            self.file, f"init.checksum={sha256(self.file)[:-1]}x"))
        self.assertExit(2, result)
        self.assertSays(f"init.checksum is .*x, and '{self.file}' has {sha256(self.file)}",
                        result.err)
        self.assertEqual([], checkpoints(self.run_path()))

    def test_what_cannot_be_weights_is_named_with_its_field(self):
        empty, text = f"{self.folder}/empty", f"{self.folder}/text.pth"
        os.makedirs(empty)
        with open(text, "w", encoding="ascii") as file:
            file.write("no tensors here")
        for path in (empty, text, f"{self.folder}/none"):
            result = self.train(self.run_path(), 2, sets=self.from_weights(path))
            self.assertExit(2, result)
            self.assertSays(f"lockstep: init.weights: .*{path}", result.err)

    def test_weights_of_another_model_are_refused_with_names_of_both(self):
        result = self.train(self.run_path(), 2,
                            sets=self.from_weights(self.file, "model.name=resnet20"))
        self.assertExit(2, result)
        self.assertSays(r"init.weights: nothing in .* fits the model.* It has \S+ \(\S+\), \S+ "
                        r"\(\S+\), \S+ \(\S+\); the model has bn1.bias \(16\)",
                        result.err.replace("(one value)", "(1)"))

    def test_devices_do_not_matter(self):
        sets = self.from_weights(self.file, "init.freeze=conv1.*,norm1.*", "train.steps=2",
                                 f"data.path={self.data}", "data.batch=32", "model.width=2")
        flags = [flag for field in sets for flag in ("--set", field)]
        result = self.call("verify", "fashion", "--devices", "cpu:0-2", "--counts", "1,2,3", *flags)
        self.assertExit(0, result)
        self.assertEqual(1, result.err.count("note: init.weights: "), result)
        self.assertEqual(2, result.out.count("equal, bit for bit"), result)
        result = self.call("scaling", "fashion", "--devices", "cpu:0", "--seconds", "0.1",
                           "--plot", f"{self.folder}/x.svg", *flags)
        self.assertExit(0, result)


class Frozen(AfterATraining):
    sets = ["init.freeze=conv1.*,norm1.*", "optimizer.average=0.9"]

    def begin(self, run, steps, **how):
        return self.train(run, steps, sets=self.from_weights(self.file, *self.sets), **how)

    def test_what_is_frozen_stays_and_is_exported_and_the_rest_is_trained(self):
        run, path = self.run_path(), f"{self.folder}/exported.safetensors"
        self.assertExit(0, self.begin(run, 10))
        self.assertExit(0, self.call("export", run, path, "--weights", "averaged"))
        before, after, exported = read_safetensors(self.file), weights_of(run), read_safetensors(path)
        self.assertEqual(set(before), set(exported))
        for name, tensor in before.items():
            frozen = name.startswith(("conv1.", "norm1.")) and not name.startswith(
                ("norm1.running", "norm1.num"))
            self.assertEqual(frozen, tensor == after[name], name)
            if frozen:
                self.assertEqual(tensor, exported[name], name)

    def test_it_stays_frozen_after_a_resume_that_needs_no_weights(self):
        run, whole = self.run_path(), self.run_path("whole")
        file = f"{self.folder}/mine.safetensors"
        shutil.copy(self.file, file)
        sets = self.from_weights(file, *self.sets)
        self.assertExit(0, self.train(whole, 20, sets=sets))
        self.assertExit(0, self.train(run, 10, sets=sets))
        os.remove(file)
        rest = self.train(run, 20, sets=sets, devices="cpu:0-1")
        self.assertExit(0, rest)
        self.assertEqual(10, rest.events("start")[0]["step"])
        self.assertNotIn("init.", rest.err)
        self.assertSameTraining(whole, run)
        # Without the fields it is the same training, for it has them in its checkpoint.
        rest = self.train(run, 25, sets=["seed=5", "optimizer.average=0.9"])
        self.assertExit(0, rest)
        self.assertNotIn("init.", rest.err)
        with open(f"{run}/recipe.toml", encoding="utf-8") as recipe:
            self.assertIn(f'weights = "{file}"', recipe.read())

    def test_it_cannot_change_on_resume(self):
        run = self.run_path()
        self.assertExit(0, self.begin(run, 3))
        for change in (f"init.weights={self.source}", "init.weights=", "init.freeze=conv1.*",
                       "init.freeze=[]", "init.checksum=0"):
            sets = self.from_weights(self.file, *self.sets, change)
            if change == "init.weights=":
                sets.append("init.checksum=")
            result = self.train(run, 5, sets=sets)
            self.assertExit(2, result)
            self.assertSays(f"lockstep: {change.split('=')[0]} cannot change on resume", result.err)
        self.assertEqual([3], steps_of(run))

    def test_patterns_that_match_nothing_or_all_are_named(self):
        for pattern, says in (("backbone.*", "init.freeze: 'backbone.*' matches no parameter"),
                              ("conv1.weight,*", "nothing is left to train")):
            result = self.train(self.run_path(), 2, sets=[f"init.freeze={pattern}"])
            self.assertExit(2, result)
            self.assertIn(says, result.err)


class OtherClasses(ProgramTest):
    colours = {"blue": (20, 30, 200), "green": (20, 200, 30), "red": (200, 30, 20)}

    def images(self, name, labels):
        for part, count in (("train", 6), ("test", 2)):
            for label in labels:
                os.makedirs(f"{self.folder}/{name}/{part}/{label}")
                for i in range(count):
                    png(f"{self.folder}/{name}/{part}/{label}/{i}.png", 30 + i, 40 - i,
                        self.colours[label])
        return [f"data.path={self.folder}/{name}/train", f"data.test_path={self.folder}/{name}/test",
                "data.kind=folder", "data.size=32", "data.batch=4"]

    def test_the_head_of_another_number_of_classes_is_told_and_left(self):
        two, three = self.run_path("two"), self.run_path("three")
        self.assertExit(0, self.train(two, 3, sets=self.images("a", ["blue", "red"])))
        result = self.train(three, 1, sets=[*self.images("b", self.colours), f"init.weights={two}",
                                            "init.freeze=conv1.*"])
        self.assertExit(0, result)
        size = len(weights_of(two))
        self.assertSays(rf"note: init.weights: {size - 2} of {size} tensors of .* taken; other shape: "
                        r"output.bias \(2, the model has 3\), output.weight \(2x(\d+), the model has "
                        r"3x\1\); left as they begin: output.bias, output.weight $", result.err)
        self.assertEqual(weights_of(two)["conv1.weight"], weights_of(three)["conv1.weight"])
        self.assertEqual([3], weights_of(three)["output.bias"][1])


class Pictures(ProgramTest):
    def test_those_of_the_last_evaluation_are_in_the_folder_of_the_run(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 4, sets=["evaluate.every_steps=2"]))
        self.assertEqual(["test-confusion.png"], os.listdir(f"{run}/pictures"))
        self.assertExit(0, self.call("evaluate", run, "--devices", "cpu:0", "--pictures", "mine"))
        with open(f"{run}/pictures/test-confusion.png", "rb") as file:
            content = file.read()
        self.assertEqual(b"\x89PNG\r\n\x1a\n", content[:8])
        with open(f"{self.folder}/mine/test-confusion.png", "rb") as file:
            self.assertEqual(content, file.read(), "it is of the last evaluation")

    def test_there_are_none_if_the_recipe_says_so(self):
        run = self.run_path()
        self.assertExit(0, self.train(run, 2, sets=["log.pictures=false"]))
        self.assertFalse(os.path.exists(f"{run}/pictures"))

    def test_trouble_with_them_is_told_once_and_does_not_end_a_training(self):
        run = self.run_path()
        os.makedirs(run)
        with open(f"{run}/pictures", "w", encoding="ascii") as file:
            file.write("in the way")
        result = self.train(run, 4, sets=["evaluate.every_steps=2"])
        self.assertExit(0, result)
        self.assertEqual(4, result.events("end")[0]["step"])
        self.assertSays(f"lockstep: pictures are not complete: 2 could not be written, the first: "
                        f"{run}/pictures", result.err)
        self.assertTrue(os.path.isdir(checkpoint(run, 4)))


if __name__ == "__main__":
    support.main()
