"""Counts the lines in which the two programs of each example differ: lines.py EXAMPLES

A line that is changed, new or gone counts once. Comments and blank lines do not count.
"""

import difflib
import pathlib
import sys

MOST = 20


def code(path):
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("//")]


def difference(folder):
    one, all_ = code(folder / "one_device.cpp"), code(folder / "all_devices.cpp")
    assert '#include "net.h"' in one and '#include "net.h"' in all_, f"{folder}: no common net.h"
    matcher = difflib.SequenceMatcher(None, one, all_, autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal")


folders = sorted(path.parent for path in pathlib.Path(sys.argv[1]).glob("*/one_device.cpp"))
assert len(folders) > 1, "no examples"
counts = {folder.name: difference(folder) for folder in folders}
print(counts)
sys.exit(0 if all(0 < count <= MOST for count in counts.values()) else 1)
