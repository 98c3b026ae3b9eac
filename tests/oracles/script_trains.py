#!/usr/bin/env python3
"""A model of Python's that C++ trains, and that Python reads back.

Usage: script_trains.py TRAIN DEPS

Exports a model with torch.jit.save, lets TRAIN (tests/nn/train_script.cpp) train it, and
compares the names, the mode and the logits of what TRAIN saved. Exits 77 (skipped) where PyTorch or
safetensors are not installed in DEPS.
"""

import pathlib
import subprocess
import sys
import tempfile
import warnings

sys.path[:0] = [f"{sys.argv[2]}/{name}" for name in ("torch", "cuda", "oracles")]
try:
    import torch
    from safetensors.torch import load_file
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 16, num_layers=2, dropout=0.3, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens):
        last = self.lstm(self.embedding(tokens))[0][:, -1]
        return self.head(self.dropout(torch.relu(self.norm(last))))


class Forks(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(7, 5)

    def forward(self, tokens):
        return torch.jit.wait(torch.jit.fork(torch.relu, self.head(tokens.float())))


def check_that_a_fork_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        torch.jit.save(torch.jit.script(Forks()), pathlib.Path(folder) / "net.pt")
        result = subprocess.run([sys.argv[1], folder], capture_output=True, text=True)
    assert result.returncode != 0
    assert "calls torch.jit.fork" in result.stderr, result.stderr


def check_that_the_python_class_takes_the_weights(trained, case):
    net = Net()
    net.load_state_dict(trained.state_dict())
    for key, value in net.state_dict().items():
        assert torch.equal(value, trained.state_dict()[key]), key
    net.eval()
    difference = (net(case["tokens"]) - case["logits"]).abs().max().item()
    assert difference <= 1e-6, f"logits of the Python class differ by {difference}"


def main():
    warnings.simplefilter("ignore")  # torch.jit is deprecated in Python
    check_that_a_fork_is_refused()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        exported = torch.jit.script(Net())
        torch.jit.save(exported, folder / "net.pt")
        subprocess.run([sys.argv[1], str(folder)], check=True)
        trained = torch.jit.load(folder / "trained.pt")
        case = load_file(folder / "case.safetensors")
    assert list(trained.state_dict()) == list(exported.state_dict())
    assert all(parameter.requires_grad for parameter in trained.parameters())
    before = dict(exported.named_parameters())
    for key, parameter in trained.named_parameters():
        assert not torch.equal(parameter, before[key]), f"{key} was not trained"
    assert trained.norm.num_batches_tracked == 5
    assert trained.training
    trained.eval()
    difference = (trained(case["tokens"]) - case["logits"]).abs().max().item()
    assert difference <= 1e-6, f"logits differ by {difference}"
    check_that_the_python_class_takes_the_weights(trained, case)


if __name__ == "__main__":
    main()
