"""Exports a classifier for the C++ programs. Run: python3 export.py NET"""

import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(2, 8)
        self.head = nn.Linear(8 * 14 * 14, 10)

    def forward(self, images):
        return self.head(torch.relu(self.norm(self.conv(images))).flatten(1))


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.jit.save(torch.jit.script(Net()), sys.argv[1])
