"""The workloads in PyTorch: each model is a module that returns its loss."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F

import common
from torch_layers import conv
from torch_ssd import Ssd, targets


class Chat(nn.Module):
    def __init__(self):
        super().__init__()
        words, size, hidden = common.VOCABULARY, common.EMBEDDING, common.HIDDEN
        self.source = nn.Embedding(words, size)
        self.target = nn.Embedding(words, size)
        self.encoder = nn.LSTM(size, hidden, 2, batch_first=True)
        self.decoder = nn.LSTM(size, hidden, 2, batch_first=True)
        self.attention = nn.Linear(hidden, hidden, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.logits = nn.Linear(hidden, words)

    def forward(self, source, target, labels):
        memory, state = self.encoder(self.source(source))
        output, _ = self.decoder(self.target(target), state)
        scores = self.attention(output) @ memory.transpose(1, 2)
        context = scores.softmax(-1) @ memory
        mixed = self.combine(torch.cat([context, output], -1)).tanh()
        return F.cross_entropy(self.logits(mixed).flatten(0, 1), labels.flatten())


class Classifier(nn.Sequential):
    def forward(self, inputs, labels):
        return F.cross_entropy(super().forward(inputs), labels)


def mlp():
    layers = []
    for inputs, outputs in zip(common.MLP, common.MLP[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return Classifier(*layers[:-1])


class Residual(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv0 = conv(inputs, width, 3, stride)
        self.conv1 = conv(width, width, 3)
        same = inputs == width
        self.skip = nn.Identity() if same else conv(inputs, width, 1, stride)

    def forward(self, x):
        y = self.conv1(F.relu(self.conv0(x), inplace=True))
        return F.relu(y + self.skip(x), inplace=True)


def pooled(channels, classes):
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)


def cifar():
    return Classifier(
        conv(3, common.STEM, 3),
        nn.ReLU(inplace=True),
        *[Residual(*shape) for _, *shape in common.residual_blocks()],
        *pooled(common.STAGES[-1], common.CIFAR_CLASSES),
    )


def mobilenet():
    layers = [conv(3, common.MOBILE_STEM, 3, 2), nn.ReLU6(inplace=True)]
    for _, inputs, width, stride in common.separable_blocks():
        layers += [conv(inputs, inputs, 3, stride, inputs), nn.ReLU6(inplace=True)]
        layers += [conv(inputs, width, 1), nn.ReLU6(inplace=True)]
    return Classifier(*layers, *pooled(width, common.MOBILE_CLASSES))


MODELS = {
    "chat": Chat, "cifar": cifar, "mlp": mlp, "mobilenet": mobilenet, "ssd": Ssd
}  # fmt: skip


@torch.no_grad()
def load(model, weights):
    """Copies the common initial weights; the module order is the layer order."""
    layers = iter(weights.values())

    def fill(*parameters):
        for parameter, array in zip(parameters, next(layers), strict=True):
            value = torch.from_numpy(array)
            if value.ndim == 4:
                order = (2, 3, 0, 1) if module.groups > 1 else (3, 2, 0, 1)
                value = value.permute(order)
            elif value.ndim == 2 and not isinstance(module, nn.Embedding):
                value = value.T
            parameter.copy_(value)

    for module in model.modules():
        if isinstance(module, nn.LSTM):
            # One trainable bias as in the other peers: the second stays zero.
            for kernel, recurrent, bias, frozen in module.all_weights:
                fill(kernel, recurrent, bias)
                frozen.zero_().requires_grad_(False)
        elif own := list(module.parameters(recurse=False)):
            fill(*own)
    return model


def build(workload):
    """Model with the common weights; convolutions as channels-last."""
    model = load(MODELS[workload](), common.weights(workload))
    return model.to(memory_format=torch.channels_last)


def batches(workload, rank, devices):
    """Endless batches of one device; NHWC arrays become channels-last tensors."""

    def tensor(array):
        value = torch.from_numpy(array)
        if value.ndim == 4:
            return value.permute(0, 3, 1, 2)
        return value if value.is_floating_point() else value.long()

    arrays = common.batches(workload, rank, devices)
    result = [tuple(map(tensor, batch)) for batch in arrays]
    if workload == "ssd":
        result = [(images, targets(things)) for images, things in result]
    return itertools.cycle(result)


def optimizer(workload, parameters):
    if workload in common.ADAM:
        return torch.optim.Adam(parameters, common.ADAM[workload], fused=True)
    if workload in common.MOMENTUM:
        rate, momentum = common.MOMENTUM[workload]
        return torch.optim.SGD(parameters, rate, momentum, fused=True)
    rate, decay, momentum, epsilon = common.RMSPROP[workload]
    return torch.optim.RMSprop(  # has no fused kernel
        parameters, rate, decay, epsilon, momentum=momentum
    )


def trainable(model):
    return [p for p in model.parameters() if p.requires_grad]


def clip(workload, parameters):
    if workload == "chat":
        nn.utils.clip_grad_norm_(parameters, common.CLIP)
