"""Writes resnet_names.txt: the tensors of torchvision's ResNets, a line each: network, name, shape.

Needs torch and torchvision from PyPI (the list in this folder is of torchvision 0.29.2):

    python3 tests/oracles/resnet_names.py > tests/oracles/resnet_names.txt
"""

import torch
import torchvision

for network in ("resnet18", "resnet50"):
    with torch.device("meta"):
        model = getattr(torchvision.models, network)()
    for name, tensor in model.state_dict().items():
        print(network, name, "x".join(str(size) for size in tensor.shape) or "scalar")
