#!/usr/bin/env python3
"""Converts a file of PyTorch weights (.pth, .pt) into safetensors, without PyTorch.

    torch_weights.py mobilenet_v2-b0353104.pth mobilenet_v2.safetensors

Reads both formats of torch.save: the old one (a pickle with the numbers behind it) and the zip
file. A pickle can run any code, so only what a file of weights needs is let through, and
everything else is refused by name. The tensors keep their names; numbers and texts beside them
are left out. What is wrong with the input is said on one line, and the exit code is 2.
"""

import argparse
import collections
import hashlib
import io
import itertools
import json
import math
import os
import pickle
import sys
import zipfile

MAGIC = 0x1950A86A20F9469CFC6C  # begins a file of the old format
PROTOCOL = 1001
ALIGNMENT = 64

# Of a storage: its dtype in safetensors, and the bytes of a number.
STORAGES = {
    "DoubleStorage": ("F64", 8), "FloatStorage": ("F32", 4), "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2), "LongStorage": ("I64", 8), "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2), "CharStorage": ("I8", 1), "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
}


class Refused(Exception):
    """The input cannot be converted; the text says why."""


class Storage:
    """Numbers that tensors share: of a dtype, `count` of them, read when they are needed."""

    def __init__(self, dtype, key, count):
        self.dtype, self.width = dtype
        self.key, self.count, self.data = key, count, None


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        if not isinstance(storage, Storage) or len(shape) != len(strides):
            raise Refused("has a tensor without numbers")
        if any(value < 0 for value in (offset, *shape, *strides)):
            raise Refused("has a tensor with a negative size")
        if math.prod(shape) > storage.count:
            raise Refused("has a tensor with more numbers than were saved of it")
        last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides))
        if 0 not in shape and last >= storage.count:
            raise Refused(f"has a tensor that ends at number {last + 1} of {storage.count}")
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

    def numbers(self):
        """The bytes of the tensor, its last dimension together."""
        width, data = self.storage.width, self.storage.data
        if 0 in self.shape:
            return b""
        count, dense = 1, True
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            dense = dense and (size == 1 or stride == count)
            count *= size
        if dense:
            return data[self.offset * width:(self.offset + count) * width]
        parts = []
        for index in itertools.product(*map(range, self.shape)):
            at = (self.offset + sum(i * stride for i, stride in zip(index, self.strides))) * width
            parts.append(data[at:at + width])
        return b"".join(parts)


def rebuild_tensor(storage, offset, shape, strides, *_):
    return Tensor(storage, offset, tuple(shape), tuple(strides))


KNOWN = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch", "Size"): tuple,
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): lambda tensor, *_: tensor,
    **{("torch", name): dtype for name, dtype in STORAGES.items()},
}


class WeightsUnpickler(pickle.Unpickler):
    """Knows tensors and ordered dictionaries, and nothing else. Collects the storages."""

    def __init__(self, file):
        super().__init__(file, encoding="utf-8")
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) not in KNOWN:
            raise Refused(f"needs {module}.{name}, which plain weights do not: save the "
                          "model's state_dict() in PyTorch, and convert that")
        return KNOWN[module, name]

    def persistent_load(self, saved):
        kind, dtype, key, _, count, *view = saved
        if kind != "storage" or dtype not in STORAGES.values():
            raise Refused("has a storage of an unknown kind")
        if any(part is not None for part in view):
            raise Refused("has a storage that is a part of another, as PyTorch before 0.4 wrote")
        if key not in self.storages:
            self.storages[key] = Storage(dtype, key, count)
        return self.storages[key]


def take(file, size):
    data = file.read(size)
    if len(data) != size:
        raise Refused("ends too early")
    return data


