"""What random programs find around them: modules, functions and state, fresh in each world.

`worlds.py` executes this file's text in the namespace of a world, which already has `torch`,
`device`, `compiled` (torch.compile, or nothing) and a few more; it is never imported.
"""

# ruff: noqa: F401, F821
# mypy: ignore-errors

import contextlib
import copy
import functools
import io
import math
import random
import threading
import weakref

import numpy as np

nn = torch.nn
F = torch.nn.functional
checkpoint = torch.utils.checkpoint.checkpoint

# What outlives a call, and is compared after each.
log: list = []
state = [0]
setting = 1.0
cache: dict = {}
arrays: list = []
refs: list = []
optimizer = None


def make_cell():
    """A closure's number: how to read it, and how to change it."""
    value = 1.0

    def get():
        return value

    def put(new):
        nonlocal value
        value = new

    return get, put


get_cell, put_cell = make_cell()


class Reader:
    """An attribute of a tensor that reads another one when it goes."""

    def __init__(self, log, tensor):
        self.log, self.tensor = log, tensor

    def __del__(self):
        self.log.append(self.tensor.sum().item())


def make_operation(operation):
    """A function whose closure holds what it does."""

    def run(a, b):
        return operation(a, b)

    return run


def rows(tensor):
    """The rows, one after the other."""
    for index in range(len(tensor)):
        log.append(index)
        yield tensor[index]


def scaled_by_default(tensor, scale=[2.0]):  # noqa: B006  (the default is meant to be changed)
    """The tensor times a default argument that changes with each call."""
    scale[0] = 4.0 - scale[0] / 2
    return tensor * scale[0]


@contextlib.contextmanager
def logged(name):
    """A context of the program's own."""
    log.append("enter " + name)
    try:
        yield state
    finally:
        log.append("exit " + name)


class Settings:
    """A class whose attribute programs read and write."""

    factor = 1.5


class Scaled(torch.autograd.Function):
    """A custom function that keeps a tensor and a number, and logs its backward pass."""

    @staticmethod
    def forward(ctx, a, factor):
        ctx.save_for_backward(a)
        ctx.factor = factor
        return a * factor

    @staticmethod
    def backward(ctx, grad):
        (a,) = ctx.saved_tensors
        log.append("Scaled.backward")
        return grad * ctx.factor + a * 0.125, None


class Doubled(torch.autograd.Function):
    """A custom function that writes its argument."""

    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Mlp(nn.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, a):
        return self.second(torch.relu(self.first(a)))


class Normed(nn.Module):
    """Batch norm, whose buffers run along."""

    def __init__(self):
        super().__init__()
        self.norm, self.layer = nn.BatchNorm1d(4), nn.LayerNorm(4)

    def forward(self, a):
        return self.layer(self.norm(a) * 2 + 1)


class Dropping(nn.Module):
    """Dropout between layers."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.4)

    def forward(self, a):
        return self.drop(self.layer(self.drop(a)))


class Recurrent(nn.Module):
    """A small LSTM over the rows."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4)

    def forward(self, a):
        return self.lstm(a.unsqueeze(1))[0].squeeze(1)


class Embedder(nn.Module):
    """An embedding, looked up by what is largest in each row."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(4, 4)

    def forward(self, a):
        return self.table(a.nan_to_num(0, 0, 0).argmax(1)) + a * 0.5


class Stateful(nn.Module):
    """A module that counts, remembers a tensor and writes a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("total", torch.zeros(4))
        self.steps = 0
        self.last = None

    def forward(self, a):
        self.steps += 1
        with torch.no_grad():
            self.total += a.sum(0)
        result = a * self.weight * self.steps
        if self.last is not None and self.last.shape == result.shape:
            result = result + self.last
        self.last = result.detach()
        if self.steps % 2:
            return result
        return result - self.total


def small(tensor):
    """What a nested compiled function computes."""
    return (tensor * 2 + 1).tanh()


def stepping(tensor, amount):
    """What a nested compiled function writes."""
    tensor.add_(amount)
    return tensor


class Named(torch.overrides.TorchFunctionMode):
    """A mode that logs which functions are called."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        log.append(torch.overrides.resolve_name(function))
        return function(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    """A mode that logs which operators are called."""

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        log.append(str(function))
        return function(*args, **(kwargs or {}))


class Tagged(torch.Tensor):
    """A subclass that counts what is called."""

    @classmethod
    def __torch_function__(cls, function, kinds, args=(), kwargs=None):
        state.append(len(args))
        return super().__torch_function__(function, kinds, args, kwargs)


def packed(tensor):
    """What a saved tensor is kept as."""
    log.append("pack")
    return tensor * 1


def unpacked(tensor):
    """A saved tensor again."""
    log.append("unpack")
    return tensor


@torch.no_grad()
def no_grad_small(tensor):
    """A function that says itself that it records no gradients."""
    return tensor * 2 + state[0]


small_compiled = compiled(small)
stepping_compiled = compiled(stepping)
