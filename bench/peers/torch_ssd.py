"""SSD MobileNet-v2 in PyTorch, in the way of torchvision's detectors.

Matching and hard negative mining happen in the loss, image by image and with
tensor operations: IoU of boxes and anchors, then negatives sorted by their
loss. Lockstep leaves out anchors whose predicted boxes nearly coincide
(TensorFlow's rule), so losses agree to two or three digits only. And a process
divides by its own matched anchors, as torchvision's code does, Lockstep by
those of all devices.
"""

import torch
from torch import nn
from torch.nn import functional as F

import ssd
from torch_layers import conv, conv6

OVERLAP = 0.5  # of an anchor that belongs to a thing
NEGATIVES, MIN_NEGATIVES = 3, 3  # for each positive, and in an image
CODE_SCALES = (10, 10, 5, 5)


class Inverted(nn.Sequential):
    """Inverted residual with a skip connection, if its shape allows one."""

    def __init__(self, layers, skip):
        super().__init__(*layers)
        self.skip = skip

    def forward(self, x):
        y = super().forward(x)
        return x + y if self.skip else y


def block(inputs, expanded, width, stride):
    """The layers of an inverted residual."""
    layers = [conv6(inputs, expanded, 1)] if expanded != inputs else []
    depth = conv6(expanded, expanded, 3, stride, expanded)
    return [*layers, depth, conv(expanded, width, 1)]


def backbone():
    """MobileNet-v2 in two parts: up to the first feature map, and the rest."""
    fine, coarse = [conv6(3, ssd.STEM, 3, 2)], []
    for index, (_, *shape) in enumerate(ssd.inverted_blocks()):
        inputs, _, width, stride = shape
        if index == ssd.FINE:  # has no skip connection, so it can be cut
            expand, *rest = block(*shape)
            fine.append(expand)
            coarse += rest
        else:
            same = stride == 1 and inputs == width
            part = fine if index < ssd.FINE else coarse
            part.append(Inverted(block(*shape), same))
    coarse.append(conv6(width, ssd.LAST, 1))
    return nn.Sequential(*fine), nn.Sequential(*coarse)


def extra(inputs, narrow, width):
    return nn.Sequential(conv6(inputs, narrow, 1), conv6(narrow, width, 3, 2))


class Head(nn.Module):
    """1x1 convolutions on one feature map: box codes and class logits."""

    def __init__(self, channels, cell):
        super().__init__()
        self.codes = nn.Conv2d(channels, cell * 4, 1)
        self.logits = nn.Conv2d(channels, cell * (ssd.CLASSES + 1), 1)

    def forward(self, x):
        codes, logits = self.codes(x), self.logits(x)
        return [
            y.permute(0, 2, 3, 1).reshape(len(x), -1, size)
            for y, size in ((codes, 4), (logits, ssd.CLASSES + 1))
        ]


class Ssd(nn.Module):
    """Returns the loss of images with `targets`."""

    def __init__(self):
        super().__init__()
        self.fine, self.coarse = backbone()
        channels = (ssd.LAST, *[width for _, width in ssd.EXTRAS])
        shapes = zip(channels, ssd.EXTRAS)
        self.extras = nn.ModuleList(extra(c, *shape) for c, shape in shapes)
        self.heads = nn.ModuleList(Head(*shape) for shape in ssd.maps())
        self.register_buffer("anchors", torch.from_numpy(ssd.anchors()))

    def forward(self, images, targets):
        maps = [self.fine(images)]
        for layer in (self.coarse, *self.extras):
            maps.append(layer(maps[-1]))
        outputs = [head(x) for head, x in zip(self.heads, maps)]
        codes, logits = (torch.cat(parts, 1) for parts in zip(*outputs))
        return loss(codes, logits, self.anchors, targets)


def targets(things):
    """Boxes as parts of an image and classes from 1, image by image."""
    result = []
    for rows in things:
        rows = rows[rows[:, 4] >= 0]
        boxes = rows[:, :4].float() / ssd.SIZE
        result.append({"boxes": boxes, "labels": rows[:, 4] + 1})
    return result


def box_iou(a, b):
    upper = torch.max(a[:, None, :2], b[:, :2])
    lower = torch.min(a[:, None, 2:], b[:, 2:])
    shared = (lower - upper).clamp(min=0).prod(-1)
    areas = [(box[:, 2:] - box[:, :2]).prod(-1) for box in (a, b)]
    return shared / (areas[0][:, None] + areas[1] - shared)


def match(boxes, anchors):
    """The number of each anchor's box, or -1."""
    overlaps = box_iou(boxes, anchors)
    best, matched = overlaps.max(0)
    matched[best < OVERLAP] = -1
    matched[overlaps.argmax(1)] = torch.arange(len(boxes))  # every box gets an anchor
    return matched


def encode(boxes, anchors):
    def centre_and_size(box):
        size = box[:, 2:] - box[:, :2]
        return box[:, :2] + size / 2, size

    (place, size), (from_place, from_size) = map(centre_and_size, (boxes, anchors))
    code = torch.cat([(place - from_place) / from_size, (size / from_size).log()], 1)
    return code * code.new_tensor(CODE_SCALES)


def loss(codes, logits, anchors, targets):
    box_losses, labels, positives = [], [], 0
    for code, target in zip(codes, targets):
        matched = match(target["boxes"], anchors)
        found = torch.where(matched >= 0)[0]
        wanted = encode(target["boxes"][matched[found]], anchors[found])
        box_losses.append(F.smooth_l1_loss(code[found], wanted, reduction="sum"))
        label = torch.zeros_like(matched)
        label[found] = target["labels"][matched[found]]
        labels.append(label)
        positives += len(found)
    labels = torch.stack(labels)
    wanted = F.one_hot(labels, logits.shape[-1]).to(logits.dtype)
    losses = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").sum(-1)
    counted = (labels > 0) | hardest(losses.detach(), labels > 0)
    return (losses[counted].sum() + torch.stack(box_losses).sum()) / max(positives, 1)


def hardest(losses, positive):
    """Which negatives count: in each image those with the largest losses."""
    limit = (NEGATIVES * positive.sum(1, keepdim=True)).clamp(min=MIN_NEGATIVES)
    order = losses.masked_fill(positive, -torch.inf).argsort(1, descending=True)
    return order.argsort(1) < limit
