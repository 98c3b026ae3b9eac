#!/usr/bin/env python3
"""Reads event files with TensorBoard's own code and compares what it finds.

Usage: tensorboard_reads.py FOLDER EXPECTED.json

EXPECTED.json is what tests/events/write_sample.cpp writes beside its events. Exits 1 with the first
difference. Needs the package `tensorboard`; asks for no TensorFlow.
"""

import json
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.proto import graph_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.hparams import api_pb2
from tensorboard.util import tensor_util


class Differs(Exception):
    pass


def equal(what, found, expected):
    if found != expected:
        raise Differs(f"{what}: found {found!r}, expected {expected!r}")


def values(events, tag):
    """The tensors of a tag, as (step, array)."""
    return [(e.step, tensor_util.make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]


def of_plugin(events, plugin):
    return set(events.PluginTagToContent(plugin))


def check_scalars(events, expected):
    equal("scalar tags", set(events.Tags()["scalars"]), set(expected))
    for tag, points in expected.items():
        found = [[e.step, e.value] for e in events.Scalars(tag)]
        equal(f"scalar {tag}", found, points)


def check_histograms(events, expected):
    equal("histogram tags", of_plugin(events, "histograms"), set(expected))
    for tag, all_expected in expected.items():
        found = values(events, tag)
        equal(f"histogram {tag}, how many", len(found), len(all_expected))
        for (step, buckets), one in zip(found, all_expected):
            equal(f"histogram {tag}, shape", buckets.shape, (30, 3))
            equal(f"histogram {tag}, step", step, one["step"])
            equal(f"histogram {tag}, count", buckets[:, 2].sum(), one["count"])
            equal(f"histogram {tag}, least", buckets[0, 0], one["least"])
            equal(f"histogram {tag}, greatest", buckets[-1, 1], one["greatest"])
            equal(f"histogram {tag}, gaps", list(buckets[1:, 0]), list(buckets[:-1, 1]))


def png_head(data):
    """Width, height and channels that a PNG states of itself."""
    equal("signature of a PNG", data[:8], b"\x89PNG\r\n\x1a\n")
    width, height, depth, colour = struct.unpack(">IIBB", data[16:26])
    equal("bits of a PNG", depth, 8)
    return {"width": width, "height": height, "channels": {0: 1, 2: 3, 4: 2, 6: 4}[colour]}


def check_images(events, expected):
    equal("image tags", set(events.Tags()["images"]), set(expected))
    for tag, one in expected.items():
        (found,) = events.Images(tag)
        size = {"step": found.step, **png_head(found.encoded_image_string)}
        equal(f"image {tag}", size, one)
        equal(f"image {tag}, stated", [found.width, found.height], [one["width"], one["height"]])


def check_text(events, expected):
    equal("text tags", of_plugin(events, "text"), set(expected))
    for tag, text in expected.items():
        ((_, found),) = values(events, tag)
        equal(f"text {tag}", [s.decode("utf-8") for s in found.flatten()], [text])


def check_hyper_parameters(events, expected):
    content = events.PluginTagToContent("hparams")
    experiment = hparams_metadata.parse_experiment_plugin_data(
        content[hparams_metadata.EXPERIMENT_TAG])
    start = hparams_metadata.parse_session_start_info_plugin_data(
        content[hparams_metadata.SESSION_START_INFO_TAG])
    end = hparams_metadata.parse_session_end_info_plugin_data(
        content[hparams_metadata.SESSION_END_INFO_TAG])
    found = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    equal("hyper-parameters", found, expected["values"])
    equal("names of hyper-parameters", {i.name for i in experiment.hparam_infos}, set(found))
    types = {bool: "DATA_TYPE_BOOL", float: "DATA_TYPE_FLOAT64", str: "DATA_TYPE_STRING"}
    for info in experiment.hparam_infos:
        equal(f"type of {info.name}", api_pb2.DataType.Name(info.type), types[type(found[info.name])])
    equal("metrics", [i.name.tag for i in experiment.metric_infos], expected["metrics"])
    equal("status", api_pb2.Status.Name(end.status), expected["status"])
    if not 0 < start.start_time_secs <= end.end_time_secs:
        raise Differs(f"session from {start.start_time_secs} to {end.end_time_secs}")


def check_graph(events, expected):
    graph = events.Graph()
    if not isinstance(graph, graph_pb2.GraphDef):
        raise Differs(f"graph: found a {type(graph)}")
    found = [{"name": n.name, "op": n.op, "inputs": list(n.input),
              "attributes": {k: v.s.decode("utf-8") for k, v in n.attr.items()}} for n in graph.node]
    equal("graph, names", [n["name"] for n in found], [n["name"] for n in expected])
    for one, other in zip(found, expected):
        equal(f"graph, node {one['name']}", one, other)


CHECKS = {"scalars": check_scalars, "histograms": check_histograms, "images": check_images,
          "text": check_text, "hyper_parameters": check_hyper_parameters, "graph": check_graph}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, expected_path = sys.argv[1:]
    with open(expected_path, encoding="utf-8") as file:
        expected = json.load(file)
    everything = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 0)
    events = event_accumulator.EventAccumulator(folder, size_guidance=everything)
    events.Reload()
    try:
        equal("file version", events.file_version, 2.0)
        equal("what is expected", set(expected), set(CHECKS))
        for name, check in CHECKS.items():
            check(events, expected[name])
    except (Differs, KeyError, ValueError) as difference:
        sys.exit(f"{folder}: {difference}")
    print(f"{folder}: TensorBoard reads all of {', '.join(CHECKS)}")


if __name__ == "__main__":
    main()
