"""vmap: a function of one example becomes a function of a batch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.core.batched import BatchedArray
from tritorch.core.generator import Generator, cuda_generator, default_generator
from tritorch.core.tensor import Tensor
from tritorch.func.trees import NESTS, broadcast_to, flatten, unflatten
from tritorch.ops.interpret import vmap as batches

_levels = itertools.count(1)  # inner vmaps have greater levels


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """func, mapped over a dim of its inputs."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    plain = in_dims == 0 and isinstance(in_dims, int) and chunk_size is None

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if plain and not kwargs:
            size = _common_size(args)
            if size is not None:
                level = next(_levels)
                inside = [batches.to_batched(x, level) for x in args]
                return _called(func, inside, level, size, out_dims, randomness)
        called = _of_both(func) if kwargs else func
        leaves, spec = flatten((args, kwargs) if kwargs else args)
        dims = _in_dims(in_dims, args, leaves)
        size = _batch_size(leaves, dims)
        if chunk_size is None or chunk_size >= size:
            return _run(called, leaves, dims, spec, size, out_dims, randomness)
        return _in_chunks(called, leaves, dims, spec, size, out_dims, randomness, chunk_size)

    return wrapped


def _of_both(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function of positional arguments, in a tuple, and of named ones, in a dict."""
    return functools.wraps(func)(lambda args, kwargs: func(*args, **kwargs))


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The whole batch behind a tensor inside vmap, to look at; with recurse, of outer vmaps too."""
    array = tensor._array
    while isinstance(array, BatchedArray):
        array = array.array
        if not recurse:
            break
    return tensor if array is tensor._array else _C.wrap(array)


def _in_dims(in_dims: Any, args: tuple[Any, ...], leaves: list[Any]) -> list[Any]:
    """The dim of each leaf over which to map: those of positional arguments, then of named ones."""
    if not isinstance(in_dims, (int, tuple, list, dict)) and in_dims is not None:
        raise ValueError(
            "vmap: expected in_dims to be int or a (potentially nested) tuple matching the "
            f"structure of inputs, got: {type(in_dims)}."
        )
    given = broadcast_to(in_dims, args)
    dims = [_in_dim(leaf, dim, in_dims) for leaf, dim in zip(leaves, given)]
    if len(dims) < len(leaves):
        dims += [0 if isinstance(leaf, Tensor) else None for leaf in leaves[len(dims) :]]
    return dims


def _in_dim(leaf: Any, dim: Any, in_dims: Any) -> Any:
    """The dim of one leaf, after a look at whether it has it."""
    if dim is None:
        return None
    if not isinstance(leaf, Tensor):
        if not isinstance(in_dims, (tuple, list)):
            return None
        raise ValueError(
            f"vmap: Got in_dim={dim} for an input but the input is of type {type(leaf)}. "
            "We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    ndim = leaf._array.ndim
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{ndim} so expected in_dim to satisfy -{ndim} <= in_dim < {ndim}."
        )
    return dim


def _batch_size(leaves: list[Any], dims: list[Any]) -> int:
    found = {leaf._array.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None}
    if not found:
        raise ValueError(
            "vmap: at least one input must be a tensor with an in_dim that is not None"
        )
    if len(found) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sorted(found)} for the mapped dimension"
        )
    return found.pop()


def _run(
    func: Any, leaves: list[Any], dims: list[Any], spec: Any, size: int, out_dims: Any,
    randomness: str,
) -> Any:  # fmt: skip
    level = next(_levels)
    inside = [
        leaf
        if dim is None
        else batches.to_batched(leaf.movedim(dim, 0) if dim % leaf._array.ndim else leaf, level)
        for leaf, dim in zip(leaves, dims)
    ]
    return _called(func, unflatten(inside, spec), level, size, out_dims, randomness)


def _common_size(args: tuple[Any, ...]) -> int | None:
    """The size of the first dim of arguments that are tensors with the same; else None."""
    size = None
    for x in args:
        if not isinstance(x, Tensor):
            return None
        shape = x._array.shape
        if not shape or (size is not None and shape[0] != size):
            return None
        size = shape[0]
    return size


def _called(
    func: Any, arguments: Any, level: int, size: int, out_dims: Any, randomness: str
) -> Any:
    active = batches.active
    levels, modes = active.levels, active.modes
    levels.append((level, size))
    modes.append(randomness)
    try:
        result = func(*arguments)
    finally:
        levels.pop()
        modes.pop()
    if not isinstance(result, NESTS):
        return _outside(func, result, out_dims, level, size)
    outs, out_spec = flatten(result)
    wanted = broadcast_to(out_dims, result)
    return unflatten(
        [_outside(func, out, dim, level, size) for out, dim in zip(outs, wanted)], out_spec
    )


def _outside(func: Any, out: Any, dim: Any, level: int, size: int) -> Tensor:
    """A result of the function with its batch as a dim that is seen."""
    if not isinstance(out, Tensor):
        raise ValueError(
            f"vmap: `{getattr(func, '__name__', func)}` must only return Tensors, got type "
            f"{type(out)}."
        )
    if isinstance(dim, (tuple, list)) and len(dim) == 1:
        (dim,) = dim
    if dim is None:
        return out
    whole = batches.from_batched(out, level, size)
    return whole if dim == 0 else whole.movedim(0, dim)


def _in_chunks(
    func: Any, leaves: list[Any], dims: list[Any], spec: Any, size: int, out_dims: Any,
    randomness: str, chunk: int,
) -> Any:  # fmt: skip
    from tritorch.core.published import PUBLIC

    parts = []
    states = _random_states() if randomness == "same" else []
    for start in range(0, size, chunk):
        for generator, state in states:
            generator.set_state(state)
        length = min(chunk, size - start)
        some = [
            leaf if dim is None else leaf.narrow(dim, start, length)
            for leaf, dim in zip(leaves, dims)
        ]
        parts.append(_run(func, some, dims, spec, length, out_dims, randomness))
    flat = [flatten(part)[0] for part in parts]
    out_spec = flatten(parts[0])[1]
    wanted = broadcast_to(out_dims, parts[0]) if out_spec is not None else [out_dims]
    return unflatten(
        [PUBLIC["cat"](list(column), dim) for column, dim in zip(zip(*flat), wanted)], out_spec
    )


def _random_states() -> list[tuple[Generator, Tensor]]:
    """The default generators and their states, from which each chunk draws the same."""
    generators = [default_generator, *(cuda_generator(i) for i in range(_C.device_count()))]
    return [(generator, generator.get_state()) for generator in generators]
