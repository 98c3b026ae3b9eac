"""Checks that includes point down only, and that only apps/ prints, exits or reads the environment.

  check_layers.py [ROOT]

A layer is a folder of src/ with its public headers: include/lockstep/LAYER/, or those that HEADERS
names. It may include headers of the layers below it, private and public; not those of one beside it.
"""

import pathlib
import re
import sys

# The layers, from top to bottom.
LAYERS = [
    {"nn"},
    {"text", "vision"},
    {"train"},
    {"strategy"},
    {"collective", "events", "input"},
    {"optim"},
    {"backends"},
    {"sim", "gpu"},
    {"device", "arena", "io", "drawing", "machines"},
    {"kernels"},
    {"base"},
]

# Layers that could as well be in a user's program: of the others they use public headers only, but
# for those named here.
PUBLIC_ONLY = {"nn": {"base"}, "text": {"base", "drawing"}, "vision": {"base", "drawing"}}

# Public headers that are not in a folder of their layer.
HEADERS = {
    "base": {"error.h", "seconds.h"},
    "drawing": {"image.h"},
    "device": {"device.h", "placement.h", "precision.h", "trace.h"},
    "gpu": {"gpu.h"},
    "machines": {"machines.h"},
    "sim": {"sim.h"},
    "input": {"input.h", "input_range.h", "random.h", "share.h", "stream.h"},
    "events": {"events.h"},
    "optim": {"method.h", "optimizer.h"},
    "collective": {"exchange.h"},
    "strategy": {
        "async.h", "batch.h", "batch_device.h", "loss.h", "metrics.h", "mirrored.h",
        "model_strategy.h", "pipeline.h", "report.h", "sequential_stages.h", "state.h",
        "strategy.h", "travel.h", "where.h"},
    "train": {
        "checkpoint.h", "goal.h", "job.h", "manifest.h", "observer.h", "progress.h", "retention.h",
        "schedule.h", "tensorboard.h", "trainer.h", "verify.h"},
}
PUBLIC_FOLDERS = {"detail": "strategy"}  # and each layer's own name
UMBRELLA = "lockstep.h"  # is above all of them

# Benchmarks of parts that no program sees: they may use private headers.
OF_PARTS = ("bench/exchange", "bench/scale")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
FORBIDDEN = re.compile(
    r"\bstd::(cout|cerr|clog|printf|puts|exit|getenv)\b|(?<![\w:])(printf|puts|exit|getenv)\(")


def level(layer):
    return next(i for i, layers in enumerate(LAYERS) if layer in layers)


def known(layer):
    return any(layer in layers for layers in LAYERS)


def public_layer(name):
    """The layer of the public header lockstep/NAME; None: it is in no table."""
    parts = name.split("/")
    if len(parts) > 1:
        folder = PUBLIC_FOLDERS.get(parts[0], parts[0])
        return folder if known(folder) else None
    return next((layer for layer, names in HEADERS.items() if name in names), None)


def layer_of(root, include):
    """(layer, is public) of an included header of ours; (None, ...): it is of no known layer."""
    if include.startswith("lockstep/"):
        return public_layer(include.removeprefix("lockstep/")), True
    return include.split("/")[0], False


def ours(root, include):
    first = include.split("/")[0]
    return first == "lockstep" or ("/" in include and (root / "src" / first).is_dir())


def includes(root, path):
    return [name for name in INCLUDE.findall(path.read_text()) if ours(root, name)]


def sources(folder, pattern="*.[ch]*"):
    return sorted(folder.rglob(pattern))


def objection(root, layer, include):
    """Why `layer` may not include a header; None: it may."""
    other, public = layer_of(root, include)
    if other is None:
        return f"{include} is of no layer: name it in scripts/check_layers.py"
    if other == layer:
        return None
    if layer in PUBLIC_ONLY and not public and other not in PUBLIC_ONLY[layer]:
        return f"{layer} may use public headers only, not {include}"
    if level(other) <= level(layer):
        return f"{layer} may not use {include}: arrows point down only"
    return None


def source_problems(root):
    for path in sources(root / "src"):
        where = path.relative_to(root)
        layer = where.parts[1]
        if not known(layer):
            yield f"{where}: src/{layer} is no layer: name it in scripts/check_layers.py"
            continue
        for include in includes(root, path):
            if problem := objection(root, layer, include):
                yield f"{where}: {problem}"
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if FORBIDDEN.search(text):
                yield f"{where}:{line}: only apps/ may print, exit or read the environment"


def header_problems(root):
    public = root / "include" / "lockstep"
    for path in sources(public, "*.h"):
        where, name = path.relative_to(root), str(path.relative_to(public))
        layer = public_layer(name)
        if layer is None and name != UMBRELLA:
            yield f"{where}: of no layer: name it in scripts/check_layers.py"
        for include in includes(root, path):
            if not include.startswith("lockstep/"):
                yield f"{where}: a public header may not use {include}"
            elif layer and (problem := objection(root, layer, include)):
                yield f"{where}: {problem}"


def program_problems(root):
    for folder in ("apps", "examples", "bench"):
        for path in sources(root / folder):
            if str(path.relative_to(root)).startswith(OF_PARTS):
                continue
            for include in includes(root, path):
                if not include.startswith("lockstep/"):
                    yield f"{path.relative_to(root)}: may use public headers only, not {include}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if len(sys.argv) > 1 else root.parent.parent
    found = [*source_problems(root), *header_problems(root), *program_problems(root)]
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
