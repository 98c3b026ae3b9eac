"""Writes torchvision_logits.txt: what its networks say of one image, a line each: network, logits.

Weights and image are sines, so that the test can make the same: tensor k of the state has the element
centre + spread * sin(0.37 * i + k) at place i. Needs torch and torchvision from PyPI (the numbers in
this folder are of torchvision 0.29.2):

    python3 tests/oracles/torchvision_logits.py > tests/oracles/torchvision_logits.txt
"""

import math

import torch
import torchvision


def sines(shape, k, centre, spread):
    count = math.prod(shape)
    wave = torch.sin(0.37 * torch.arange(count, dtype=torch.float64) + k)
    return (centre + spread * wave).reshape(shape)


def weight(name, shape, k):
    if name.endswith("running_var"):
        return sines(shape, k, 1, 0.5)
    if len(shape) > 1:
        return sines(shape, k, 0, math.sqrt(2 / math.prod(shape[1:])))
    return sines(shape, k, 1 if name.endswith("weight") else 0, 0.1)


models, classes = torchvision.models, 7
networks = {
    "resnet18": models.resnet18(num_classes=classes),
    "resnet50": models.resnet50(num_classes=classes),
    "mobilenet_v2_1.0": models.mobilenet_v2(num_classes=classes),
    "mobilenet_v2_0.35": models.mobilenet_v2(num_classes=classes, width_mult=0.35),
}
for network, model in networks.items():
    model.double().eval()
    state = {name: tensor for name, tensor in model.state_dict().items() if tensor.is_floating_point()}
    with torch.no_grad():
        for k, (name, tensor) in enumerate(state.items()):
            tensor.copy_(weight(name, tensor.shape, k))
        logits = model(sines((1, 3, 70, 64), 0, 0, 1))
    print(network, *(repr(logit) for logit in logits[0].tolist()))
