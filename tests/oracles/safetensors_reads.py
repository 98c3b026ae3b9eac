"""Opens a file with PyPI's safetensors and compares it with what it should hold.

    python3 safetensors_reads.py FILE EXPECTED.json

EXPECTED.json: {"name": {"dtype": "F32", "shape": [2, 3], "values": [six numbers]}, ...}; the values
in the order of memory, written so that they are exact. Prints the first difference and exits with 1.
"""

import json
import sys

import numpy
from safetensors.numpy import load_file

DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16",
    "U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64", "F64": "float64",
}


def differences(found, expected):
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            yield f"{name}: in the file, not expected"
        elif name not in found:
            yield f"{name}: expected, not in the file"
        else:
            yield from (f"{name}: {text}" for text in tensor_differences(found[name], expected[name]))


def tensor_differences(found, expected):
    dtype = numpy.dtype(DTYPES[expected["dtype"]])
    if found.dtype != dtype:
        yield f"dtype {found.dtype}, expected {dtype}"
    elif list(found.shape) != expected["shape"]:
        yield f"shape {list(found.shape)}, expected {expected['shape']}"
    elif found.size != len(expected["values"]):
        yield f"{found.size} values, expected {len(expected['values'])}"
    else:
        wanted = numpy.array(expected["values"], dtype=dtype)
        for i, (a, b) in enumerate(zip(found.reshape(-1), wanted)):
            both_nan = a != a and b != b
            if a.tobytes() != b.tobytes() and not both_nan:
                yield f"value {i} is {a!r}, expected {b!r}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as file:
        expected = json.load(file)
    for text in differences(load_file(sys.argv[1]), expected):
        print(f"{sys.argv[1]}: {text}")
        sys.exit(1)
    print(f"{sys.argv[1]}: {len(expected)} tensors as expected")


if __name__ == "__main__":
    main()
