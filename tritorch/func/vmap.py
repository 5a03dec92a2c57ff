"""vmap: a function of one example becomes a function of a batch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.core.generator import Generator, cuda_generator, default_generator
from tritorch.core.scopes import Scope
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret import vmap as batches
from tritorch.ops.shape.joining import cat, stack
from tritorch.trees.spec import TreeSpec
from tritorch.trees.walk import (
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_map_,
    tree_unflatten,
)

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
        if not isinstance(out_dims, int):
            tree_map_(functools.partial(_check_out_dim, func, out_dims), out_dims)
        if plain:
            size = _common_size(args)
            if size is not None:
                level = next(_levels)
                inside = [batches.to_batched(x, level) for x in args]
                return _called(func, inside, kwargs, level, size, out_dims, randomness)
        leaves, spec = tree_flatten(args)
        dims = _in_dims(func, in_dims, args, leaves, spec)
        size = _batch_size(leaves, dims)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, dims, spec, kwargs, size, out_dims, randomness)
        return _in_chunks(func, leaves, dims, spec, kwargs, size, out_dims, randomness, chunk_size)

    return wrapped


def vmap_passing_none(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, *, batchable: bool = True
) -> Callable[..., Any]:
    """func, mapped over a dim of its inputs, where results that are None stay None.

    batchable: false for tensors whose classes dispatch, which no batch of theirs would reach: func
    then runs once for each example."""

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        absent: list[bool] = []
        single = False

        def present(*args: Any) -> tuple[Any, ...]:
            nonlocal single
            outs = func(*args)
            single = not isinstance(outs, tuple)
            items = (outs,) if single else outs
            absent[:] = [out is None for out in items]
            return tuple(out for out in items if out is not None)

        if batchable:
            results = vmap(present, in_dims, out_dims)(*args)
        else:
            leaves, spec = tree_flatten(args)
            dims = _in_dims(func, in_dims, args, leaves, spec)
            examples = [
                present(*tree_unflatten([x if d is None else x.select(d, i)
                                         for x, d in zip(leaves, dims)], spec))
                for i in range(_batch_size(leaves, dims))
            ]  # fmt: skip
            results = tuple(stack(parts, out_dims) for parts in zip(*examples))
        rest = iter(results)
        whole = tuple(None if none else next(rest) for none in absent)
        return whole[0] if single else whole

    return wrapped


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The whole batch behind a tensor inside vmap, to look at; with recurse, of outer vmaps too."""
    array = tensor._array
    while isinstance(array, BatchedArray):
        array = array.array
        if not recurse:
            break
    return tensor if array is tensor._array else _C.wrap(array)


def _name(func: Any) -> str:
    """What a function is called in errors."""
    if hasattr(func, "__name__"):
        return str(func.__name__)
    if isinstance(func, functools.partial):
        return f"functools.partial({_name(func.func)}, ...)"
    return repr(func)


def _check_out_dim(func: Any, out_dims: Any, dim: Any) -> None:
    if dim is not None and not isinstance(dim, int):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be "
            f"an int, None or a python collection of ints representing where in the outputs the "
            f"vmapped dimension should appear."
        )


