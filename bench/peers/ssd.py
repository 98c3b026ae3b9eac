"""The detector of the workload ssd: its shapes, anchors, boxes and layers."""

import math

import numpy as np

SIZE, CLASSES, STEM, LAST = 300, 2, 32, 1280
# Inverted residuals of MobileNet-v2: expansion, output channels, blocks, first stride.
INVERTED = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
    (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
FINE = 13  # the block whose expansion is the first feature map
EXTRAS = ((256, 512), (128, 256), (128, 256), (64, 128))  # 1x1, then 3x3 of stride 2
GRIDS = (19, 10, 5, 3, 2, 1)
SCALES, RATIOS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0), (1, 2, 0.5, 3, 0.3333)
THINGS = 4  # at the most in an image


def inverted_blocks():
    """MobileNet-v2, block by block: name, input channels, expanded, output, stride."""
    channels, block = STEM, 0
    for expansion, width, count, first_stride in INVERTED:
        for stride in (first_stride, *[1] * (count - 1)):
            yield f"b{block}", channels, channels * expansion, width, stride
            channels, block = width, block + 1


def maps():
    """Feature maps of the detector: channels, anchors in a cell."""
    fine = [expanded for _, _, expanded, _, _ in inverted_blocks()][FINE]
    channels = (fine, LAST, *[width for _, width in EXTRAS])
    return list(zip(channels, [len(cell) for cell in cells_of_maps()]))


def cells_of_maps():
    """Heights and widths of the anchors in a cell, map by map."""
    cells = [[(0.1, 1), (SCALES[0], 2), (SCALES[0], 0.5)]]
    for scale, following in zip(SCALES[1:], SCALES[2:]):
        between = math.sqrt(scale * following)
        cells.append([*[(scale, ratio) for ratio in RATIOS], (between, 1)])
    return [
        [(scale / math.sqrt(ratio), scale * math.sqrt(ratio)) for scale, ratio in cell]
        for cell in cells
    ]


def anchors():
    """All anchors as (top, left, bottom, right), by map, row, column, cell."""
    result = []
    for grid, cell in zip(GRIDS, cells_of_maps()):
        centres = (np.arange(grid) + 0.5) / grid
        y, x = np.meshgrid(centres, centres, indexing="ij")
        centre = np.stack([y, x], -1).reshape(-1, 1, 2)
        half = np.array(cell) / 2
        corners = np.concatenate([centre - half, centre + half], -1)
        result.append(corners.reshape(-1, 4))
    return np.concatenate(result).astype(np.float32)


def things(rng, labelings, size):
    """1 to THINGS random boxes in each image, in pixels: (top, left, bottom, right, class).

    Where an image has fewer, the class is -1.
    """
    sides = 30 + rng.integers(210, size=(labelings, size, THINGS, 2))
    places = rng.integers(SIZE, size=(labelings, size, THINGS, 2))
    classes = rng.integers(CLASSES, size=(labelings, size, THINGS, 1))
    counts = 1 + rng.integers(THINGS, size=(labelings, size, 1, 1))
    corners = places * (SIZE - sides) // SIZE
    there = np.arange(THINGS).reshape(-1, 1) < counts
    return np.concatenate(
        [corners, corners + sides, np.where(there, classes, -1)], -1
    )


def add_layers(layers, normed, kernel):
    """The layers of ssd, in order: backbone, extra maps, heads."""
    normed("stem", STEM, kernel(3, 3, 3, STEM))
    for name, inputs, expanded, width, _ in inverted_blocks():
        if expanded != inputs:
            normed(name + "_expand", expanded, kernel(1, 1, inputs, expanded))
        normed(name + "_depth", expanded, kernel(3, 3, expanded, 1, fan=9))
        normed(name + "_project", width, kernel(1, 1, expanded, width))
    normed("last", LAST, kernel(1, 1, width, LAST))
    channels = LAST
    for index, (narrow, width) in enumerate(EXTRAS):
        normed(f"extra{index}_point", narrow, kernel(1, 1, channels, narrow))
        normed(f"extra{index}_conv", width, kernel(3, 3, narrow, width))
        channels = width
    for index, (channels, cell) in enumerate(maps()):
        for kind, numbers in ("codes", 4), ("logits", CLASSES + 1):
            zeros = np.zeros(cell * numbers, np.float32)
            layers[kind + str(index)] = (kernel(1, 1, channels, zeros.size), zeros)
