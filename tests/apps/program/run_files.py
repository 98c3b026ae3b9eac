"""Readers of what a run leaves behind: checkpoints, manifests, tensors."""

import hashlib
import json
import os
import re
import struct


def checkpoints(run):
    """The names of a run's checkpoints, ascending; what was being written or removed is not one."""
    folder = f"{run}/checkpoints"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name for name in names if re.fullmatch(r"step-\d{9,}", name))


def steps_of(run):
    return [int(name.removeprefix("step-")) for name in checkpoints(run)]


def checkpoint(run, step):
    return f"{run}/checkpoints/step-{step:09d}"


def last_checkpoint(run):
    return f"{run}/checkpoints/{checkpoints(run)[-1]}"


def left_over(run):
    """What interrupted saves and removals left behind."""
    return sorted(name for name in os.listdir(f"{run}/checkpoints")
                  if name.endswith((".new", ".old")))


def manifest(path):
    with open(f"{path}/manifest.json", encoding="utf-8") as file:
        return json.load(file)


def essence(path):
    """What of a manifest may not depend on how often the training was stopped, and where it ran."""
    content = manifest(path)
    progress = content["progress"]
    return {
        "progress": {key: progress[key] for key in ("step", "rows", "input", "schedule", "window")},
        "updates": content["updates"], "seed": content["seed"], "shards": content["shards"],
        "metrics": content["metrics"],
        "files": {file["name"]: file["sha256"] for file in content["files"]}}


def tensor_bytes(path):
    """The SHA-256 of the tensor files themselves."""
    found = {}
    for name in sorted(os.listdir(path)):
        if name.endswith(".safetensors"):
            with open(f"{path}/{name}", "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def tree(folder):
    """Every file below a folder with its content's SHA-256, without the events of TensorBoard and
    the lock, which has the number of the last process."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not name.startswith("events.") and name != "lock":
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()
    return found


def read_safetensors(path):
    """Name -> (type, shape, bytes) of a safetensors file."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if not 8 + length <= begin <= end <= len(content):
            raise ValueError(f"{path}: {name} lies outside of the file")
        found[name] = (entry["dtype"], entry["shape"], content[begin:end])
    return found


def flip_byte(path, offset):
    """Alters one byte; a negative offset counts from the end."""
    with open(path, "r+b") as file:
        file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0x10]))
