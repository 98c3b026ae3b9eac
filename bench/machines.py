"""Runs `bench/step` on two hosts beside PyTorch's DistributedDataParallel over gloo on the same two.

    PT_PYTHON=... python3 bench/machines.py [--rounds 2] [--seconds 5] [--rate 1gbit]
    python3 bench/machines.py --exchange 100 [--rounds 9] [--rate 1gbit]

The second form times the exchange of so many MB alone, beside an all-reduce of Gloo: bench/exchange.

The hosts are network namespaces of this machine with a core each, joined by a bridge; they are made
here and taken away. --rate limits their links (`tc`). Runs are interleaved, the best round of each
counts, and ratios are Lockstep's samples/s over DDP's. What goes over the link is what a machine
must send in a step, each way, over the time of the step; frames' headers come on top. Needs root and
iproute2.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/apps/program"))
import hosts  # noqa: E402

WORKLOADS = ("mlp", "chat", "cifar", "mobilenet", "ssd")
PORT = 29500


def run(cluster, command):
    """The report of the first of a process a host."""
    processes = []
    for rank, host in enumerate(cluster.hosts):
        variables = {
            "RANK": str(rank), "WORLD_SIZE": str(len(cluster.hosts)), "LOCAL_WORLD_SIZE": "1", "MASTER_PORT": str(PORT),
            "MASTER_ADDR": cluster.hosts[0].address, "GLOO_SOCKET_IFNAME": "eth0",
        }
        processes.append(subprocess.Popen(
            host.command(["taskset", "-c", str(rank % os.cpu_count()), *command]), env={**os.environ, **variables}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    outputs = [process.communicate() for process in processes]
    lines = [line for line in outputs[0][0].splitlines() if line.startswith("{")]
    if not lines or any(process.returncode for process in processes):
        sys.exit(f"{command[0]}: no report\n" + "\n".join(err[-2000:] for _, err in outputs))
    return json.loads(lines[-1])


def table(cluster, args):
    common = ["--devices", "2", "--seconds", str(args.seconds)]
    python = os.environ.get("PT_PYTHON", sys.executable)
    print("| workload | lockstep / ddp, samples/s | step, ms | exposed, ms | link, MB/s |\n"
          "| --- | --- | --- | --- | --- |")
    for workload in args.workloads:
        best = {}
        for number in range(args.rounds):
            for name, program in (("lockstep", [str(args.step)]),
                                  ("ddp", [python, str(HERE / "peers/peer_ddp.py")])):
                print(f"{workload}: round {number + 1} of {args.rounds}: {name}", file=sys.stderr)
                report = run(cluster, [*program, workload, *common])
                if name not in best or report["samples_per_s"] > best[name]["samples_per_s"]:
                    best[name] = report
        ours, theirs = best["lockstep"], best["ddp"]
        # Half of the gradients and half of the parameters, float32.
        speed = {name: 4e-6 * report["params"] / (1e-3 * report["step_ms"]) for name, report in best.items()}
        print(f"| {workload} | {ours['samples_per_s'] / theirs['samples_per_s']:.2f} "
              f"| {ours['step_ms']:.1f} / {theirs['step_ms']:.1f} "
              f"| {ours['sync_ms']:.1f} / {theirs['sync_ms']:.1f} "
              f"| {speed['lockstep']:.0f} / {speed['ddp']:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rate", default="", help="of each link, as tc takes it: 1gbit; by default there is no limit")
    parser.add_argument("--step", type=pathlib.Path, default=HERE.parent / "build/release/bench/step")
    parser.add_argument("--exchange", type=int, default=0, metavar="MB", help="time only the exchange of so many MB")
    parser.add_argument("--hosts", type=int, default=2, help="with --exchange; they share this machine's cores")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = hosts.Hosts(args.hosts if args.exchange else 2, folder)
        try:
            if args.rate:
                for host in cluster.hosts:
                    host.slow_down(args.rate)
            if args.exchange:
                program = args.step.with_name("exchange")
                print(json.dumps(run(cluster, [str(program), "--megabytes", str(args.exchange),
                                               "--rounds", str(args.rounds)])))
            else:
                table(cluster, args)
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
