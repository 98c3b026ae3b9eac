#!/usr/bin/env python3
"""Makes the pictures of docs/ anew, most of them from real runs of the program:

    python3 docs/pictures/make.py                   # all; takes a few minutes
    python3 docs/pictures/make.py arena run_folder  # some

--program names another build, --work the folder for the runs.
"""

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import time

from pages import pages
from screens import screens
from svg import Svg

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
ROOT = os.path.join(DOCS, "..")


class Program:
    def __init__(self, path, work):
        self.path, self.work = os.path.abspath(path), os.path.abspath(work)
        os.makedirs(self.work, exist_ok=True)

    def folder(self, name):
        path = os.path.join(self.work, name)
        shutil.rmtree(path, ignore_errors=True)
        return path

    def start(self, recipe, folder, *fields, flags=(), environment=None):
        sets = [word for field in fields for word in ("--set", field)]
        command = [self.path, "train", recipe, "--run-dir", folder, *flags, *sets]
        return subprocess.Popen(command, cwd=self.work, stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.STDOUT, env=dict(os.environ, **(environment or {})))

    def train(self, *arguments, **options):
        process = self.start(*arguments, **options)
        output = process.communicate()[0]
        if process.returncode != 0:
            raise SystemExit(output)
        return output


# Arena, seat, block, bucket and slice

BLOCK = 4096  # kBlock in src/arena/arena.h
FLOATS_A_SEAT = 32  # seats begin at multiples of 128 bytes