def _in_dims(
    func: Any, in_dims: Any, args: tuple[Any, ...], leaves: list[Any], spec: TreeSpec
) -> list[Any]:
    """The dim of each leaf over which to map, None where a leaf is the same for all examples."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{_said(func, in_dims)}expected `in_dims` to be int or a (potentially nested) tuple "
            f"matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add "
            f"inputs, or you are trying to vmap over a function with no inputs. "
            f"The latter is unsupported."
        )
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{_said(func, in_dims)}in_dims is not compatible with the structure of `inputs`. "
            f"in_dims has structure {tree_flatten(in_dims)[1]} but inputs "
            f"has structure {spec}."
        )
    for leaf, dim in zip(leaves, dims):
        if dim is not None and not (
            type(dim) is int
            and isinstance(leaf, Tensor)
            and -leaf._array.ndim <= dim < leaf._array.ndim
        ):
            _refuse_in_dim(_said(func, in_dims), leaf, dim)
    return dims


def _said(func: Any, in_dims: Any) -> str:
    """How errors of inputs begin."""
    return f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): "


def _refuse_in_dim(said: str, leaf: Any, dim: Any) -> None:
    """Says why one cannot map over a dim of a leaf."""
    if not isinstance(dim, int):
        raise ValueError(
            f"{said}Got in_dim={dim} for an input but in_dim must be either "
            f"an integer dimension or None."
        )
    if not isinstance(leaf, Tensor):
        raise ValueError(
            f"{said}Got in_dim={dim} for an input but the input is of type {type(leaf)}. "
            "We cannot vmap over non-Tensor arguments, please use None as the respective in_dim"
        )
    ndim = leaf._array.ndim
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"{said}Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
            f"{ndim} so expected in_dim to satisfy -{ndim} <= in_dim < {ndim}."
        )


def _batch_size(leaves: list[Any], dims: list[Any]) -> int:
    found = [leaf._array.shape[dim] for leaf, dim in zip(leaves, dims) if dim is not None]
    if not found:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != found[0] for size in found):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped "
            f"dimension, got sizes {found} for the mapped dimension"
        )
    return int(found[0])


def _run(
    func: Any, leaves: list[Any], dims: list[Any], spec: TreeSpec, kwargs: dict[str, Any],
    size: int, out_dims: Any, randomness: str,
) -> Any:  # fmt: skip
    level = next(_levels)
    inside = [
        leaf
        if dim is None
        else batches.to_batched(leaf.movedim(dim, 0) if dim % leaf._array.ndim else leaf, level)
        for leaf, dim in zip(leaves, dims)
    ]
    return _called(func, spec.unflatten(inside), kwargs, level, size, out_dims, randomness)


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
    func: Any, args: Any, kwargs: dict[str, Any], level: int, size: int, out_dims: Any,
    randomness: str,
) -> Any:  # fmt: skip
    active = batches.active
    with Scope(
        (_C.unfollow, 1),
        (_C.withhold_plans, 1),
        (active, "levels", [*active.levels, (level, size)]),
        (active, "modes", [*active.modes, randomness]),
    ):
        result = func(*args, **kwargs)
    if isinstance(result, Tensor):
        if isinstance(out_dims, tuple) and len(out_dims) == 1:
            (out_dims,) = out_dims
        if out_dims is not None and not isinstance(out_dims, int):
            raise _incompatible(func, out_dims, tree_flatten(result)[1])
        return _outside(func, result, out_dims, level, size)
    outs, spec = tree_flatten(result)
    wanted = _broadcast_to_and_flatten(out_dims, spec)
    if wanted is None:
        raise _incompatible(func, out_dims, spec)
    return spec.unflatten([_outside(func, out, dim, level, size) for out, dim in zip(outs, wanted)])


def _incompatible(func: Any, out_dims: Any, spec: TreeSpec) -> ValueError:
    return ValueError(
        f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): "
        f"out_dims is not compatible with the structure of `outputs`. "
        f"out_dims has structure {tree_flatten(out_dims)[1]} but outputs "
        f"has structure {spec}."
    )


def _outside(func: Any, out: Any, dim: Any, level: int, size: int) -> Tensor:
    """A result of the function with its batch as a dim that is seen."""
    if dim is None:
        array = out._array if isinstance(out, Tensor) else None
        if isinstance(array, BatchedArray) and array.level == level:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a "
                f"BatchedTensor when out_dim is None"
            )
        return out
    if not isinstance(out, Tensor):
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
            f"{type(out)}. Did you mean to set out_dims= to None for output?"
        )
    whole = batches.from_batched(out, level, size)
    return whole if dim == 0 else whole.movedim(0, dim)


def _in_chunks(
    func: Any, leaves: list[Any], dims: list[Any], spec: TreeSpec, kwargs: dict[str, Any],
    size: int, out_dims: Any, randomness: str, chunk: int,
) -> Any:  # fmt: skip

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
        parts.append(_run(func, some, dims, spec, kwargs, length, out_dims, randomness))
    flat = [tree_flatten(part)[0] for part in parts]
    out_spec = tree_flatten(parts[0])[1]
    if isinstance(out_dims, tuple) and out_spec.is_leaf():
        (out_dims,) = out_dims
    wanted = _broadcast_to_and_flatten(out_dims, out_spec) or []
    return out_spec.unflatten([cat(list(column), dim) for column, dim in zip(zip(*flat), wanted)])


def _random_states() -> list[tuple[Generator, Tensor]]:
    """The default generators and their states, from which each chunk draws the same."""
    generators = [default_generator, *(cuda_generator(i) for i in range(_C.device_count()))]
    return [(generator, generator.get_state()) for generator in generators]
