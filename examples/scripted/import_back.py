"""Takes the trained weights back into the Python model. Run: python3 import_back.py TRAINED

Prints the checksum that all_devices printed: the weights are the same, bit for bit.
"""

import sys

import torch
from export import Net


def checksum(net):
    result = 14695981039346656037  # FNV-1a, as in common.h
    for parameter in net.parameters():
        for byte in parameter.detach().numpy().tobytes():
            result = (result ^ byte) * 1099511628211 % 2**64
    return result


net = Net()
net.load_state_dict(torch.jit.load(sys.argv[1]).state_dict())
print("checksum", checksum(net))
