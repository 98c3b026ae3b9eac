"""What the tests of the program share: a small data set, calls of the program, and runs that are
watched line by line.

A test file is called as `python3 <theme>_test.py PROGRAM`.
"""

import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from run_files import essence, last_checkpoint, tensor_bytes

PROGRAM = ""
TIMEOUT = 240  # seconds; far more than any call takes, so that a hang fails
SIDE = 28


def main():
    """Takes the program's path from the command line and runs the tests of the calling file."""
    global PROGRAM
    if len(sys.argv) < 2:
        sys.exit(f"usage: python3 {sys.argv[0]} PROGRAM")
    # The caller knows this module as `support`, whatever it was started as.
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"there is no program at {PROGRAM}")
    unittest.main(module="__main__", verbosity=2)


# Data


def write_idx(path, sizes, content):
    """An IDX file of bytes, gzipped as Fashion-MNIST's are."""
    header = struct.pack(f">BBBB{len(sizes)}I", 0, 0, 8, len(sizes), *sizes)
    with gzip.GzipFile(path, "wb", compresslevel=1, mtime=0) as file:
        file.write(header + content)


def images_of(count, rng):
    """Images that can be told apart, not too easily: noise, and for each class a place that is a
    little brighter."""
    dim = bytes(value // 2 for value in range(256))
    bright = bytes(min(255, value + 40) for value in range(256))
    labels = bytes(i % 10 for i in range(count))
    content = bytearray()
    for label in labels:
        image = bytearray(rng.randbytes(SIDE * SIDE).translate(dim))
        top, left = 3 + 12 * (label // 5), 1 + 5 * (label % 5)
        for row in range(top, top + 9):
            place = slice(row * SIDE + left, row * SIDE + left + 6)
            image[place] = image[place].translate(bright)
        content += image
    return bytes(content), labels


def make_data(folder, train=256, test=64, seed=1):
    """A data set with the file names of Fashion-MNIST."""
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(seed)
    for stem, count in (("train", train), ("t10k", test)):
        images, labels = images_of(count, rng)
        write_idx(f"{folder}/{stem}-images-idx3-ubyte.gz", [count, SIDE, SIDE], images)
        write_idx(f"{folder}/{stem}-labels-idx1-ubyte.gz", [count], labels)
    return folder


# Calls


class Result:
    """How a call ended and what it said."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit code {self.code}\n-- stdout\n{self.out}\n-- stderr\n{self.err}"

    def events(self, kind=None):
        """The lines of --log json; every line of stdout has to be one."""
        found = [json.loads(line) for line in self.out.splitlines()]
        return [event for event in found if kind is None or event["event"] == kind]


class Watched:
    """A running program with --log json, read line by line.

    Its pipe is small and holds a few lines only: a program that is not read from stands still at
    its next report, so a test decides how far it gets, however busy the machine is.
    """

    def __init__(self, arguments, cwd):
        # Standard error goes to a file: a second pipe could fill up and stop the program for good.
        self._err = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [PROGRAM, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=self._err, bufsize=0,
            stdin=subprocess.DEVNULL, pipesize=4096)
        self.lines = []

    @property
    def pid(self):
        return self.process.pid

    def next(self):
        """The next event; None at the end of the output."""
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            return None
        self.lines.append(line.decode())
        return json.loads(line)

    def wait_for(self, event, step=0):
        """Reads up to an event of that kind, at that step or later."""
        while (found := self.next()) is not None:
            if found["event"] == event and found["step"] >= step:
                return found
        raise AssertionError(f"no '{event}' at step {step}:\n{self.finish()}")

    def stand_still(self):
        """Waits until it does: its pipe is full, and it waits for a reader."""
        until = time.monotonic() + TIMEOUT
        while "pipe" not in waits_in(self.pid):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError("it does not stand still")
            time.sleep(0.02)

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        """kill -9. Whether that is what ended it."""
        self.process.kill()
        return self.finish().code == -signal.SIGKILL

    def finish(self):
        """Reads the rest and waits for the end."""
        while self.next() is not None:
            pass
        code = self.process.wait(TIMEOUT)
        self._err.seek(0)
        return Result(code, "".join(self.lines), self._err.read().decode())

    def close(self):
        """Ends it if it runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self._err.close()


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own and the data set of its class."""

    maxDiff = None
    data_sizes = {"train": 256, "test": 64}

    @classmethod
    def setUpClass(cls):
        cls.class_folder = tempfile.mkdtemp(prefix="lockstep-program-")
        cls.addClassCleanup(shutil.rmtree, cls.class_folder, ignore_errors=True)
        cls.data = make_data(f"{cls.class_folder}/data", **cls.data_sizes)

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=self.class_folder)

    def call(self, *arguments, cwd=None, **how):
        done = subprocess.run(
            [PROGRAM, *arguments], cwd=cwd or self.folder, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=TIMEOUT, **how)
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def train_arguments(self, run, steps, devices="cpu:0", sets=(), log="json"):
        """`lockstep train` of a small network that takes milliseconds a step.

        A learning rate of its own for every step and dropout make any step count; `sets` are
        "key=value" and come last.
        """
        fields = [
            f"data.path={self.data}", "data.batch=32", "data.workers=1", "data.test_batch=64",
            "model.width=2", "model.dropout=0.25", "optimizer.lr=0.003",
            "schedule.name=inverse_sqrt", "schedule.warm_up=10", "train.epochs=0",
            f"train.steps={steps}", "train.report_every=10", "evaluate.every_epochs=0",
            "save.every_seconds=0", *sets]
        flags = [flag for field in fields for flag in ("--set", field)]
        return ["train", "fashion", "--devices", devices, "--run-dir", run, "--log", log, *flags]

    def train(self, run, steps, devices="cpu:0", sets=(), log="json", **how):
        return self.call(*self.train_arguments(run, steps, devices, sets, log), **how)

    def watch(self, run, steps, devices="cpu:0", sets=()):
        return self.watch_call(*self.train_arguments(run, steps, devices, sets))

    def watch_call(self, *arguments):
        watched = Watched(arguments, self.folder)
        self.addCleanup(watched.close)
        return watched

    def run_path(self, name="run"):
        return f"{self.folder}/{name}"

    def assertExit(self, code, result):
        self.assertEqual(code, result.code, str(result))

    def assertSays(self, pattern, text):
        self.assertRegex(re.sub(r"\s+", " ", text), pattern)

    def assertSameTraining(self, expected, found, what=""):
        """The last checkpoints of two runs have the same step, position, schedule and bytes."""
        a, b = last_checkpoint(expected), last_checkpoint(found)
        self.assertEqual(essence(a), essence(b), what)
        self.assertEqual(tensor_bytes(a), tensor_bytes(b), what)


def waits_in(pid):
    """The function of the kernel that a process' first thread sleeps in."""
    try:
        with open(f"/proc/{pid}/task/{pid}/wchan", encoding="ascii") as file:
            return file.read()
    except OSError:  # it has ended
        return ""


def catches(pid, number):
    """Whether a running process has a handler for a signal."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)
