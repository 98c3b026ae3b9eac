"""What docs/porting.md shows is code of an example: guide.py ROOT

Each block of code is in one file of examples/ as it stands; only blanks and line ends may differ.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])


def squeezed(text):
    return re.sub(r"\s", "", text)


sources = [squeezed(path.read_text()) for path in sorted((ROOT / "examples").rglob("*.*"))]
blocks = re.findall(r"^```\w+\n(.*?)^```$", (ROOT / "docs/porting.md").read_text(), re.M | re.S)
assert len(blocks) > 5, "no code in docs/porting.md"
missing = [block for block in blocks if not any(squeezed(block) in source for source in sources)]
print("\n".join(missing) or f"{len(blocks)} blocks are in examples/")
sys.exit(1 if missing else 0)
