"""Runs peers × workloads × layouts, one at a time, and prints a table.

The interpreters come from the environment: PT_PYTHON has PyTorch, TF_PYTHON
has TensorFlow and JAX. Results are appended to --out, one JSON line for each
run; a run that fails leaves a line with its error and does not stop the rest.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = ("chat", "cifar", "mlp", "mobilenet", "ssd")
PEERS = {
    "ddp": ("PT_PYTHON", "peer_ddp.py"),
    "ddp-compile": ("PT_PYTHON", "peer_ddp.py", "--compile"),
    "hogwild": ("PT_PYTHON", "peer_hogwild.py"),
    "tf-mirrored": ("TF_PYTHON", "peer_tf.py"),
    "tf-mirrored-hierarchical": (
        "TF_PYTHON", "peer_tf.py", "--cross-device", "hierarchical",
    ),
    "tf-mirrored-reduction": (
        "TF_PYTHON", "peer_tf.py", "--cross-device", "reduction",
    ),
    "tf1-towers": ("TF_PYTHON", "peer_tf1_towers.py"),
    "jax": ("TF_PYTHON", "peer_jax.py"),
}  # fmt: skip
PYTORCH_ONLY = ("ssd",)  # workloads that no other peer has
COLUMNS = (
    ("samples_per_s", "samples/s", 1), ("step_ms", "step ms", 1),
    ("sync_ms", "sync ms", 1), ("startup_s", "startup s", 1),
    ("peak_rss_mb", "peak MB", 0), ("params", "params", 0),
)  # fmt: skip


def run(peer, workload, devices, threads, args):
    """The report of one run, or its error, as a dictionary."""
    variable, script, *options = PEERS[peer]
    command = [
        os.environ.get(variable, sys.executable), str(HERE / script), workload,
        "--devices", str(devices), "--threads", str(threads),
        "--seconds", str(args.seconds), *options,
    ]  # fmt: skip
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        output, errors = "", f"no result after {args.timeout} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # also what it left behind
        except ProcessLookupError:
            pass
        process.wait()
    reports = [line for line in output.splitlines() if line.startswith("{")]
    if reports:
        return json.loads(reports[-1])
    lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
    return {
        "peer": peer,
        "workload": workload,
        "devices": devices,
        "threads": threads,
        "error": lines[-1],
    }


def table(results):
    """Rows by workload; `speedup` is against the peer's own 1-core run."""
    single = {
        (r["workload"], r["peer"]): r["samples_per_s"]
        for r in results
        if "error" not in r and r["devices"] == r["threads"] == 1
    }
    titles = [title for _, title, _ in COLUMNS]
    rows = [("workload", "peer", "devices", *titles, "speedup", "first losses")]
    for r in sorted(results, key=lambda r: r["workload"]):
        devices = str(r["devices"])
        if r["threads"] > 1:
            devices += f"x{r['threads']}"
        row = [r["workload"], r["peer"], devices]
        if "error" in r:
            rows.append((*row, "failed: " + r["error"]))
            continue
        for field, _, digits in COLUMNS:
            value = r[field]
            row.append("-" if value is None else f"{value:.{digits}f}")
        plain = r["peer"].removesuffix("-hierarchical").removesuffix("-reduction")
        base = single.get((r["workload"], plain))
        row.append(f"{r['samples_per_s'] / base:.2f}" if base else "-")
        row.append(" ".join(f"{loss:.4f}" for loss in r["first_losses"]))
        rows.append(tuple(row))
    widths = [max(map(len, cells)) for cells in zip(*[r for r in rows if len(r) > 4])]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def layout(text):
    devices, _, threads = text.partition("x")
    return int(devices), int(threads or 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="file to append JSON lines to")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS)
    )
    parser.add_argument(
        "--layouts",
        nargs="+",
        type=layout,
        default=[(1, 1), (2, 1)],
        metavar="N[xT]",
        help="devices, and threads of a single device (1 2 1x2)",
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--timeout", type=float, default=900)
    args = parser.parse_args()

    results = []
    for workload in args.workloads:
        for devices, threads in args.layouts:
            for peer in args.peers:
                if "--cross-device" in PEERS[peer] and devices == 1:
                    continue  # one device exchanges nothing
                if workload in PYTORCH_ONLY and PEERS[peer][0] != "PT_PYTHON":
                    continue
                result = run(peer, workload, devices, threads, args)
                results.append(result)
                line = json.dumps(result)
                with open(args.out, "a") as file:
                    file.write(line + "\n")
                print(line, flush=True)
    table(results)


if __name__ == "__main__":
    main()