def read_old(file):
    """What was saved in a file of the old format."""
    plain = [WeightsUnpickler(file).load() for _ in range(3)]
    if plain[1] != PROTOCOL or not plain[2].get("little_endian", True):
        raise Refused("has another protocol than 1001, or is of a big-endian machine")
    unpickler = WeightsUnpickler(file)
    saved = unpickler.load()
    for key in WeightsUnpickler(file).load():
        if key not in unpickler.storages:
            raise Refused(f"has a storage '{key}' that no tensor uses")
        storage = unpickler.storages[key]
        if int.from_bytes(take(file, 8), "little") != storage.count:
            raise Refused(f"has another length of storage '{key}' than its tensors say")
        storage.data = take(file, storage.count * storage.width)
    if any(storage.data is None for storage in unpickler.storages.values()):
        raise Refused("lacks the numbers of a tensor")
    return saved


def read_zip(file):
    """What was saved in a zip file."""
    with zipfile.ZipFile(file) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise Refused("is a zip file, but none that torch.save writes")
        top = pickles[0].removesuffix("data.pkl")
        if top + "byteorder" in archive.namelist() and archive.read(top + "byteorder") != b"little":
            raise Refused("is of a big-endian machine")
        unpickler = WeightsUnpickler(io.BytesIO(archive.read(pickles[0])))
        saved = unpickler.load()
        for storage in unpickler.storages.values():
            storage.data = archive.read(f"{top}data/{storage.key}")
            if len(storage.data) != storage.count * storage.width:
                raise Refused(f"has another length of storage '{storage.key}' than its tensors say")
    return saved


def read(path):
    """What was saved in the file at `path`, its tensors as Tensor."""
    with open(path, "rb") as file:
        begin = file.read(16)
        file.seek(0)
        try:
            if begin.startswith(b"PK"):
                return read_zip(file)
            if not begin.startswith(pickle.dumps(MAGIC, 2)[:13]):
                raise Refused("is no file that torch.save writes")
            return read_old(file)
        except (Refused, OSError):
            raise
        except Exception as problem:  # a pickle can be wrong in many ways
            raise Refused(f"is not whole: {problem}") from problem


def tensors_of(saved, key):
    """The tensors by name; of the entry `key`, if one is given."""
    if key is not None:
        if not isinstance(saved, dict) or key not in saved:
            raise Refused(f"has no entry '{key}'")
        saved = saved[key]
    if not isinstance(saved, dict):
        raise Refused("has no names: it is no state_dict()")
    tensors = {name: value for name, value in saved.items() if isinstance(value, Tensor)}
    if not tensors:
        entries = [str(name) for name, value in saved.items() if isinstance(value, dict)]
        raise Refused("has no tensors" + (
            f", but these entries: {', '.join(entries)}. Choose one with --key" if entries else ""))
    return tensors


def write(path, tensors):
    """Writes a safetensors file, at once or not at all."""
    order = sorted(tensors.items(), key=lambda item: (-item[1].storage.width, item[0]))
    header, data, end = {}, [], 0
    for name, tensor in order:
        data.append(tensor.numbers())
        header[name] = {"dtype": tensor.storage.dtype, "shape": tensor.shape,
                        "data_offsets": [end, end + len(data[-1])]}
        end += len(data[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    aside = f"{path}.{os.getpid()}.new"
    try:
        with open(aside, "wb") as file:
            file.writelines([len(text).to_bytes(8, "little"), text, *data])
        os.replace(aside, path)
    finally:
        if os.path.exists(aside):
            os.remove(aside)


def checked(path, expected):
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if found != expected:
        raise Refused(f"has the sha256 {found}, and {expected} was expected")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("input", help="the file of PyTorch")
    parser.add_argument("output", help="the safetensors file to write; what is there is replaced")
    parser.add_argument("--key", help="the entry that holds the weights, if there are several:\n"
                        "state_dict, model")
    parser.add_argument("--sha256", help="refuse an input with another checksum")
    arguments = parser.parse_args()
    try:
        if arguments.sha256:
            checked(arguments.input, arguments.sha256.lower())
        tensors = tensors_of(read(arguments.input), arguments.key)
        write(arguments.output, tensors)
    except Refused as problem:
        print(f"torch_weights: '{arguments.input}' {problem}.", file=sys.stderr)
        return 2
    except OSError as problem:
        print(f"torch_weights: '{problem.filename}': {problem.strerror}.", file=sys.stderr)
        return 2
    print(f"{arguments.output}: {len(tensors)} tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
