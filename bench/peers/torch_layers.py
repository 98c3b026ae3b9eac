"""Layers that several of the PyTorch models have."""

from torch import nn

import common


def conv(inputs, outputs, size, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(
            inputs, outputs, size, stride, size // 2, groups=groups, bias=False
        ),
        nn.BatchNorm2d(outputs, common.NORM_EPSILON, 1 - common.NORM_DECAY),
    )


def conv6(*shape):
    return nn.Sequential(conv(*shape), nn.ReLU6(inplace=True))
