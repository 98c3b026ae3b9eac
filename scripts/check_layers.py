"""Checks that includes point down only, and that only apps/ prints, exits or reads the environment.

The layers, from top to bottom; a layer may use those below it, never one beside it.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = [
    {"train"},
    {"strategy"},
    {"collective", "optim", "events", "input"},
    {"sim"},
    {"device", "arena"},
    {"io", "drawing"},
    {"base"},
]
# Layers that prove the public API: they may use nothing private of others.
PUBLIC_ONLY = {"text", "vision", "nn", "kernels"}
# What those may use all the same.
SHARED = {"base", "drawing", "kernels"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
FORBIDDEN = re.compile(r"\bstd::(cout|cerr|clog|printf|puts|exit|getenv)\b|(?<![\w:])(printf|puts|exit|getenv)\(")


def level(layer):
    return next(i for i, layers in enumerate(LAYERS) if layer in layers)


def includes(path):
    for _, name in INCLUDE.findall(path.read_text()):
        yield name


def problems():
    for path in sorted((ROOT / "src").rglob("*.[ch]*")):
        layer = path.relative_to(ROOT / "src").parts[0]
        where = path.relative_to(ROOT)
        for name in includes(path):
            other = name.split("/")[0]
            if not (ROOT / "src" / other).is_dir():
                continue
            if other == layer:
                continue
            if layer in PUBLIC_ONLY:
                if other in SHARED:
                    continue
                yield f"{where}: {layer} may use public headers only, not {name}"
            elif other in PUBLIC_ONLY or level(other) <= level(layer):
                yield f"{where}: {layer} may not use {name}: arrows point down only"
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if FORBIDDEN.search(text):
                yield f"{where}:{line}: only apps/ may print, exit or read the environment"
    for path in sorted((ROOT / "include").rglob("*.h")):
        for name in includes(path):
            if (ROOT / "src" / name.split("/")[0]).is_dir():
                yield f"{path.relative_to(ROOT)}: a public header may not use {name}"
    for folder in ("apps", "examples", "bench"):
        for path in sorted((ROOT / folder).rglob("*.[ch]*")):
            for name in includes(path):
                if "/" in name and (ROOT / "src" / name.split("/")[0]).is_dir():
                    yield f"{path.relative_to(ROOT)}: may use public headers only, not {name}"


found = list(problems())
for problem in found:
    print(problem, file=sys.stderr)
sys.exit(1 if found else 0)
