"""Writes mobilenet_names.txt: the tensors of torchvision's MobileNet v2, a line each: network, name, shape.

Needs torch and torchvision from PyPI (the list in this folder is of torchvision 0.29.2):

    python3 tests/oracles/mobilenet_names.py > tests/oracles/mobilenet_names.txt
"""

import torch
import torchvision

for width in (1.0, 0.35):
    with torch.device("meta"):
        model = torchvision.models.mobilenet_v2(width_mult=width)
    for name, tensor in model.state_dict().items():
        print(f"mobilenet_v2_{width}", name, "x".join(str(size) for size in tensor.shape) or "scalar")
