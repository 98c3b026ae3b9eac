#!/usr/bin/env python3
"""Runs the C++ models' weights through PyTorch models of a few lines and compares the logits.

Usage: seq2seq_logits.py FOLDER

FOLDER is what tests/nn/write_seq2seq.cpp writes. Exits 1 with the largest difference when it is
above 1e-4, and 77 (skipped) where PyTorch or safetensors are not installed.
"""

import sys

try:
    import torch
    from safetensors.torch import load_file
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOLERANCE = 1e-4
HIDDEN, EMBEDDING = 24, 16


def lstm_part(weights, name):
    """An LSTM layer's parameters as nn.LSTM has them: two biases, of which one is 0."""
    bias = weights[f"{name}.bias"]
    return [
        weights[f"{name}.weight_input"],
        weights[f"{name}.weight_hidden"],
        bias,
        torch.zeros_like(bias),
    ]


def gru_part(weights, name):
    """nn.GRU has reset, update, candidate; ours candidate, reset, update, recurring candidate."""
    candidate, reset, update = weights[f"{name}.weight_input"].split(HIDDEN)
    b_candidate, b_reset, b_update, b_recurring = weights[f"{name}.bias"].split(HIDDEN)
    nothing = torch.zeros(2 * HIDDEN)
    return [
        torch.cat([reset, update, candidate]),
        weights[f"{name}.weight_hidden"],
        torch.cat([b_reset, b_update, b_candidate]),
        torch.cat([nothing, b_recurring]),
    ]


def fill(layers, parts):
    """Copies parameters, in the order in which nn.LSTM and nn.GRU list them."""
    for own, given in zip(layers.parameters(), sum(parts, []), strict=True):
        own.copy_(given)
    return layers


def encode(layers, embedded, lengths):
    packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    outputs, state = layers(packed)
    outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])
    return outputs, state


def hidden_from(padding):
    return torch.zeros(padding.shape).masked_fill(padding, -torch.inf)


def lstm_general(weights, source, lengths, target, padding):
    encoder = fill(
        nn.LSTM(EMBEDDING, HIDDEN // 2, 2, batch_first=True, bidirectional=True),
        [
            lstm_part(weights, f"{way}.{layer}")
            for layer in range(2)
            for way in ("encoder", "reverse_encoder")
        ],
    )
    decoder = fill(
        nn.LSTM(EMBEDDING, HIDDEN, 2, batch_first=True),
        [lstm_part(weights, f"decoder.{layer}") for layer in range(2)],
    )
    memory, state = encode(encoder, weights["source.weight"][source], lengths)
    both_ways = [torch.stack([torch.cat([s[0], s[1]], -1), torch.cat([s[2], s[3]], -1)]) for s in state]
    outputs, _ = decoder(weights["target.weight"][target], tuple(both_ways))
    scores = torch.einsum("bth,hk,bsk->bts", outputs, weights["attention_key"], memory)
    found = (scores + hidden_from(padding)[:, None]).softmax(-1) @ memory
    mixed = torch.cat([found, outputs], -1) @ weights["combine.weight"].T + weights["combine.bias"]
    return mixed.tanh() @ weights["output_weight"].T + weights["output_bias"]


def gru_bahdanau(weights, source, lengths, target, padding):
    table = weights["embedding.weight"]
    encoder = fill(nn.GRU(EMBEDDING, HIDDEN, batch_first=True), [gru_part(weights, "encoder.0")])
    cell = fill(
        nn.GRUCell(EMBEDDING + HIDDEN + EMBEDDING, HIDDEN), [gru_part(weights, "decoder.0")]
    )
    memory, state = encode(encoder, table[source], lengths)
    state, mixed, logits = state[0], torch.zeros(len(source), EMBEDDING), []
    for token in target.T:
        asked = state @ weights["attention_query"].T
        scores = (asked[:, None] + memory @ weights["attention_key"].T).tanh()
        looks = (scores @ weights["attention_score"] + hidden_from(padding)).softmax(-1)
        found = (looks[:, :, None] * memory).sum(1)
        state = cell(torch.cat([table[token], found, mixed], -1), state)
        mixed = torch.cat([found, state], -1) @ weights["combine.weight"].T
        mixed = (mixed + weights["combine.bias"]).tanh()
        logits.append(mixed @ table.T + weights["output_bias"])
    return torch.stack(logits, 1)


def main(folder):
    worst = 0
    with torch.no_grad():
        for model in (lstm_general, gru_bahdanau):
            weights = load_file(f"{folder}/{model.__name__}.safetensors")
            case = load_file(f"{folder}/{model.__name__}.case.safetensors")
            padding = torch.arange(case["source"].shape[1]) >= case["lengths"][:, None]
            found = model(weights, case["source"], case["lengths"], case["target"], padding)
            difference = (found - case["logits"]).abs().max().item()
            size = case["logits"].abs().max().item()
            print(f"{model.__name__}: logits up to {size:.2f} differ by {difference:.1e} at most")
            worst = max(worst, difference)
    if not worst <= TOLERANCE:
        sys.exit(f"differs by {worst}, more than {TOLERANCE}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
