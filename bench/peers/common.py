"""What every peer shares: workloads, data, initial weights, protocol, report.

All peers start from the same weights and train on the same global batch, so
their first losses can be compared digit by digit. What may differ: PyTorch and
JAX pad strided convolutions on both sides and TensorFlow only at the far one,
and the frameworks' RMSprops place epsilon and start their averages differently.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import time

import numpy as np

import ssd

LABELLED = ("chat", "cifar", "mlp", "mobilenet")  # every peer has these
WORKLOADS = (*LABELLED, "ssd")
BATCH = {"chat": 64, "cifar": 128, "mlp": 64, "mobilenet": 16, "ssd": 16}

VOCABULARY, LENGTH, EMBEDDING, HIDDEN, CLIP = 20000, 20, 256, 512, 5.0
MLP = (1024, 4096, 4096, 1000)
CIFAR_SIZE, CIFAR_CLASSES, STEM, STAGES, BLOCKS = 32, 10, 16, (16, 32, 64), 3
MOBILE_SIZE, MOBILE_CLASSES, MOBILE_STEM = 128, 2, 32
# Depthwise-separable blocks of MobileNet-v1: output channels, stride.
SEPARABLE = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    *[(512, 1)] * 5, (1024, 2), (1024, 1),
)  # fmt: skip
ADAM = {"chat": 1e-3, "mlp": 1e-3}  # learning rates; betas 0.9 0.999, eps 1e-8
MOMENTUM = {"cifar": (0.1, 0.9)}  # learning rate, momentum
# Rate, decay, momentum, eps.
RMSPROP = dict.fromkeys(("mobilenet", "ssd"), (0.004, 0.9, 0.9, 1.0))
NORM_EPSILON, NORM_DECAY = 1e-5, 0.9

LABELINGS = 8  # of the same inputs
WARMUP = 5  # steps before the measured window
ROUNDS = 5  # of step and compute alone after it


def residual_blocks():
    """ResNet-20, block by block: name, input channels, output channels, stride."""
    channels = STEM
    for stage, width in enumerate(STAGES):
        for block in range(BLOCKS):
            stride = 2 if stage and not block else 1
            yield f"s{stage}b{block}", channels, width, stride
            channels = width


def separable_blocks():
    """MobileNet-v1, block by block: name, input channels, output channels, stride."""
    channels = MOBILE_STEM
    for block, (width, stride) in enumerate(SEPARABLE):
        yield f"b{block}", channels, width, stride
        channels = width


def batches(workload, rank=0, devices=1):
    """Batches of one device to cycle through: inputs (images as NHWC), labels.

    The labels of ssd are `ssd.things`.

    The inputs are always the same and the labels contradict each other: no
    model can learn them by heart, so gradients never fade into denormals.
    """
    rng, size = np.random.default_rng(0), BATCH[workload]
    part = slice(rank * size // devices, (rank + 1) * size // devices)
    if workload == "ssd":
        shape = (1, size, ssd.SIZE, ssd.SIZE, 3)
        inputs = 0.1 * rng.standard_normal(shape, np.float32)
        labels = ssd.things(rng, LABELINGS, size)
    elif workload == "chat":
        inputs = rng.integers(VOCABULARY, size=(2, size, LENGTH), dtype=np.int32)
        labels = rng.integers(VOCABULARY, size=(LABELINGS, size, LENGTH))
    else:
        shape, classes = {
            "mlp": ((MLP[0],), MLP[-1]),
            "cifar": ((CIFAR_SIZE, CIFAR_SIZE, 3), CIFAR_CLASSES),
            "mobilenet": ((MOBILE_SIZE, MOBILE_SIZE, 3), MOBILE_CLASSES),
        }[workload]
        inputs = 0.1 * rng.standard_normal((1, size, *shape), np.float32)
        labels = rng.integers(classes, size=(LABELINGS, size))
    labels = labels.astype(np.int32)
    return [(*inputs[:, part], label[part]) for label in labels]


def weights(workload):
    """Initial weights of each layer, in order, laid out as in TensorFlow.

    Dense: (in, out), bias. Convolution: (height, width, in, out). Depthwise:
    (height, width, channels, 1). LSTM: (in, 4h), (h, 4h), bias with the gates
    in order input, forget, cell, output. Batch norm: gamma, beta.
    """
    rng, layers = np.random.default_rng(1), {}

    def kernel(*shape, fan=None):
        bound = math.sqrt(3 / (fan or math.prod(shape[:-1])))
        values = rng.random(shape, np.float32)
        values -= 0.5
        values *= 2 * bound
        return values

    def dense(name, inputs, outputs, bias=True):
        bias = (np.zeros(outputs, np.float32),) if bias else ()
        layers[name] = (kernel(inputs, outputs), *bias)

    def lstm(name, inputs):
        recurrent = kernel(HIDDEN, 4 * HIDDEN)
        bias = np.zeros(4 * HIDDEN, np.float32)
        layers[name] = (kernel(inputs, 4 * HIDDEN), recurrent, bias)

    def normed(name, channels, array):
        layers[name] = (array,)
        ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        layers[name + "_norm"] = (ones, zeros)

    if workload == "chat":
        layers["source"] = (kernel(VOCABULARY, EMBEDDING, fan=EMBEDDING),)
        layers["target"] = (kernel(VOCABULARY, EMBEDDING, fan=EMBEDDING),)
        for side in ("encoder", "decoder"):
            lstm(side + "0", EMBEDDING)
            lstm(side + "1", HIDDEN)
        dense("attention", HIDDEN, HIDDEN, bias=False)
        dense("combine", 2 * HIDDEN, HIDDEN)
        dense("logits", HIDDEN, VOCABULARY)
    elif workload == "mlp":
        for index, (inputs, outputs) in enumerate(zip(MLP, MLP[1:])):
            dense(f"dense{index}", inputs, outputs)
    elif workload == "cifar":
        normed("stem", STEM, kernel(3, 3, 3, STEM))
        for name, inputs, width, _ in residual_blocks():
            normed(name + "_conv0", width, kernel(3, 3, inputs, width))
            normed(name + "_conv1", width, kernel(3, 3, width, width))
            if inputs != width:
                normed(name + "_skip", width, kernel(1, 1, inputs, width))
        dense("logits", STAGES[-1], CIFAR_CLASSES)
    elif workload == "ssd":
        ssd.add_layers(layers, normed, kernel)
    else:
        normed("stem", MOBILE_STEM, kernel(3, 3, 3, MOBILE_STEM))
        for name, inputs, width, _ in separable_blocks():
            normed(name + "_depth", inputs, kernel(3, 3, inputs, 1, fan=9))
            normed(name + "_point", width, kernel(1, 1, inputs, width))
        dense("logits", SEPARABLE[-1][0], MOBILE_CLASSES)
    return layers


def parser(description, workloads=WORKLOADS):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("workload", choices=workloads)
    result.add_argument("--devices", type=int, default=1)
    result.add_argument("--seconds", type=float, default=10)
    result.add_argument(
        "--threads", type=int, default=1, help="intra-op threads of one device"
    )
    return result


def parse(arguments):
    """Reads the command line; the run then keeps to devices × threads cores."""
    args = arguments.parse_args()
    if args.devices > 1 and args.threads > 1:
        arguments.error("--threads is for one device")
    if BATCH[args.workload] % args.devices:
        arguments.error("the devices do not divide the global batch")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[: args.devices * args.threads])
    args.root = os.getpid()
    return args


def since_start(root):
    """Seconds since the process `root` was started."""
    stat = pathlib.Path(f"/proc/{root}/stat").read_text()
    ticks = int(stat.rpartition(")")[2].split()[19])
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    return now - ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_mb(root):
    """Peak resident sizes of `root` and all its living descendants, summed.

    Pages shared between processes count once for each of them.
    """
    parents, peaks = {}, {}
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            lines = status.read_text().splitlines()
        except OSError:  # the process has just ended
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        parents[int(fields["Pid"])] = int(fields["PPid"])
        peaks[int(fields["Pid"])] = int(fields.get("VmHWM", "0").split()[0])

    def inside(pid):
        while pid and pid != root:
            pid = parents.get(pid)
        return pid == root

    return sum(peak for pid, peak in peaks.items() if inside(pid)) / 1024


def timed(action):
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def window(step, seconds, agree):
    """Mean seconds of a step over a window of `seconds`, at least 3 steps."""
    step()
    limit = agree(max(3, math.ceil(seconds / timed(step)))) if agree else 3
    begin, count = time.perf_counter(), 0
    while count < limit or not agree and time.perf_counter() - begin < seconds:
        step()
        count += 1
    return (time.perf_counter() - begin) / count


def exposed(step, compute, barrier):
    """Median seconds that a step takes longer than its two passes alone."""
    compute()  # may compile
    differences = []
    for _ in range(ROUNDS):
        barrier()
        alone = timed(compute)
        barrier()
        differences.append(timed(step) - alone)
    return statistics.median(differences)


def benchmark(args, step, compute, agree=None, mean=float, barrier=lambda: None):
    """Runs the protocol and returns the measured part of the report.

    `step` does a training step and returns its loss; `compute` does only its
    forward and backward pass, to find the time of gradient exchange and
    optimizer that is not hidden behind them (sync_ms). Ranks that must do
    equally many steps pass `agree`, which makes one number of what each of
    them suggests. `mean` turns a rank's loss into that of the global batch.
    """
    losses = [mean(step())]
    startup = since_start(args.root)
    losses += [mean(step()) for _ in range(2)]
    for _ in range(WARMUP - len(losses)):
        step()
    barrier()
    step_s = window(step, args.seconds, agree)
    barrier()
    peak = peak_rss_mb(args.root)
    barrier()
    sync_s = exposed(step, compute, barrier)
    return {
        "samples_per_s": BATCH[args.workload] / step_s,
        "step_ms": 1e3 * step_s,
        "startup_s": startup,
        "peak_rss_mb": peak,
        "first_losses": losses,
        "sync_ms": 1e3 * sync_s,
    }


FIELDS = (
    "peer", "workload", "devices", "threads", "samples_per_s", "step_ms",
    "startup_s", "peak_rss_mb", "params", "first_losses", "sync_ms",
)  # fmt: skip


def report(args, peer, params, measured):
    line = {
        "peer": peer,
        "workload": args.workload,
        "devices": args.devices,
        "threads": args.threads,
        "params": params,
        **measured,
    }

    def short(value):
        if isinstance(value, list):
            return [short(item) for item in value]
        return round(value, 4) if isinstance(value, float) else value

    print(json.dumps({field: short(line[field]) for field in FIELDS}), flush=True)
