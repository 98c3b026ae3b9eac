"""Runs scripts/torch_weights.py on files as torch.save writes them, made without torch:
weights_test.py PATH_OF_SCRIPT"""

import collections
import hashlib
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import zipfile

SCRIPT = sys.argv[1]
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001

# pickle writes names of classes and functions only if it can import them.
torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
for kind in ("FloatStorage", "LongStorage", "QInt8Storage"):
    setattr(torch, kind, type(kind, (), {"__module__": "torch"}))


def _rebuild_tensor_v2():
    """Stands for torch's."""


_rebuild_tensor_v2.__module__ = "torch._utils"
utils._rebuild_tensor_v2 = _rebuild_tensor_v2


class Storage:
    def __init__(self, key, kind, numbers):
        self.key, self.kind, self.count = key, kind, len(numbers)
        self.bytes = struct.pack(f"<{self.count}{'f' if kind == 'FloatStorage' else 'q'}", *numbers)


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.arguments = (storage, offset, shape, strides, False, collections.OrderedDict())

    def __reduce__(self):
        return _rebuild_tensor_v2, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Storage):
            return "storage", getattr(torch, value.kind), value.key, "cpu", value.count
        return None


def pickled(value):
    file = io.BytesIO()
    Pickler(file, 2).dump(value)
    return file.getvalue()


def old_file(value, storages, protocol=PROTOCOL, little=True):
    plain = (MAGIC, protocol, {"little_endian": little, "protocol_version": protocol})
    data = b"".join(pickle.dumps(part, 2) for part in plain) + pickled(value)
    data += pickle.dumps([storage.key for storage in storages], 2)
    return data + b"".join(struct.pack("<q", one.count) + one.bytes for one in storages)


def zip_file(value, storages):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model/data.pkl", pickled(value))
        archive.writestr("model/byteorder", "little")
        for storage in storages:
            archive.writestr(f"model/data/{storage.key}", storage.bytes)
    return file.getvalue()


NUMBERS = Storage("0", "FloatStorage", range(12))
COUNT = Storage("1", "LongStorage", [7])
STORAGES = [NUMBERS, COUNT]
WEIGHTS = collections.OrderedDict([
    ("features.weight", Tensor(NUMBERS, 0, (3, 4), (4, 1))),
    ("transposed", Tensor(NUMBERS, 0, (4, 3), (1, 4))),
    ("part", Tensor(NUMBERS, 5, (2, 2), (4, 2))),
    ("batches", Tensor(COUNT, 0, (), ())),
    ("none", Tensor(NUMBERS, 0, (0, 2), (2, 1))),
])
EXPECTED = {
    "features.weight": ("F32", [3, 4], [*range(12)]),
    "transposed": ("F32", [4, 3], [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]),
    "part": ("F32", [2, 2], [5, 7, 9, 11]),
    "batches": ("I64", [], [7]),
    "none": ("F32", [0, 2], []),
}


def tensors(path):
    """What a safetensors file holds, checked as far as the format says."""
    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    header, data = json.loads(data[8:8 + length]), data[8 + length:]
    found, end = {}, 0
    for name, entry in header.items():
        begin, next_end = entry["data_offsets"]
        assert begin == end, f"a hole before {name}"
        letter = {"F32": "f", "I64": "q"}[entry["dtype"]]
        numbers = struct.unpack(f"<{(next_end - begin) // struct.calcsize(letter)}{letter}",
                                data[begin:next_end])
        found[name] = (entry["dtype"], entry["shape"], [*map(int, numbers)])
        end = next_end
    assert end == len(data), "bytes that belong to no tensor"
    return found


class Weights(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.input = os.path.join(self.folder.name, "in.pth")
        self.output = os.path.join(self.folder.name, "out.safetensors")

    def tearDown(self):
        self.folder.cleanup()

    def convert(self, data, *flags):
        with open(self.input, "wb") as file:
            file.write(data)
        return subprocess.run([sys.executable, SCRIPT, self.input, self.output, *flags],
                              capture_output=True, text=True)

    def refused(self, data, words, *flags):
        result = self.convert(data, *flags)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(words, result.stderr)
        self.assertIn(self.input, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)
        self.assertEqual(os.listdir(self.folder.name), ["in.pth"])

    def test_both_formats_keep_names_shapes_and_numbers(self):
        for write in old_file, zip_file:
            with self.subTest(write.__name__):
                result = self.convert(write(WEIGHTS, STORAGES))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("5 tensors", result.stdout)
                self.assertEqual(tensors(self.output), EXPECTED)

    def test_an_entry_is_chosen_by_key(self):
        data = old_file({"epoch": 3, "state_dict": WEIGHTS}, STORAGES)
        self.refused(data, "has no tensors, but these entries: state_dict. Choose one with --key")
        self.refused(data, "has no entry 'model'", "--key", "model")
        self.assertEqual(self.convert(data, "--key", "state_dict").returncode, 0)
        self.assertEqual(tensors(self.output), EXPECTED)

    def test_a_pickle_that_runs_code_is_refused_by_name(self):
        command = f"touch {self.folder.name}/attacked"

        class Attack:
            def __reduce__(self):
                return os.system, (command,)

        for write in old_file, zip_file:  # refused() looks for files that were made
            self.refused(write({"a": Attack()}, []), "needs posix.system")
        self.refused(old_file({"a": Tensor(Storage("0", "QInt8Storage", [1]), 0, (1,), (1,))}, []),
                     "needs torch.QInt8Storage")

    def test_a_file_cut_anywhere_is_refused(self):
        whole = old_file(WEIGHTS, STORAGES)
        for size in range(0, len(whole), 37):
            self.refused(whole[:size], "")
        zipped = zip_file(WEIGHTS, STORAGES)
        self.refused(zipped[:len(zipped) // 2], "is not whole")

    def test_what_cannot_be_read_is_refused(self):
        self.refused(b"not a pickle at all, but a long text", "is no file that torch.save writes")
        self.refused(old_file(WEIGHTS, STORAGES, protocol=1002), "another protocol")
        self.refused(old_file(WEIGHTS, STORAGES, little=False), "big-endian")
        self.refused(old_file([1, 2], []), "has no names")
        self.refused(old_file({"a": 1}, []), "has no tensors.")
        self.refused(old_file({"a": Tensor(NUMBERS, 6, (2, 4), (4, 1))}, [NUMBERS]), "ends at number 14 of 12")
        self.refused(old_file({"a": Tensor(COUNT, 0, (10 ** 12,), (0,))}, [COUNT]), "more numbers")
        self.refused(old_file({"a": Tensor(COUNT, 0, (1,), (-1,))}, [COUNT]), "negative")

    def test_a_checksum_is_compared(self):
        data = old_file(WEIGHTS, STORAGES)
        self.refused(data, "has the sha256", "--sha256", "0" * 64)
        self.assertEqual(self.convert(data, "--sha256", hashlib.sha256(data).hexdigest()).returncode, 0)

    def test_a_missing_file_is_named(self):
        result = subprocess.run([sys.executable, SCRIPT, "nowhere.pth", self.output],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("'nowhere.pth': No such file", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