def parameters_of(checkpoint):
    """Names and sizes of the trainable parameters, in the order of the model."""
    with open(os.path.join(checkpoint, "weights.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    found = []
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if "running_" in name or "num_batches" in name:
            continue
        numel = 1
        for size in tensor["shape"]:
            numel *= size
        found.append((name, tensor["shape"], numel))
    order = ["conv1.weight", "norm1.weight", "norm1.bias", "conv2.weight", "norm2.weight",
             "norm2.bias", "hidden.weight", "hidden.bias", "output.weight", "output.bias"]
    return sorted(found, key=lambda parameter: order.index(parameter[0]))


def arena(program):
    run = program.folder("arena")
    program.train("fashion", run, "model.width=8", "train.epochs=0", "train.steps=1",
                  flags=("--devices", "cpu:0"))
    checkpoint = os.path.join(run, "checkpoints", "step-000000001")
    seats, size = [], 0
    for name, shape, numel in parameters_of(checkpoint):
        seats.append((name, shape, size, numel))
        size += -(-numel // FLOATS_A_SEAT) * FLOATS_A_SEAT
    blocks = -(-size // BLOCK)
    towers, bucket_blocks = 3, 10

    svg = Svg(1080, 560, "Arena, seats, blocks, buckets and slices",
              "The parameters of a small convnet in one arena: seats of single parameters, blocks of "
              "4096 elements, buckets of ten blocks, and in each bucket a slice for each of three towers.")
    left, width = 150, 890
    scale = width / (blocks * BLOCK)
    svg.text(30, 36, f"One arena: the {len(seats)} float parameters of a convnet, {size} elements", "head")

    svg.text(30, 86, "seats", "name")
    svg.text(30, 102, "one a parameter", "small")
    svg.rect(left, 70, size * scale, 44, "white", 0)
    kinds = ["blue", "yellow", "green", "violet"]
    for i, (name, _, offset, numel) in enumerate(seats):
        svg.rect(left + offset * scale, 70, max(numel * scale, 1), 44, kinds[i % 4], 0)
    big = max(seats, key=lambda seat: seat[3])
    svg.text(left + (big[2] + big[3] / 2) * scale, 97, f"{big[0]}  {big[1]}", "mid")

    # The first parameters, larger.
    first = [seat for seat in seats if seat[2] < big[2]]
    end = big[2] + 160
    zoom = width / end
    svg.path([(left, 114), (left, 150)], tip=False, kind="dash")
    svg.path([(left + end * scale, 114), (left + width, 150)], tip=False, kind="dash")
    svg.text(30, 176, "its beginning,", "small")
    svg.text(30, 191, "larger", "small")
    svg.rect(left, 150, width, 44, "white", 0)
    for i, (name, shape, offset, numel) in enumerate([*first, big]):
        own = min(numel, end - offset)
        svg.rect(left + offset * zoom, 150, own * zoom, 44, kinds[i % 4], 0)
    for i, (name, shape, offset, numel) in enumerate([*first, big]):
        middle = left + (offset + min(numel, end - offset) / 2) * zoom
        if numel * zoom > 90:
            words = f"{name}  {shape}" if numel * zoom > 200 and name != big[0] else name
            svg.text(middle, 176, words, "mid" if words != name else "small mid")
        else:  # beside a line that leads to it: the further left, the lower
            level = 212 + 15 * (2 - i % 3)
            svg.path([(middle, 194), (middle, level - 3)], tip=False, kind="dash")
            svg.text(middle + 5, level, name, "small")
    svg.text(left, 262, "Every seat begins at a multiple of 128 bytes; the gaps (white) belong to nobody.", "small")

    svg.text(30, 306, "blocks", "name")
    svg.text(30, 322, f"{BLOCK} elements", "small")
    for block in range(blocks):
        begin, stop = block * BLOCK, min((block + 1) * BLOCK, size)
        svg.rect(left + begin * scale, 290, (stop - begin) * scale, 34, "grey", 0)
        if stop - begin > BLOCK // 2:
            svg.text(left + (begin + stop) / 2 * scale, 311, str(block), "small mid")

    svg.text(30, 372, "buckets", "name")
    svg.text(30, 388, f"here {bucket_blocks * BLOCK * 4 // 1024} KiB", "small")
    svg.text(30, 446, "slices", "name")
    svg.text(30, 462, f"of {towers} towers", "small")
    tower_kinds = ["blue", "yellow", "green"]
    for bucket, begin in enumerate(range(0, blocks, bucket_blocks)):
        stop = min(begin + bucket_blocks, blocks)
        right = min(stop * BLOCK, size)
        svg.box(left + begin * BLOCK * scale + 1, 356, (right - begin * BLOCK) * scale - 2, 36, "dark",
                f"bucket {bucket}")
        cuts = [min((begin + (stop - begin) * tower // towers) * BLOCK, size) for tower in range(towers)]
        cuts.append(right)
        for tower in range(towers):
            if cuts[tower] == cuts[tower + 1]:
                continue
            svg.rect(left + cuts[tower] * scale + 1, 430, (cuts[tower + 1] - cuts[tower]) * scale - 2,
                     36, tower_kinds[tower], 3)
            words = f"tower {tower}" if (cuts[tower + 1] - cuts[tower]) * scale > 60 else str(tower)
            svg.text(left + (cuts[tower] + cuts[tower + 1]) / 2 * scale, 452.5, words, "mid")
        for cut in cuts:
            svg.path([(left + cut * scale, 392), (left + cut * scale, 430)], tip=False, kind="dash")
    svg.text(left, 496, "Buckets and slices are cut at blocks only, so a parameter may lie in two buckets "
             "and in several slices.", "small")
    svg.text(left, 514, "A bucket is exchanged in one go. Its slices are reduced and updated each by one "
             "tower, which alone has the slots of that slice.", "small")
    svg.text(left, 532, "On the CPU an arena is one bucket; on accelerators a bucket is 25 MiB by default.",
             "small")
    svg.save(os.path.join(DOCS, "arena.svg"))


# From text file to shard

PAIRS = [("How are you?", "Fine, thanks."), ("What is your name?", "I am a model."), ("Hello", "Hi"),
         ("Do you like tea?", "Yes, with milk."), ("Good night", "Sleep well"),
         ("Where do you live?", "In a folder.")]


def token_pairs(path):
    """The pairs of a file of token ids: see src/text/pair_file.h."""
    with open(path, "rb") as file:
        data = file.read()
    key, tokens, pairs = struct.unpack_from("<QQQ", data, 16)
    begin = 40 + -(-key // 8) * 8
    ids = struct.unpack_from(f"<{tokens}i", data, begin)
    ends = struct.unpack_from(f"<{2 * pairs + 1}Q", data, begin + -(-tokens * 4 // 8) * 8)
    parts = [ids[a:b] for a, b in zip(ends, ends[1:])]
    return list(zip(parts[::2], parts[1::2]))


def text(program):
    run = program.folder("text")
    lines = os.path.join(program.work, "pairs.tsv")
    with open(lines, "w") as file:
        file.writelines(f"{source}\t{target}\n" for source, target in PAIRS)
    program.train("chat", run, "data.kind=tsv", f"data.path={lines}", "text.tokens=characters",
                  "train.epochs=0", "train.steps=1", "data.batch=4", "decode.tested=1",
                  flags=("--devices", "cpu:0"))
    data = os.path.join(run, "data")
    pairs = token_pairs(os.path.join(data, next(f for f in os.listdir(data) if "train" in f)))

    svg = Svg(1080, 640, "From a text file to shards", "Lines of a file become pairs of texts, token ids "
              "in a mapped file, buckets by length, a padded batch of one bucket, and shards by rows.")
    svg.text(30, 36, "From a text file to shards", "head")

    svg.text(30, 66, "a file: source, tab, target", "name")
    for i, (source, target) in enumerate(PAIRS):
        svg.text(30, 90 + 20 * i, source, "mono")
        svg.text(190, 90 + 20 * i, "→", "mono")
        svg.text(215, 90 + 20 * i, target, "mono")
    svg.text(30, 218, "bad UTF-8, empty sides, missing tabs:", "small")
    svg.text(30, 233, "skipped and counted, or refused", "small")

    svg.path([(345, 140), (400, 140)])
    svg.text(372, 130, "tokens", "small mid")
    svg.text(410, 66, "data/….train.pairs: token ids, mapped into memory once for all towers", "name")
    shown = lambda ids: " ".join(f"{i:2}" for i in ids[:9]) + (" …" if len(ids) > 9 else "")
    for i, (source, target) in enumerate(pairs):
        svg.text(410, 90 + 20 * i, shown(source), "mono")
        svg.text(660, 90 + 20 * i, "→", "mono")
        svg.text(690, 90 + 20 * i, shown(target), "mono")
    svg.text(410, 218, "tokens.model, learned from the training texts when the run first starts, is in every "
             "checkpoint", "small")

    buckets = [(5, 10), (10, 15), (20, 25), (40, 50)]
    svg.text(30, 280, "buckets: (most source tokens, most target tokens with the end)", "name")
    members = {bucket: [] for bucket in buckets}
    for i, (source, target) in enumerate(pairs):
        fits = next((b for b in buckets if len(source) <= b[0] and len(target) + 1 <= b[1]), None)
        if fits:
            members[fits].append(i)
    for i, bucket in enumerate(buckets):
        chosen = len(members[bucket]) == max(map(len, members.values()))
        svg.rect(30 + 256 * i, 296, 246, 96, "green" if chosen else "grey")
        svg.text(42 + 256 * i, 316, f"({bucket[0]}, {bucket[1]})", "name")
        for n, pair in enumerate(members[bucket]):
            svg.text(42 + 256 * i, 336 + 16 * n, PAIRS[pair][0], "mono")
        if chosen:
            taken, where = members[bucket], 30 + 256 * i + 123
    svg.path([(560, 228), (560, 288)])
    svg.text(574, 262, "into the first bucket that both lengths fit in; longer pairs are left out, or cut", "small")

    svg.path([(where, 392), (where, 424)])
    svg.text(where + 12, 412, "a step draws one bucket; the order belongs to (seed, epoch)", "small")
    svg.text(30, 440, "the batch: rows padded to the longest", "name")
    longest = max(len(pairs[i][0]) for i in taken)
    shards = 4
    for row, i in enumerate(taken):
        y = 456 + 34 * row
        ids = list(pairs[i][0]) + [0] * (longest - len(pairs[i][0]))
        for column, token in enumerate(ids):
            svg.rect(30 + 27 * column, y, 25, 24, "white" if token == 0 else "yellow", 3)
            svg.text(42.5 + 27 * column, y + 16.5, str(token), "small mid")
    for shard in range(shards):
        begin, stop = len(taken) * shard // shards, len(taken) * (shard + 1) // shards
        y = 456 + 34 * begin
        if stop > begin:
            svg.path([(38 + 27 * longest, y + 12), (620, y + 12)])
            svg.box(626, y - 2, 110, 28, "blue", f"shard {shard}")
    svg.text(758, 472, "A shard is a view of rows:", "small")
    svg.text(758, 488, "rows·i/n to rows·(i+1)/n.", "small")
    svg.text(758, 512, "Its loss is a sum over real tokens", "small")
    svg.text(758, 528, "and their number; padding (0)", "small")
    svg.text(758, 544, "never shows.", "small")
    svg.text(758, 568, "Which device computes it does", "small")
    svg.text(758, 584, "not matter.", "small")
    svg.text(30, 620, "Ids, buckets and rows are those of a real run: lockstep train chat --set data.kind=tsv "
             "--set text.tokens=characters", "small")
    svg.save(os.path.join(DOCS, "text_to_shard.svg"))


# Overlap of backward and exchange

def trace_of(program):
    """A trace of a few steps on two simulated devices with a slow link."""
    path = os.path.join(program.work, "overlap.json")
    process = program.start("fashion", program.folder("overlap"), "model.width=512", "data.batch=64",
                            "train.report_every=1", flags=("--devices", "sim:0-1", "--trace", path),
                            environment={"LOCKSTEP_SIM": "devices=2,launch=0,link=5e9"})
    while not process.stdout.readline().startswith("step 3 "):
        pass
    process.send_signal(signal.SIGINT)  # saves, writes the trace, does not evaluate
    process.communicate()
    with open(path) as file:
        return json.load(file)["traceEvents"]


def overlap(program):
    events = trace_of(program)
    devices = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    rows = {}
    for event in events:
        if "dur" in event:
            key = devices[event["pid"]], tracks[event["pid"], event["tid"]]
            rows.setdefault(key, []).append((event["ts"], event["ts"] + event["dur"], event["name"]))
    updates = sorted(span for span in rows["sim:0", "stages"] if span[2] == "update")
    begin, end = updates[1][1], updates[2][1]

    svg = Svg(1080, 424, "Overlap of backward and exchange", "A timeline of one step on two simulated "
              "devices: the second bucket is exchanged while backward still computes.")
    svg.text(30, 36, "One step on two simulated devices, two shards each", "head")
    left, width = 150, 890
    at = lambda when: left + (when - begin) / (end - begin) * width
    kinds = {"input": "grey", "forward": "yellow", "backward": "blue", "reduce": "green", "update": "red"}

    def bar(y, span, kind, words=""):
        svg.rect(at(span[0]), y, max(at(span[1]) - at(span[0]), 0.8), 26, kind, 2)
        if words and at(span[1]) - at(span[0]) > 7 * len(words):
            svg.text((at(span[0]) + at(span[1])) / 2, y + 17.5, words, "small mid")

    within = lambda spans: [s for s in sorted(spans) if begin - 1 <= s[0] and s[1] <= end + 1]
    first_copy = None
    for d, device in enumerate(("sim:0", "sim:1")):
        y = 66 + 138 * d
        svg.text(30, y + 17, device, "name")
        svg.text(84, y + 17, "stages", "small")
        for span in within(rows[device, "stages"]):
            bar(y, span, kinds[span[2]], span[2])
        svg.text(84, y + 51, "compute", "small")
        for span in within(rows[device, "stream 0"]):
            bar(y + 34, span, "dark")
        svg.text(84, y + 85, "exchange", "small")
        for span in within(rows[device, "stream 2"]):
            copying = span[2] == "aten::copy_"
            bar(y + 68, span, "violet" if copying else "green", "copy" if copying else "")
            first_copy = first_copy or span
    last_backward = max(s[1] for s in within(rows["sim:0", "stages"]) if s[2] == "backward")
    svg.path([(at(last_backward), 56), (at(last_backward), 312)], tip=False, kind="dash")
    svg.text(at(last_backward), 328, "end of backward", "small mid")
    svg.text(at(first_copy[0]), 328, "bucket 1 is complete on both", "small right")
    svg.path([(at(first_copy[0]), 318), (at(first_copy[0]), 302)], kind="line")
    svg.text(left, 362, "The gradients of the last layers are complete first. Their bucket is copied and summed on a "
             "stream of its own while backward goes on;", "small")
    svg.text(left, 378, "only the last bucket is waited for. Then each device updates its slices, and they are "
             "copied to the other one.", "small")
    svg.text(left, 402, f"From a real trace, in virtual time: {(end - begin) / 1000:.1f} ms. Model: the convnet of "
             "the recipe fashion with 512 filters; a link of 5 GB/s.", "small")
    svg.save(os.path.join(DOCS, "overlap.svg"))


# A step of a pipeline

def pipeline(program):
    """From a trace of bench/pipeline: its last step has 4 stages and 8 shards."""
    path = os.path.join(program.work, "pipeline.json")
    bench = os.path.join(os.path.dirname(program.path), "../bench/pipeline")
    subprocess.run([bench, path], check=True, stdout=subprocess.DEVNULL)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    devices = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    spans = [(devices[e["pid"]], e["ts"], e["ts"] + e["dur"], e["name"]) for e in events if "dur" in e]
    begin = max(s[1] for s in spans if s[0] == "sim:0" and s[3] == "F 0")  # of the last step
    end = max(s[2] for s in spans if s[3] == "B 7")

    svg = Svg(1080, 292, "A step of a pipeline", "A timeline of one step with four stages and eight shards: "
              "forward and backward of each shard at each stage, and the bubbles between them.")
    svg.text(30, 36, "One step of a pipeline: 4 stages, 8 shards", "head")
    left, width = 150, 890
    at = lambda when: left + (when - begin) / (end - begin) * width
    for stage in range(4):
        y = 62 + 44 * stage
        svg.text(30, y + 21, f"stage {stage + 1}", "name")
        svg.text(92, y + 21, f"sim:{stage}", "small")
        svg.rect(left, y, width, 32, "grey", 2)  # the bubbles
        for device, first, last, name in spans:
            if device != f"sim:{stage}" or name[:2] not in ("F ", "B ") or first < begin - 1e-3:
                continue
            svg.rect(at(first), y, max(at(last) - at(first), 0.8), 32, "yellow" if name[0] == "F" else "blue", 2)
            svg.text((at(first) + at(last)) / 2, y + 20.5, name[2:], "small mid")
    svg.rect(left, 246, 14, 14, "yellow", 2)
    svg.text(left + 20, 257.5, "forward of a shard", "small")
    svg.rect(left + 150, 246, 14, 14, "blue", 2)
    svg.text(left + 170, 257.5, "backward", "small")
    svg.rect(left + 260, 246, 14, 14, "grey", 2)
    svg.text(left + 280, 257.5, "bubble", "small")
    svg.text(left, 279, f"From a real trace, in virtual time: {(end - begin) / 1000:.2f} ms. Model: 16 linear layers of "
             "512 with tanh, cut evenly; 1024 rows a shard; fast links.", "small")
    svg.save(os.path.join(DOCS, "pipeline.svg"))


# Synchronous and asynchronous training on the same batches

def spans_of(path):
    """(device, track, begin, end, name) of a trace."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    devices = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return [(devices[e["pid"]], tracks[e["pid"], e["tid"]], e["ts"], e["ts"] + e["dur"], e["name"])
            for e in events if "dur" in e]


def strategies(program):
    """From traces of bench/strategies: three devices, batches that take different times."""
    bench = os.path.join(os.path.dirname(program.path), "../bench/strategies")
    subprocess.run([bench, "--trace", program.work], check=True)
    svg = Svg(1080, 424, "Synchronous and asynchronous training", "Two timelines of three devices on batches that take "
              "different times: synchronous steps, in which devices wait for the slowest, and asynchronous updates.")
    left, width, window = 150, 890, 12000.0  # microseconds
    for panel, (name, title) in enumerate((
            ("synchronous", "Synchronous: two batches a device in a step, and all wait for the last one"),
            ("delay", "Asynchronous, delay 3: whoever is free takes the next batch"))):
        spans = spans_of(os.path.join(program.work, name + ".json"))
        begin = min(s[2] for s in spans) + 4000  # the first steps prepare
        at = lambda when: left + min(max((when - begin) / window, 0), 1) * width
        top = 36 + 190 * panel
        svg.text(30, top, title, "head")
        for device in range(3):
            y = top + 20 + 44 * device
            svg.text(30, y + 21, f"sim:{device}", "name")
            svg.rect(left, y, width, 32, "grey", 2)
            for own, track, first, last, what in spans:
                if own != f"sim:{device}" or last < begin or first > begin + window:
                    continue
                if track == "stages" and what in ("forward", "backward"):
                    svg.rect(at(first), y, max(at(last) - at(first), 0.5), 32, "yellow" if what == "forward" else "blue", 1)
            for own, track, first, last, what in spans:
                if own == f"sim:{device}" and track == "batches" and first > begin and last < begin + window:
                    svg.text((at(first) + at(last)) / 2, y + 20.5, what[6:], "small mid")
    for x, colour, what in ((0, "yellow", "forward"), (110, "blue", "backward"), (230, "grey", "waiting, copying, summing")):
        svg.rect(left + x, 384, 14, 14, colour, 2)
        svg.text(left + x + 20, 395.5, what, "small")
    svg.text(left, 415, "From real traces of bench/strategies, 12 ms of virtual time each, sequences of 10 to 50 steps.", "small")
    svg.save(os.path.join(DOCS, "strategies.svg"))


# The run folder through save, kill and resume

def listing(run):
    """Lines of (indent, name) as they are now."""
    lines = []
    for name in sorted(os.listdir(run)):
        lines.append((0, "events.out.…" if name.startswith("events") else name))
        if name == "checkpoints":
            lines += [(1, inner) for inner in sorted(os.listdir(os.path.join(run, name)))]
    events = [line for line in lines if line[1].startswith("events")]
    unique = [line for line in lines if not line[1].startswith("events")]
    return unique + [(0, f"{events[0][1]}" + (f"  ({len(events)} files)" if len(events) > 1 else ""))]


def run_folder(program):
    fields = ("model.width=64", "train.epochs=0", "train.steps=60", "save.every_steps=20",
              "save.keep_last=2", "save.keep_best=0", "train.report_every=20")
    one, two = ("--devices", "cpu:0"), ("--devices", "cpu:0-1")
    while True:  # until it was killed in the middle of a save
        run = program.folder("run_folder")
        checkpoints = os.path.join(run, "checkpoints")
        process = program.start("fashion", run, *fields, flags=two)
        moments = {}
        while process.poll() is None:
            names = os.listdir(checkpoints) if os.path.isdir(checkpoints) else []
            if "step-000000040.new" in names:
                process.send_signal(signal.SIGKILL)
                process.wait()
                break
            if "step-000000020" in names and "saved" not in moments:
                moments["saved"] = listing(run)
            elif "lock" in names and "started" not in moments and os.path.exists(
                    os.path.join(run, "recipe.toml")) and any("events" in n for n in os.listdir(run)):
                moments["started"] = listing(run)
        if "step-000000040.new" in os.listdir(checkpoints) and len(moments) == 2:
            break
    moments["killed"] = listing(run)
    process = program.start("fashion", run, *fields, flags=one)
    said = ""
    for line in process.stdout:
        said += line
        if "resumed" not in moments and "on cpu:0" in said and "step-000000040.new" not in os.listdir(checkpoints):
            moments["resumed"] = listing(run)
    process.wait()
    moments["ended"] = listing(run)

    svg = Svg(1180, 372, "The run folder through save, kill and resume", "Five listings of one run folder: "
              "after the start, after a save, after a kill in the middle of a save, after the start of "
              "the resumed run, and at the end.")
    svg.text(30, 36, "One run folder at five moments", "head")
    heads = [("started", "started on 2 devices", "nothing saved yet"),
             ("saved", "step 20 saved", "written as .new, then renamed"),
             ("killed", "killed (kill -9)", "while step 40 was being written"),
             ("resumed", "the same command again,", "on 1 device: resumes at step 20"),
             ("ended", "done at step 60", "keeps the last 2")]

    for column, (key, head, detail) in enumerate(heads):
        x = 24 + 230 * column
        svg.rect(x, 56, 212, 236, "red" if key == "killed" else "grey")
        svg.text(x + 12, 78, head, "name")
        svg.text(x + 12, 95, detail, "small")
        for row, (indent, name) in enumerate(moments[key]):
            y = 124 + 22 * row
            new = name.startswith("step-")
            if new:
                svg.rect(x + 6 + 18 * indent, y - 15, 178, 20, "yellow" if name.endswith(".new") else "green", 3)
            svg.text(x + 12 + 18 * indent, y, name, "mono")
        if column:
            svg.path([(x - 18, 174), (x - 2, 174)])
    svg.text(30, 318, "A folder that ends in .new is never taken for a checkpoint; the next start removes it. Steps 21 to "
             "40 are computed again, to the same bits, on the other number of devices.", "small")
    svg.text(30, 336, "Each start adds an event file; TensorBoard shows one curve. lock names the process that trains; "
             "the system frees it when the process dies.", "small")
    svg.text(30, 354, "Real listings of: lockstep train fashion --set save.every_steps=20 --set save.keep_last=2", "small")
    svg.save(os.path.join(DOCS, "run_folder.svg"))


# Threads, and who waits for whom

def threads(_):
    svg = Svg(1080, 520, "Threads and who waits for whom", "The caller's thread, the tower threads, the "
              "input workers, autograd's threads and the writers, with an arrow for each wait.")
    svg.text(30, 36, "Threads of one process, and who waits for whom", "head")

    svg.box(30, 66, 200, 58, "yellow", "input workers", "prefetch: 1 to n threads")
    svg.box(30, 180, 200, 46, "white", "queue of batches", "prefetch.depth")
    svg.path([(130, 124), (130, 178)])
    svg.text(142, 148, "fill it, and wait", "small")
    svg.text(142, 162, "while it is full", "small")

    svg.box(370, 166, 240, 74, "dark", "the caller's thread", "Trainer::run, Mirrored::step")
    svg.path([(370, 203), (232, 203)])
    svg.text(301, 194, "waits when", "small mid")
    svg.text(301, 222, "it is empty", "small mid")

    for tower in range(3):
        x = 372 + 236 * tower
        svg.box(x, 340, 196, 62, "blue", f"tower {tower}", "one thread a device")
        svg.path([(470 + 30 * tower, 240), (x + 98, 338)])
    svg.text(352, 300, "starts all towers,", "small")
    svg.text(352, 315, "waits for the last", "small")
    svg.rect(372, 426, 668, 34, "green")
    svg.text(706, 447.5, "meetings: weights, losses, reduce, squares, gather", "name mid")
    for tower in range(3):
        x = 372 + 236 * tower + 98
        svg.path([(x, 402), (x, 424)])
    svg.text(706, 480, "five a step; no tower passes one before all are there. If a tower fails, the others are freed at "
             "once.", "small mid")

    svg.box(30, 340, 240, 62, "violet", "autograd's threads", "accelerators: one a device")
    svg.path([(372, 371), (272, 371)])
    svg.text(321, 362, "backward", "small mid")
    svg.text(30, 426, "On the CPU a tower runs its backward", "small")
    svg.text(30, 441, "pass itself. Hooks take each gradient", "small")
    svg.text(30, 456, "as soon as it is there; the last tower", "small")
    svg.text(30, 471, "to post a bucket enqueues its exchange", "small")
    svg.text(30, 486, "for all devices, and nobody waits.", "small")

    svg.box(780, 66, 260, 58, "red", "saver", "one checkpoint at a time")
    svg.path([(560, 166), (560, 95), (778, 95)])
    svg.text(572, 86, "hands over a copy of the state;", "small")
    svg.text(572, 112, "waits only for the save before", "small")
    svg.box(780, 174, 260, 58, "red", "event writer", "writes and syncs every 5 s")
    svg.path([(610, 203), (778, 203)])
    svg.text(694, 194, "queues events,", "small mid")
    svg.text(694, 222, "never waits", "small mid")
    svg.save(os.path.join(DOCS, "threads.svg"))


# The layers in docs/architecture.svg; the rest of it is drawn by hand

ABOUT = {"train": "trainer, schedules, checkpoints", "strategy": "replicas, engine, the step",
         "collective": "sums of towers", "optim": "slice updates", "events": "for TensorBoard",
         "input": "items in order", "sim": "simulated", "gpu": "CUDA",
         "backends": "each kind of device", "device": "streams", "arena": "flat tensors",
         "kernels": "products", "io": "whole files", "drawing": "pictures", "machines": "groups",
         "base": "errors, hashes, files", "nn": "models", "text": "pairs, tokens", "vision": "images"}
COLOURS = {"train": "batch", "strategy": "tower", "collective": "reduce", "optim": "update",
           "input": "shard", "sim": "clip", "gpu": "clip", "arena": "arena", "text": "shard",
           "vision": "shard", "nn": "tower", "kernels": "reduce"}


def architecture(_):
    """Draws the layers as scripts/check_layers.py has them."""
    with open(os.path.join(ROOT, "scripts/check_layers.py")) as file:
        rules = {}
        source = file.read()
        begin = source.index("LAYERS = [")
        exec(source[begin:source.index("\n\n\n", begin)].split("\nINCLUDE")[0], rules)
    # Sets have no order: the table above does.
    ordered = lambda names: sorted(names, key=lambda name: list(ABOUT).index(name))
    rows = []
    for names in rules["LAYERS"]:
        names = ordered(set(names) - set(rules["PUBLIC_ONLY"]))
        rows += [names[i:i + 3] for i in range(0, len(names), 3)]
    parts = ['<text x="860" y="36" class="head">Layers of the source</text>']

    def box(x, y, width, height, name, detail="", beside=False):
        parts.append(f'<rect class="box {COLOURS.get(name, "layer")}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                     f'height="{height:.1f}" rx="5"/>')
        middle = x + width / 2
        if beside:
            parts.append(f'<text x="{middle}" y="{y + height / 2 + 4.5:.1f}" class="name mid">{name}'
                         f'<tspan class="small" font-weight="400" dx="7">{detail}</tspan></text>')
            return
        below = 2 if detail else -4.5
        parts.append(f'<text x="{middle:.1f}" y="{y + height / 2 - below:.1f}" class="name mid">{name}</text>')
        if below > 0:
            parts.append(f'<text x="{middle:.1f}" y="{y + height / 2 + 11:.1f}" class="small mid">{detail}</text>')

    box(860, 50, 290, 24, "apps", "the program, recipes · examples · bench", beside=True)
    box(860, 80, 290, 24, "public headers", "include/lockstep/", beside=True)
    top, bottom, gap = 110, 406, 4
    height = (bottom - top + gap) / len(rows) - gap
    for i, names in enumerate(rows):
        letters = [max(len(name), 5) + 2 for name in names]
        x = 860
        for name, share in zip(names, letters):
            width = (200 - gap * (len(names) - 1)) * (share / sum(letters) if len(names) > 2 else 1 / len(names))
            box(x, top + i * (height + gap), width, height, name, ABOUT[name] if len(names) < 3 else "")
            x += width + gap
    beside = ordered(rules["PUBLIC_ONLY"])
    tall = (bottom - top + gap) / len(beside) - gap
    for i, name in enumerate(beside):
        box(1066, top + i * (tall + gap), 84, tall, name, ABOUT[name])
    box(860, 412, 290, 24, "LibTorch, C++20", "", beside=True)
    parts.append('<text x="860" y="455" class="small">A layer uses only those below; ./check enforces it.'
                 "</text>")
    path = os.path.join(DOCS, "architecture.svg")
    with open(path) as file:
        drawn = file.read()
    begin, end = drawn.index("<!-- layers -->"), drawn.index("<!-- tree -->")
    with open(path, "w") as file:
        file.write(drawn[:begin] + "<!-- layers -->\n" + "\n".join(parts) + "\n" + drawn[end:])


def use(program):
    screens(program, os.path.join(DOCS, "use.svg"))


def serve(program):
    pages(program, DOCS)


# Several machines: who sends what to whom, and a training that loses one of them


def machine_plan(svg, top):
    svg.text(30, top + 6, "Two machines with two devices each, four shards: what goes where in one step", "head")
    kinds = ["blue", "green"]
    for machine in range(2):
        left = 30 + 520 * machine
        svg.rect(left, top + 22, 500, 236, "white", 10)
        svg.text(left + 14, top + 44, f"machine {machine}", "name")
        for tower in range(2):
            number = 2 * machine + tower
            x = left + 40 + 220 * tower
            svg.box(x, top + 58, 190, 38, "yellow", f"tower {number}", f"gradient of shard {number}")
            svg.path([(x + 95, top + 96), (left + 245, top + 118)])
        svg.box(left + 150, top + 120, 190, 38, kinds[machine], f"root {2 * machine}",
                f"shards {2 * machine} + {2 * machine + 1}")
        for owner in range(2):
            kind = kinds[owner] if owner == machine else "grey"
            words = "adds roots 0 + 2, divides, updates" if owner == machine else "comes from the other machine"
            svg.box(left + 20 + 235 * owner, top + 206, 225, 40, kind,
                    "first half of the parameters" if owner == 0 else "second half", words)
    svg.path([(330, top + 158), (890, top + 206)])
    svg.text(378, top + 143, "its second half", "small")
    svg.path([(740, top + 158), (190, top + 206)])
    svg.text(692, top + 143, "its first half", "small right")
    svg.text(30, top + 282, "Each machine sends half of its root, then the half of the parameters that it has updated: "
             "as much as in a ring all-reduce.", "small")


def failing_run(program):
    """(seconds, step) of the first machine's reports, when another was killed, and what was lost."""
    first = "127.0.0.1:29517"
    fields = ("train.epochs=0", "train.steps=240", "train.report_every=4", "save.every_steps=40", "model.width=8",
              "evaluate.every_epochs=0", "shards=12", "data.batch=48")
    begin = time.monotonic()
    processes = [program.start("fashion", program.folder(f"machine-{number}"), *fields,
                               flags=("--devices", "cpu:0", "--log", "json", "--machines", first, "--machine",
                                      f"{number}/3"))
                 for number in range(3)]
    points, killed, lost = [], None, None
    for line in processes[0].stdout:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if event["event"] == "report":
            points.append((time.monotonic() - begin, event["step"]))
            if killed is None and event["step"] >= 150:
                killed = time.monotonic() - begin
                processes[2].kill()
        if event["event"] == "machines_lost":
            lost = (time.monotonic() - begin, event)
    if [process.wait() for process in processes][:2] != [0, 0]:
        raise SystemExit("the machines that were left did not go on")
    return points, killed, lost


def machines(program):
    points, killed, (noticed, event) = failing_run(program)
    svg = Svg(1080, 640, "Several machines: the plan, and the loss of one",
              "Two machines sum their shards, exchange halves of their roots and updated parameters. Below, the steps "
              "of a real training on three machines over time: one is killed, the others go back to the newest "
              "checkpoint and go on.")
    machine_plan(svg, 34)
    top, bottom, left, right = 400, 590, 90, 1040
    svg.text(30, 356, "A real training on three machines; one is killed", "head")
    start, end = points[0][0], points[-1][0]
    most = max(step for _, step in points)
    place = lambda seconds, step: (left + (seconds - start) / (end - start) * (right - left),
                                   bottom - step / most * (bottom - top))
    svg.path([(left, bottom), (right, bottom)], tip=False)
    svg.path([(left, bottom), (left, top)], tip=False)
    svg.text(left - 8, bottom + 4, "0", "small right")
    svg.text(left - 8, top + 4, str(most), "small right")
    svg.text(30, (top + bottom) / 2, "step", "small")
    svg.text(right, bottom + 18, f"{end - start:.1f} s", "small right")
    before = [point for point in points if point[0] <= noticed]
    after = [point for point in points if point[0] > noticed]
    svg.path([place(*point) for point in before], tip=False)
    svg.path([place(before[-1][0], before[-1][1]), place(noticed, event["step"])], kind="dash")
    svg.path([place(noticed, event["step"]), *(place(*point) for point in after)], tip=False)
    x, y = place(killed, before[-1][1])
    svg.path([(x, top - 14), (x, bottom)], tip=False, kind="dash")
    svg.text(x - 6, top - 4, "one is killed", "small right")
    x, y = place(noticed, event["step"])
    svg.text(x + 8, y + 16, f"the two that are left go on from the checkpoint of step {event['step']}", "small")
    svg.text(x + 8, y + 31, f"{1000 * (noticed - killed):.0f} ms later", "small")
    svg.save(os.path.join(DOCS, "machines.svg"))


PICTURES = {"architecture": architecture, "arena": arena, "machines": machines, "text": text, "overlap": overlap, "pipeline": pipeline, "run_folder": run_folder, "serve": serve, "strategies": strategies, "threads": threads, "use": use}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(PICTURES))
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/apps/lockstep"))
    parser.add_argument("--work", default=os.path.join(ROOT, "build/pictures"))
    arguments = parser.parse_args()
    program = Program(arguments.program, arguments.work)
    for name in arguments.names or PICTURES:
        begin = time.monotonic()
        PICTURES[name](program)
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
