"""Full disks, folders that cannot be written, and two runs in one folder."""

import os
import resource
import shutil
import signal
import subprocess

import support
from run_files import checkpoint, left_over, steps_of, tree
from support import ProgramTest


def small_files_only(most):
    """For preexec_fn: no file may grow beyond `most` bytes; a write fails as on a full disk."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return limit


class FullDisk(ProgramTest):
    sets = ["save.every_steps=10", "train.report_every=5"]

    def test_a_save_that_fails_is_reported_training_goes_on_and_older_ones_are_intact(self):
        run, whole = self.run_path(), self.run_path("whole")
        self.assertExit(0, self.train(run, 10, sets=self.sets))
        before = tree(checkpoint(run, 10))

        limited = self.train(run, 30, sets=self.sets, preexec_fn=small_files_only(20_000))
        self.assertExit(1, limited)
        failed = [save for save in limited.events("save") if save["error"]]
        self.assertEqual({20, 30}, {save["step"] for save in failed})
        for save in failed:
            self.assertRegex(save["error"], r"safetensors: cannot write: File too large")
        self.assertEqual(30, limited.events("report")[-1]["step"], "training went on")
        self.assertRegex(limited.events("end")[0]["error"], "cannot write")
        self.assertIn("the last save failed", limited.err)
        self.assertEqual([10], steps_of(run))
        self.assertEqual(before, tree(checkpoint(run, 10)))
        self.assertEqual([], left_over(run))

        rest = self.train(run, 30, sets=self.sets)
        self.assertExit(0, rest)
        self.assertEqual(10, rest.events("start")[0]["step"])
        self.assertExit(0, self.train(whole, 30, sets=self.sets))
        self.assertSameTraining(whole, run)

    def test_the_text_says_what_was_not_saved_and_that_training_goes_on(self):
        result = self.train(self.run_path(), 20, sets=self.sets, log="text",
                            preexec_fn=small_files_only(20_000))
        self.assertExit(1, result)
        self.assertSays("NOT SAVED at step 10: .*File too large; training goes on", result.out)
        self.assertSays("done at step 20", result.out)
        self.assertSays("the last save failed: .*weights.safetensors", result.err)

    def test_events_that_cannot_be_written_are_told(self):
        # Histograms of every step need more than a checkpoint does, which fits.
        result = self.train(self.run_path(), 60, sets=[*self.sets, "log.histograms_every=1"],
                            log="text", preexec_fn=small_files_only(320_000))
        self.assertExit(0, result)
        self.assertSays("events.out.tfevents.*File too large", result.out + result.err)

    def test_a_disk_that_is_full_and_then_is_not(self):
        disk = f"{self.folder}/disk"
        os.makedirs(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("no right to mount a small disk; a limit on file sizes stands in for it "
                          f"in the other tests: {mounted.stderr.decode().strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=False)
        run, whole = f"{disk}/run", self.run_path("whole")
        sets = ["train.report_every=2", "save.every_steps=2"]
        keep_all = [*sets, "save.keep_last=1000"]
        full = self.train(run, 60, sets=keep_all)
        self.assertExit(1, full)
        failed = [save["step"] for save in full.events("save") if save["error"]]
        saved = [save["step"] for save in full.events("save") if not save["error"]]
        self.assertTrue(saved and failed, "some fit, and some did not")
        self.assertIn("No space left on device",
                      next(save["error"] for save in full.events("save") if save["error"]))
        self.assertEqual(60, full.events("report")[-1]["step"], "training went on")
        self.assertEqual(saved, steps_of(run), "what was said to be saved is there, and only that")
        self.assertEqual([], left_over(run))

        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        rest = self.train(run, 60, sets=sets)
        self.assertExit(0, rest)
        self.assertEqual(max(saved), rest.events("start")[0]["step"])
        self.assertExit(0, self.train(whole, 60, sets=sets))
        self.assertSameTraining(whole, run)


class Unwritable(ProgramTest):
    def refused(self, run, path):
        result = self.train(run, 5)
        self.assertExit(2, result)
        self.assertIn(path, result.err)
        self.assertEqual("", result.out)
        return result

    def test_a_run_folder_that_cannot_be_made(self):
        # Not even root makes folders there.
        self.refused("/proc/lockstep/run", "/proc/lockstep")

    def test_a_run_folder_below_a_file(self):
        path = f"{self.folder}/file"
        with open(path, "w", encoding="ascii") as file:
            file.write("in the way\n")
        result = self.refused(f"{path}/run", path)
        self.assertSays("Not a directory", result.err)

    def test_a_read_only_run_folder(self):
        run = self.run_path()
        os.makedirs(run)
        if os.geteuid() == 0:
            # Root writes where the mode forbids it: a disk that is mounted read-only stops it too.
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", run],
                                     capture_output=True, check=False)
            if mounted.returncode != 0:
                self.skipTest("root writes anywhere, and has no right to mount here: "
                              f"{mounted.stderr.decode().strip()}")
            self.addCleanup(subprocess.run, ["umount", "--lazy", run], check=False)
        else:
            os.chmod(run, 0o555)
            self.addCleanup(os.chmod, run, 0o755)
        self.assertSays("Read-only|Permission denied", self.refused(run, run).err)


class TwoRuns(ProgramTest):
    def test_the_second_run_in_a_folder_is_refused_and_the_first_goes_on(self):
        run, whole = self.run_path(), self.run_path("whole")
        sets = ["train.report_every=1", "save.every_steps=5"]
        first = self.watch(run, 40, sets=sets)
        first.wait_for("save")
        first.send(signal.SIGSTOP)  # a save beside the training would change the folder too
        os.waitpid(first.pid, os.WUNTRACED)
        before = tree(run)
        second = self.train(run, 40, sets=[*sets, "seed=7"])
        self.assertExit(2, second)
        self.assertSays(f"in use by process {first.pid}.*another run directory", second.err)
        self.assertEqual("", second.out)
        self.assertEqual(before, tree(run), "the second run touched nothing")
        first.send(signal.SIGCONT)
        self.assertExit(0, first.finish())
        self.assertExit(0, self.train(whole, 40, sets=sets))
        self.assertSameTraining(whole, run)

    def test_a_killed_run_does_not_lock_its_folder(self):
        run = self.run_path()
        first = self.watch(run, 40, sets=["train.report_every=1"])
        first.wait_for("report")
        self.assertTrue(first.kill())
        self.assertExit(0, self.train(run, 5))
        shutil.rmtree(run)


if __name__ == "__main__":
    support.main()
