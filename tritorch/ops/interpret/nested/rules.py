"""What dense records do with nested operands, by their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.arrays.arrays import dtype_of, strides_of
from tritorch.arrays.meta import MetaArray
from tritorch.arrays.nested import Jagged, Ragged
from tritorch.core import published
from tritorch.core.dtype import dtype
from tritorch.core.info import finfo, iinfo
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.nested import fold
from tritorch.ops.interpret.nested.padding import longest, padded_rows
from tritorch.ops.interpret.nested.record import (
    cannot_run,
    nested_view,
    of_parts,
    parts_of,
    rule,
    structure_of,
    title_of,
    values_of,
)

# ---- reductions ----------------------------------------------------------------------------------


def reduction(op: Any, x: Tensor, *params: Any) -> Any:
    """A reduction: on values where the ragged dim stays, or goes with the batch; along it alone,
    on padded components, or on one after the other."""
    given = dict(zip(op.params, params))
    dims = given["dims"] if "dims" in given else (given["dim"],)
    structure = structure_of(x)
    if type(structure) is Ragged:
        return _strided(op, x, params, structure, dims)
    batch, ragged = 0 in dims, structure.ragged in dims
    dense = any(d not in (0, structure.ragged) for d in dims)
    name = op.name.removesuffix("_dim")
    if ragged and structure.lengths is not None and len(dims) < x.ndim:
        raise RuntimeError(
            f"{name}(): reducing across the ragged dimension is not supported for non-contiguous "
            f"nested tensors with holes"
        )
    if ragged and batch:
        return op.call((fold.fold(x),), params)
    if ragged and dense:
        if op.rules.averages is not None:
            raise AssertionError(
                "Cannot reduce on both ragged and non-batch dimensions without also reducing on "
                "batch"
            )
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for "
            f"nested tensors"
        )
    if ragged:
        return _along_ragged(op, x, structure, params, given)
    if batch:
        raise RuntimeError(
            f"{name}(): reducing along the batch dimension but not the ragged dimension is not "
            f"supported for nested tensors"
        )
    result = op.call((fold.fold(x),), params)
    kept = structure.ragged
    if not given["keepdim"]:
        kept -= sum(d < structure.ragged for d in dims)
    if isinstance(result, tuple):
        return tuple(fold.unfold(out, structure, kept, title_of(op)) for out in result)
    return fold.unfold(result, structure, kept, title_of(op))


def _along_ragged(
    op: Any, x: Tensor, structure: Jagged, params: tuple[Any, ...], given: dict[str, Any]
) -> Any:
    """Components to one row each."""
    if op.rules.identity is None and op.rules.averages is None:
        results = [op.call((part.unsqueeze(0),), params) for part in parts_of(x)]
        if isinstance(results[0], tuple):
            return tuple(published.public.cat(column) for column in zip(*results))
        return published.public.cat(results)
    ragged = structure.ragged
    values = values_of(x).transpose(0, ragged - 1)
    total = op if op.rules.averages is None else op.rules.averages
    padding = neutral(total.rules.identity, x.dtype)
    rows = padded_rows(values, structure.offsets, longest(structure), padding)
    out = total.call((rows.transpose(1, ragged),), params)
    if total is op:
        return out
    return out / structure.offsets.diff().reshape(-1, *(1,) * (out.ndim - 1))


def neutral(identity: Any, kind: dtype) -> Any:
    """A reduction's identity as a number of a dtype."""
    if not isinstance(identity, str):
        return identity
    if kind.name == "bool":
        return identity == "highest"
    limits = finfo(kind) if kind.is_floating_point else iinfo(kind)
    return limits.max if identity == "highest" else limits.min


def _strided(
    op: Any, x: Tensor, params: tuple[Any, ...], structure: Ragged, dims: tuple[int, ...]
) -> Any:
    if len(dims) == x.ndim > 1 or (x.ndim == 1 and 0 in dims):
        whole = published.public.cat([part.reshape(-1) for part in parts_of(x)])
        given = dict(zip(op.params, params))
        if "dims" in given and not given["keepdim"]:
            given["dims"] = (0,)
            return op.call((whole,), tuple(given.values()))
    if len(dims) > 1:
        raise RuntimeError("NestedTensor only allows reduction of a single dimension for now.")
    if dims != (x.ndim - 1,) or x.ndim == 1:
        raise RuntimeError(
            f"NestedTensor can only be reduced across the last dimension for now got dimension "
            f"{dims[0] if dims else 0} instead."
        )
    if not dict(zip(op.params, params))["keepdim"]:
        raise RuntimeError("NestedTensor always requires keepdim=True for now.")
    results = [op.call((part.unsqueeze(0),), params) for part in parts_of(x)]
    if isinstance(results[0], tuple):
        return tuple(of_parts([r.squeeze(0) for r in column]) for column in zip(*results))
    return of_parts([result.squeeze(0) for result in results], title_of(op))


# ---- by name -------------------------------------------------------------------------------------


@rule("tril", "triu")
def triangle(op: Any, x: Tensor, *params: Any) -> Any:
    """Of each component: where an element is decides whether it stays."""
    found = fold.places(op, (x,), params)
    if found is None:
        raise cannot_run(op.name, x)
    return fold.by_component(op, (x,), params, structure_of(x), found)


@rule("as_strided")
def as_strided(op: Any, x: Tensor, *params: Any) -> Any:
    """Refused: components have memory of their own."""
    raise cannot_run("as_strided", x)


# ---- views ---------------------------------------------------------------------------------------


def view(op: Any, x: Tensor, *params: Any) -> Any:
    """A view: of the values, or, where the layout is strided, of each component."""
    structure = structure_of(x)
    if type(structure) is Jagged:
        found = fold.places(op, (x,), params)
        if found is None or found.batch_out[0] != 0 or found.ragged_out[0] is None:
            raise cannot_run(op.name, x)
        if "indexed" in (found.batch_role, found.ragged_role):
            raise cannot_run(op.name, x)
        values = op.call((fold.fold(x),), params).squeeze(0)
        return nested_view(values, structure.with_ragged(found.ragged_out[0]))
    views = [
        op.infer((MetaArray((1, *size), dtype_of(x._array), (0, *steps), offset=start),), params)
        for size, steps, start in zip(structure.sizes, structure.steps, structure.starts)
    ]
    if any(not each.shape or each.shape[0] != 1 or each.strides[0] for each in views):
        raise cannot_run(op.name, x)
    if any(each.dtype is not views[0].dtype for each in views) or op.name == "view_dtype":
        raise cannot_run(op.name, x)
    sizes = [each.shape[1:] for each in views]
    steps = [strides_of(each)[1:] for each in views]
    return nested_view(values_of(x), Ragged(sizes, steps, [each.offset for each in views]))


BY_KIND: dict[str, Callable[..., Any]] = {"reduction": reduction, "view": view}
