"""Datasets that misbehave in the ways that loaders must stand; importable by spawned workers."""

from __future__ import annotations

import collections
import ctypes
import os
import random
import signal
import sys
import time
from typing import Any

import numpy as np

import tritorch
from tritorch.utils.data import Dataset, IterableDataset, get_worker_info

BAD = 7  # the item at which it happens
Pair = collections.namedtuple("Pair", "left right")


class Calls(Dataset):
    """function(i) for each i."""

    def __init__(self, function: Any, n: int = 20) -> None:
        self.function, self.n = function, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.function(i)


class Shards(IterableDataset):
    """0 ... n-1, a part for each worker: worker 0 has fewer."""

    def __init__(self, n: int, first: int) -> None:
        self.n, self.first = n, first

    def __iter__(self) -> Any:
        info = get_worker_info()
        if info is None:
            return iter(range(self.n))
        return iter(range(self.first) if info.id == 0 else range(self.first, self.n))


class OddError(Exception):
    """Cannot be made of a message."""

    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(a)


def same(i: int) -> int:
    return i


def images(i: int) -> Any:
    return tritorch.full((3, 40, 40), float(i)), i


def killed(i: int) -> int:
    if i == BAD:
        os.kill(os.getpid(), signal.SIGKILL)
    return i


def crashing(i: int) -> int:
    if i == BAD:
        ctypes.string_at(0)
    return i


def exiting(i: int) -> int:
    if i == BAD:
        sys.exit(5)
    return i


def value_error(i: int) -> int:
    if i == BAD:
        raise ValueError("item seven")
    return i


def key_error(i: int) -> int:
    return {BAD + 1: 1}[i] if i >= BAD else i


def odd_error(i: int) -> int:
    if i == BAD:
        raise OddError("a", "b")
    return i


def stuck_here(i: int) -> int:
    if i == BAD:
        time.sleep(1000)
    return i


def unpicklable(i: int) -> Any:
    return (lambda: i) if i == BAD else i


def random_numbers(i: int) -> Any:
    info = get_worker_info()
    assert info is not None
    if info.rng is not None:
        rng = info.rng
        drawn = tritorch.rand(1, generator=rng.torch_generator).item()
        return info.seed, rng.random_generator.random(), rng.numpy_generator.random(), drawn
    return info.seed, random.random(), np.random.rand(), tritorch.rand(1).item()


def threads(i: int) -> Any:
    return tritorch.get_num_threads(), os.getpid()


def cuda(i: int) -> Any:
    return tritorch.ones(2, device="cuda").sum().item()


def cuda_tensor(i: int) -> Any:
    return tritorch.ones(2, device="cuda")


class Subclass(tritorch.Tensor):
    """A tensor's subclass, to be sent as such."""


def everything(i: int) -> dict[str, Any]:
    """All kinds of things in one batch."""
    x = tritorch.randn(150, 100, generator=tritorch.Generator().manual_seed(i))
    return {
        "big": x, "views": [x[:, :1], x[:, 1:], x.t(), x[::2]], "small": tritorch.arange(3),
        "empty": tritorch.empty(0, 3), "scalar": tritorch.tensor(2.5), "bfloat16": x.bfloat16(),
        "few bfloat16": x[:2].bfloat16(), "float8": x.to(tritorch.float8_e4m3fn), "bool": x > 0,
        "complex": tritorch.complex(x, -x), "expanded": tritorch.ones(1, 5000).expand(10, 5000),
        "channels last": x.reshape(2, 3, 50, 50).to(memory_format=tritorch.channels_last),
        "array": np.arange(9e3).reshape(90, 100), "few numbers": np.arange(3),
        "columns": np.asfortranarray(np.arange(9e3).reshape(90, 100)),
        "transposed": np.arange(9e3).reshape(90, 100).T[::2], "text": "x" * 100_000,
        "list": list(range(30_000)), "pair": Pair(1, tritorch.ones(100, 100)), "none": None,
        "parameter": tritorch.nn.Parameter(x.clone()), "leaf": x.clone().requires_grad_(),
        "small parameter": tritorch.nn.Parameter(tritorch.ones(2)),
        "storage": x.clone().untyped_storage(), "typed storage": tritorch.ones(2).storage(),
        "subclass": x.clone().as_subclass(Subclass), "part": tritorch.zeros(1000, 1000)[5:6],
        "many": [tritorch.full((60, 80), float(k)) for k in range(100)],
        "part of a transpose": tritorch.zeros(1000, 1000).t()[5:7],
    }  # fmt: skip


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Deep equality, of types too."""
    assert type(a) is type(b), where
    if isinstance(a, tritorch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, where
        assert a.requires_grad == b.requires_grad, where
        if a.dtype is tritorch.float8_e4m3fn:
            a, b = a.float(), b.float()
        assert a.equal(b), where
        if where in ("/columns", "/channels last"):
            assert a.stride() == b.stride()
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and (a == b).all() and b.flags.writeable, where
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for i, (x, y) in enumerate(zip(a, b)):
            assert_same(x, y, f"{where}/{i}")
    elif tritorch.is_storage(a):
        assert a.tolist() == b.tolist()
    else:
        assert a == b, where
