"""Inputs: the same random numbers for every library, in memory that they share on a GPU."""

from __future__ import annotations

import functools
import importlib
import zlib
from typing import Any

import numpy as np

from tritorch.bench.declare import Array, Benchmark

POOL = 1 << 22  # random numbers that all inputs are cut from
SETS = 16  # at most so many sets of inputs in turn
MEMORY = 4 << 30  # for all sets of one benchmark


@functools.cache
def _pool(kind: str) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(zlib.crc32(kind.encode()))
    if kind == "normal":
        return random.standard_normal(POOL, np.float32)
    return random.random(POOL, np.float32)


def numbers(spec: Array, seed: int) -> np.ndarray[Any, Any]:
    """The values of one input."""
    n = spec.size
    random = np.random.default_rng(seed)
    if spec.kind == "permutation":
        return random.permutation(n).reshape(spec.shape)
    pool = _pool("normal" if spec.kind == "normal" else "uniform")
    start = int(random.integers(POOL))
    if n <= POOL - start:
        drawn = pool[start : start + n]
    else:
        drawn = np.resize(np.roll(pool, -start), n)
    if spec.kind == "normal":
        values = drawn if spec.scale == 1 else drawn * np.float32(spec.scale)
    elif spec.kind == "positive":
        values = drawn + np.float32(0.5)
    elif spec.kind == "labels":
        values = np.minimum((drawn * spec.high).astype(np.int64), spec.high - 1)
    elif spec.kind == "mask":
        values = drawn < 0.5
    else:
        raise ValueError(f"unknown kind of input: {spec.kind!r}")
    return values.reshape(spec.shape)


def seed_of(benchmark: Benchmark, which: int, name: str) -> int:
    """Of one input of one set."""
    return zlib.crc32(f"{benchmark.key} {which} {name}".encode())


def tensor(t: Any, spec: Array, seed: int, device: str) -> Any:
    """One input as a tensor of a library with PyTorch's names."""
    if device == "cuda" and spec.kind != "permutation":
        x = _drawn_there(t, spec, seed)
    else:
        x = t.from_numpy(np.ascontiguousarray(numbers(spec, seed))).to(device)
    return finish(t, x.to(getattr(t, spec.dtype)), spec)


@functools.cache
def _pool_there(t: Any, kind: str) -> Any:
    return t.from_numpy(_pool(kind)).to("cuda")


def _drawn_there(t: Any, spec: Array, seed: int) -> Any:
    """What `numbers` gives, put together on the GPU: gigabytes need not come from the host."""
    n, start = spec.size, int(np.random.default_rng(seed).integers(POOL))
    pool = _pool_there(t, "normal" if spec.kind == "normal" else "uniform")
    if n > POOL - start:
        pool, start = t.cat([pool[start:], pool[:start]]).repeat(-(-n // POOL)), 0
    drawn = pool[start : start + n].reshape(spec.shape)
    if spec.kind == "normal":
        return drawn * spec.scale
    if spec.kind == "positive":
        return drawn + 0.5
    if spec.kind == "labels":
        return (drawn * spec.high).to(t.int64).clamp(max=spec.high - 1)
    return drawn < 0.5


def finish(t: Any, x: Any, spec: Array) -> Any:
    """The layout that was asked for, and whether a gradient is wanted."""
    if spec.channels_last:
        x = x.contiguous(memory_format=t.channels_last)
    return x.detach().requires_grad_() if spec.grad else x


def inputs(t: Any, benchmark: Benchmark, which: int, device: str) -> dict[str, Any]:
    """One set of a benchmark's inputs."""
    return {
        name: tensor(t, spec, seed_of(benchmark, which, name), device)
        for name, spec in benchmark.specs.items()
    }


def empty(t: Any, benchmark: Benchmark, device: str) -> dict[str, Any]:
    """Inputs that were never filled, for calls that only show what is launched."""
    return {
        name: finish(t, t.empty(spec.shape, dtype=getattr(t, spec.dtype), device=device), spec)
        for name, spec in benchmark.specs.items()
    }


# What travels as whole numbers of the same size: not every DLPack knows these types.
CARRIED_AS = {"float8_e4m3fn": "uint8", "bfloat16": "int16", "bool": "uint8"}


def shared(t: Any, ours: dict[str, Any], benchmark: Benchmark) -> dict[str, Any]:
    """Our inputs as another library's tensors on the same memory."""
    import tritorch

    found, specs = {}, benchmark.specs
    for name, x in ours.items():
        spec, x = specs[name], x.detach()
        if spec.dtype in CARRIED_AS:
            x = x.view(getattr(tritorch, CARRIED_AS[spec.dtype]))
            x = t.from_dlpack(x).view(getattr(t, spec.dtype))
        else:
            x = t.from_dlpack(x)
        found[name] = x.detach().requires_grad_() if spec.grad else x
    return found


def foreign(library: str, ours: dict[str, Any], benchmark: Benchmark) -> dict[str, Any]:
    """Our inputs as JAX's or CuPy's arrays, on the same memory."""
    import tritorch

    module = importlib.import_module(library)
    if library == "jax":
        convert, types = importlib.import_module("jax.dlpack").from_dlpack, module.numpy
    else:
        convert, types = module.from_dlpack, module
    found, specs = {}, benchmark.specs
    for name, x in ours.items():
        kind, x = specs[name].dtype, x.detach().contiguous()
        if kind in CARRIED_AS:
            x = convert(x.view(getattr(tritorch, CARRIED_AS[kind]))).view(getattr(types, kind))
        else:
            x = convert(x)
        found[name] = x
    return found


def sets_needed(benchmark: Benchmark, cache: int) -> int:
    """How many sets of inputs it takes to be larger than four times the cache, within reason."""
    one = max(sum(spec.bytes for spec in benchmark.inputs.values()), benchmark.bytes, 1)
    if not benchmark.inputs:
        return 1
    return int(max(1, min(SETS, -(-4 * cache // one), MEMORY // one or 1)))
