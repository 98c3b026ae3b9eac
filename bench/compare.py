"""Runs `bench/step` beside other frameworks' versions of the same workloads and prints ratios.

    PT_PYTHON=... TF_PYTHON=... python3 bench/compare.py [--rounds 3] [--seconds 5]
    PT_PYTHON=... python3 bench/compare.py --strategy delay     # beside PyTorch's Hogwild

The peers are scripts in bench/peers, or in the folder that --peers names: peer_ddp.py (PyTorch
DistributedDataParallel), peer_tf1_towers.py (TensorFlow 1 towers), peer_tf.py (TensorFlow's
MirroredStrategy) and peer_jax.py. They take the same arguments and print the same JSON line as
`bench/step`. Runs are interleaved, and the best round of each program counts: timings on a shared
machine are noisy, ratios of bests are less so. Ratios are Lockstep's figure over the peer's. A
peer that does not run, or does not have a workload, is left out, with the reason.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = ("mlp", "chat", "cifar", "mobilenet", "ssd")
PEERS = {
    "ddp": ("PT_PYTHON", "peer_ddp.py"),
    "tf1-towers": ("TF_PYTHON", "peer_tf1_towers.py"),
    "tf-mirrored": ("TF_PYTHON", "peer_tf.py"),
    "jax": ("TF_PYTHON", "peer_jax.py"),
}
ASYNC_PEERS = {"hogwild": ("PT_PYTHON", "peer_hogwild.py")}  # of asynchronous training
PYTORCH_ONLY = ("ssd",)  # workloads that no other peer has
PACKAGES = {"PT_PYTHON": "torch numpy", "TF_PYTHON": "tensorflow-cpu jax optax numpy"}


class NoReport(Exception):
    """A run printed no report; the message says why."""


def commands(args):
    """Lockstep and its peers, by name."""
    programs = {"lockstep": [str(args.step), "--strategy", args.strategy]}
    for name, (variable, script) in args.all_peers.items():
        programs[name] = [os.environ.get(variable, sys.executable), str(args.peers / script)]
    return programs


def run(command, workload, args):
    """The report of one run; raises NoReport if it prints none."""
    full = [*command, workload, "--devices", str(args.devices), "--seconds", str(args.seconds)]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        output = subprocess.run(full, capture_output=True, env=quiet, text=True)
    except OSError as error:
        raise NoReport(f"{full[0]}: {error.strerror}") from None
    lines = [line for line in output.stdout.splitlines() if line.startswith("{")]
    if output.returncode != 0 or not lines:
        said = output.stderr.strip().splitlines() or [f"exit code {output.returncode}"]
        raise NoReport(said[-1])
    return json.loads(lines[-1])


def leave_out(name, reason):
    variable, _ = {**PEERS, **ASYNC_PEERS}[name]
    print(
        f"{name} is left out: {reason}. It runs with the Python that {variable} names; there: "
        f"pip install {PACKAGES[variable]}",
        file=sys.stderr,
    )


def best(reports):
    """The best figure of each kind over the rounds."""
    return {
        "samples_per_s": max(r["samples_per_s"] for r in reports),
        "startup_s": min(r["startup_s"] for r in reports),
        "peak_rss_mb": min(r["peak_rss_mb"] for r in reports),
        "sync_ms": min(r["sync_ms"] for r in reports),
    }


def without(workload):
    """The peers that do not have the workload."""
    if workload not in PYTORCH_ONLY:
        return set()
    return {name for name, (variable, _) in PEERS.items() if variable != "PT_PYTHON"}


def compare(workload, programs, args):
    """The best figures of each program. Peers that fail are taken out of `programs`."""
    missing = without(workload)
    for name in missing & programs.keys():
        print(f"{name} is left out: it has no workload {workload}", file=sys.stderr)
    reports = {name: [] for name in programs if name not in missing}
    for number in range(args.rounds):
        for name in list(reports):
            print(f"{workload}: round {number + 1} of {args.rounds}: {name}", file=sys.stderr)
            try:
                reports[name].append(run(programs[name], workload, args))
            except NoReport as error:
                if name == "lockstep":
                    raise SystemExit(f"{args.step} did not run: {error}") from None
                leave_out(name, error)
                del programs[name], reports[name]
    return {name: best(runs) for name, runs in reports.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=pathlib.Path, default=HERE / "peers", help="folder of the peers' scripts")
    parser.add_argument("--step", type=pathlib.Path, default=HERE.parent / "build/release/bench/step")
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--strategy", default="mirrored", choices=("mirrored", "delay", "free"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="measured window of one run")
    args = parser.parse_args()
    args.all_peers = PEERS if args.strategy == "mirrored" else ASYNC_PEERS
    programs = commands(args)
    print("| workload | peer | samples/s | start to first step | peak memory |")
    print("| --- | --- | --- | --- | --- |")
    for workload in args.workloads:
        figures = compare(workload, programs, args)
        own = figures.pop("lockstep")
        if not figures:
            print(
                f"| {workload} | none: Lockstep's own | {own['samples_per_s']:.1f} | "
                f"{own['startup_s']:.2f} s | {own['peak_rss_mb']:.0f} MB |",
                flush=True,
            )
        for name, peer in figures.items():
            ratios = [own[key] / peer[key] for key in ("samples_per_s", "startup_s", "peak_rss_mb")]
            print(f"| {workload} | {name} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |", flush=True)


if __name__ == "__main__":
    main()
