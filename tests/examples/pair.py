"""Runs both programs of an example: pair.py NAME PROGRAMS SOURCES DEPS

PROGRAMS and SOURCES are the folders of the examples, DEPS has Python's torch. The losses that
all_devices prints are those of one_device, and its whole output is the same on 1 to 4 CPU devices
and on simulated ones.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

NAME = sys.argv[1]
PROGRAMS, SOURCES, DEPS = (pathlib.Path(path).resolve() for path in sys.argv[2:5])
CPU = ("cpu:0", "cpu:0-1", "cpu:0-2", "cpu:0-3")
SIM = ("sim:0", "sim:0-1", "sim:0-2", "sim:0-3")
# Both programs compute in float32 and sum in another order; the differences grow from step to step.
TOLERANCE = 1e-4
SKIPPED = 77


def run(program, *arguments):
    command = [str(PROGRAMS / NAME / program), *map(str, arguments)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # as a tower has
    result = subprocess.run(command, env=one_thread, capture_output=True, text=True)
    assert result.returncode == 0, f"{command}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def numbers(output):
    """What was printed for each step."""
    lines = [line for line in output.splitlines() if line.startswith("step ")]
    return [[float(word) for word in re.findall(r"-?\d[\d.e+-]*", line)] for line in lines]


def assert_close(some, others, what):
    some, others = numbers(some), numbers(others)
    assert len(some) == len(others) > 1, f"{what}: {len(some)} and {len(others)} lines"
    for left, right in zip(some, others):
        for x, y in zip(left, right, strict=True):
            assert abs(x - y) <= TOLERANCE * max(abs(x), abs(y)), f"{what}: {left} and {right}"


def check(*arguments, sim_is_cpu=True, same_random_numbers=True):
    """Both programs with these arguments; all_devices takes the devices as its last one."""
    results = {devices: run("all_devices", *arguments, devices) for devices in CPU + SIM}
    for devices in CPU + SIM:
        first = "sim:0" if devices in SIM and not sim_is_cpu else "cpu:0"
        assert results[devices] == results[first], (
            f"{first}:\n{results[first]}{devices}:\n{results[devices]}")
    if not sim_is_cpu:
        assert_close(results["sim:0"], results["cpu:0"], "sim and cpu")
    one = run("one_device", *arguments)
    if same_random_numbers:
        assert_close(one, results["cpu:0"], "one device and all devices")
    return results["cpu:0"]


def classify(folder):
    check(300, same_random_numbers=False)  # dropout; both programs check their accuracy


def gan(folder):
    check(21)


def vae(folder):
    check(21)


def language_model(folder):
    # LibTorch has another kernel for an LSTM on an accelerator.
    check(41, SOURCES.parent / "LICENSE", sim_is_cpu=False)


def contrastive(folder):
    check(21)


def fine_tune(folder):
    run("pretrain", folder / "backbone.pt", 20)
    check(folder / "backbone.pt", 20)


def own_optimizer(folder):
    whole = check(4, "")
    for name, first, then in (("cpu", "cpu:0-2", "sim:0-1"), ("sim", "sim:0-2", "sim:0")):
        (folder / name).mkdir()
        run("all_devices", 2, folder / name, first)
        resumed = run("all_devices", 2, folder / name, then)
        assert resumed.splitlines()[-1] == whole.splitlines()[-1], f"{whole}{resumed}"


def scripted(folder):
    python = {"PYTHONPATH": ":".join(f"{DEPS}/{name}" for name in ("torch", "cuda", "oracles")),
              "PYTHONDONTWRITEBYTECODE": "1"}

    def run_python(*arguments):
        command = [sys.executable, "-W", "ignore", *map(str, arguments)]
        return subprocess.run(command, env=python, capture_output=True, text=True)

    if (found := run_python("-c", "import torch, numpy")).returncode != 0:
        print("skipped:", found.stderr)
        sys.exit(SKIPPED)
    exported = run_python(SOURCES / NAME / "export.py", folder / "net.pt")
    assert exported.returncode == 0, exported.stderr
    trained = check(folder / "net.pt", folder / "trained.pt", 21)
    run("all_devices", folder / "net.pt", folder / "trained.pt", 21, "sim:0-1")
    read = run_python(SOURCES / NAME / "import_back.py", folder / "trained.pt")
    assert read.returncode == 0, read.stderr
    assert read.stdout.strip() == trained.splitlines()[-1], f"{read.stdout}{trained}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        globals()[NAME](pathlib.Path(name))
