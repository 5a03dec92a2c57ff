"""Packed sequences: what each sequence gives alone."""

import copy

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.nn.utils import rnn

LENGTHS = [3, 5, 1, 5]


def sequences():
    torch.manual_seed(0)
    return [torch.randn(n, 3) for n in LENGTHS]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_is_each_alone(kind, bidirectional):
    net = kind(3, 4, num_layers=2, bidirectional=bidirectional)
    packed = rnn.pack_sequence(sequences(), enforce_sorted=False)
    out, last = net(packed)
    outs = rnn.unpack_sequence(out)
    for i, sequence in enumerate(sequences()):
        alone, state = net(sequence)
        assert torch.allclose(outs[i], alone, atol=1e-6)
        states = zip(last, state) if kind is nn.LSTM else [(last, state)]
        for batch, one in states:
            assert torch.allclose(batch[:, i], one, atol=1e-6)


def test_packing_there_and_back():
    items = sequences()
    padded = rnn.pad_sequence(items, batch_first=True, padding_value=7)
    assert padded.shape == (4, 5, 3) and padded[2, 1:].eq(7).all()
    assert rnn.pad_sequence(items, padding_side="left")[:2, 0].eq(0).all()
    packed = rnn.pack_padded_sequence(padded, LENGTHS, batch_first=True, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [4, 3, 3, 2, 2]
    again, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=7)
    assert again.equal(padded) and lengths.tolist() == LENGTHS
    longer, _ = rnn.pad_packed_sequence(packed, total_length=8)
    assert longer.shape == (8, 4, 3)
    for a, b in zip(rnn.unpad_sequence(padded, torch.tensor(LENGTHS), True), items):
        assert a.equal(b)
    with pytest.raises(RuntimeError, match="must be sorted in decreasing order"):
        rnn.pack_padded_sequence(padded, LENGTHS, batch_first=True)
    with pytest.raises(ValueError, match="at least the length of the longest"):
        rnn.pad_packed_sequence(packed, total_length=2)


def test_gradients_reach_every_step():
    items = [item.requires_grad_() for item in sequences()]
    net = nn.LSTM(3, 4)
    out, _ = net(rnn.pack_sequence(items, enforce_sorted=False))
    out.data.sum().backward()
    assert all(item.grad.abs().sum(1).gt(0).all() for item in items)


def test_sizes_are_checked():
    net = nn.GRU(3, 4)
    with pytest.raises(RuntimeError, match="Expected 3, got 5"):
        net(torch.ones(2, 1, 5))
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\]"):
        net(torch.ones(5, 2, 3), torch.ones(1, 3, 4))
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        nn.LSTM(3, 4, dropout=0.5)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_assigned_flat_weights_are_used_until_a_weight_is_set_or_all_are_moved(kind):
    module, x = getattr(torch.nn, kind)(2, 3), torch.ones(4, 2)
    zeros = [torch.zeros_like(w) for w in module._flat_weights]
    module._flat_weights = list(zeros)
    assert not module(x)[0].any()
    assert copy.deepcopy(module)(x)[0].any()
    module.bias_ih_l0 = torch.nn.Parameter(torch.ones_like(module.bias_ih_l0))
    assert module._flat_weights[2] is module.bias_ih_l0
    assert module._flat_weights[0] is zeros[0]
    assert module(x)[0].any()
    module.double()
    assert module._flat_weights[0] is module.weight_ih_l0
