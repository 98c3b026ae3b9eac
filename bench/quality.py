"""Trains a recipe with each strategy on as many samples, at several learning rates, and prints what each reaches.

    python3 bench/quality.py fashion --samples 120000 --rates 0.02 0.01 0.005 0.0025
    python3 bench/quality.py chat --samples 18000 --rates 0.01 0.005 0.0025

A synchronous step trains on the recipe's batch. An asynchronous update trains on its part for one of two devices, so there
are twice as many of them; `synchronous, half the batch` has as many. The table has the best learning rate of each strategy; all runs go to standard error.
Runs are on two CPU devices. Those of `free` depend on the machine and its load; all others repeat to the bit.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STRATEGIES = {
    "synchronous": [],
    "synchronous, half the batch": ["strategy=mirrored"],  # as many updates as the others
    "delay 1": ["strategy=async", "async.delay=1"],
    "delay 3": ["strategy=async", "async.delay=3"],
    "delay 3, compensation 0.04": ["strategy=async", "async.delay=3", "async.compensation=0.04"],
    "delay 3, compensation 2": ["strategy=async", "async.delay=3", "async.compensation=2"],
    "delay 7": ["strategy=async", "async.delay=7"],
    "free": ["strategy=async", "async.order=free"],
}


def recipe_fields(args):
    """The batch and the metric of the recipe."""
    printed = subprocess.run([args.lockstep, "train", args.recipe, "--print-recipe"], capture_output=True, text=True, check=True)
    fields = {}
    section = ""
    for line in printed.stdout.splitlines():
        if line.startswith("["):
            section = line.strip("[]") + "."
        elif "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            fields[section + name.strip()] = value.strip().strip('"')
    return int(fields["data.batch"]), fields["evaluate.metric"]


def train(args, sets, batch, metric, rate, seed):
    """What one training reaches."""
    steps = args.samples // batch
    fields = [
        *sets, f"data.batch={batch}", f"optimizer.lr={rate}", f"train.steps={steps}", "train.epochs=0", f"seed={seed}",
        "evaluate.every_epochs=0", "save.every_seconds=0", "log.tensorboard=false", "log.pictures=false",
        f"schedule.warm_up={steps // 20}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        command = [args.lockstep, "train", args.recipe, "--devices", "cpu:0-1", "--log", "json", "--run-dir", folder]
        for field in fields:
            command += ["--set", field]
        output = subprocess.run(command, capture_output=True, text=True)
    events = [json.loads(line) for line in output.stdout.splitlines() if line.startswith("{")]
    found = [event["metrics"][metric] for event in events if event.get("event") == "evaluation"]
    if output.returncode != 0 or not found:
        said = (output.stderr.strip().splitlines() or ["no evaluation"])[-1]
        print(f"  failed: {said}", file=sys.stderr)
        return float("nan")
    return found[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--rates", type=float, nargs="+", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=list(STRATEGIES))
    parser.add_argument("--lockstep", default=str(HERE.parent / "build/release/apps/lockstep"))
    args = parser.parse_args()
    batch, metric = recipe_fields(args)
    print(f"| strategy | best learning rate | {metric} |\n| --- | --- | --- |", flush=True)
    for name in args.strategies:
        sets = STRATEGIES[name]
        reached = {}
        for rate in args.rates:
            runs = [train(args, sets, batch // 2 if sets else batch, metric, rate, seed) for seed in args.seeds]
            reached[rate] = sum(runs) / len(runs)
            print(f"{args.recipe}, {name}, lr {rate}: {metric} {reached[rate]:.4f}", file=sys.stderr, flush=True)
        usable = {rate: value for rate, value in reached.items() if value == value}
        if usable:
            best = max(usable, key=usable.get)
            print(f"| {name} | {best} | {usable[best]:.4f} |", flush=True)


if __name__ == "__main__":
    main()
