"""Runs `bench/step` beside other frameworks' versions of the same workloads and prints ratios.

    PT_PYTHON=... TF_PYTHON=... python3 bench/compare.py --peers FOLDER [--rounds 3] [--seconds 5]

FOLDER holds peer_ddp.py (PyTorch DistributedDataParallel), peer_tf1_towers.py (TensorFlow 1
towers), peer_tf.py (TensorFlow's MirroredStrategy) and peer_jax.py, which take the same arguments
and print the same JSON line as `bench/step`. The runs are interleaved, and of each the best round counts: timings on a shared machine are noisy, ratios of
bests are not much so. Ratios are Lockstep's figure over the peer's.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = ("mlp", "chat", "cifar", "mobilenet")
PEERS = {
    "ddp": ("PT_PYTHON", "peer_ddp.py"),
    "tf1-towers": ("TF_PYTHON", "peer_tf1_towers.py"),
    "tf-mirrored": ("TF_PYTHON", "peer_tf.py"),
    "jax": ("TF_PYTHON", "peer_jax.py"),
}


def commands(args):
    yield "lockstep", [str(args.step)]
    for name, (variable, script) in PEERS.items():
        yield name, [os.environ.get(variable, sys.executable), str(args.peers / script)]


def run(command, workload, args):
    """The report of one run; raises if it prints none."""
    full = [*command, workload, "--devices", str(args.devices), "--seconds", str(args.seconds)]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    output = subprocess.run(full, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=quiet, text=True)
    lines = [line for line in output.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"no report from: {' '.join(full)} (exit code {output.returncode})")
    return json.loads(lines[-1])


def best(reports):
    """The best figure of each kind over the rounds."""
    return {
        "samples_per_s": max(r["samples_per_s"] for r in reports),
        "startup_s": min(r["startup_s"] for r in reports),
        "peak_rss_mb": min(r["peak_rss_mb"] for r in reports),
        "sync_ms": min(r["sync_ms"] for r in reports),
    }


def compare(workload, args):
    reports = {name: [] for name, _ in commands(args)}
    for number in range(args.rounds):
        for name, command in commands(args):
            print(f"{workload}: round {number + 1} of {args.rounds}: {name}", file=sys.stderr)
            reports[name].append(run(command, workload, args))
    return {name: best(rounds) for name, rounds in reports.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="folder of the peers' scripts")
    parser.add_argument("--step", type=pathlib.Path, default=HERE.parent / "build/release/bench/step")
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="measured window of one run")
    args = parser.parse_args()
    print("| workload | peer | samples/s | start to first step | peak memory |")
    print("| --- | --- | --- | --- | --- |")
    for workload in args.workloads:
        figures = compare(workload, args)
        own = figures.pop("lockstep")
        for name, peer in figures.items():
            ratios = [own[key] / peer[key] for key in ("samples_per_s", "startup_s", "peak_rss_mb")]
            print(f"| {workload} | {name} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |", flush=True)


if __name__ == "__main__":
    main()
