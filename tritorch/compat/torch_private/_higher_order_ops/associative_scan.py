"""`associative_scan`: what an associative function comes to up to each place, in log2(n) rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._higher_order_ops.scan import parts_along, parts_back
from tritorch.core.tensor import Tensor
from tritorch.func.vmap import vmap
from tritorch.ops.shape.joining import cat, flip, stack
from tritorch.utils._pytree import tree_flatten, tree_unflatten

Combine = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


def associative_scan(
    combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:  # fmt: skip
    """x0, combine_fn(x0, x1), combine_fn(combine_fn(x0, x1), x2), ... along a dim.

    combine_mode: "pointwise" where combine_fn computes element by element (on a GPU), "generic"
    where it is of whole parts, which have not the dim."""
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    flat, spec = tree_flatten(xs)
    if combine_mode == "pointwise" and not all(isinstance(x, Tensor) and x.is_cuda for x in flat):
        raise ValueError(
            "For combine_mode='pointwise', all input tensors need to be on CUDA or XPU"
        )
    try:
        leaves = parts_along("xs", flat, dim)
    except RuntimeError as error:
        raise ValueError(str(error)) from None

    def of_parts(*given: Any) -> tuple[Any, ...]:
        count = len(given) // 2
        one, other = (
            tree_unflatten(list(half), spec) for half in (given[:count], given[count:])
        )  # fmt: skip
        found, found_spec = tree_flatten(combine_fn(one, other))
        if found_spec != spec:
            raise RuntimeError(
                f"associative_scan: combine_fn must return what xs is made of, {spec}, but "
                f"returned {found_spec}"
            )
        return tuple(found)

    together = of_parts if combine_mode == "pointwise" else vmap(of_parts)
    if reverse:
        leaves = [flip(x, [0]) for x in leaves]
    found = _scanned(lambda one, other: list(together(*one, *other)), leaves)
    if reverse:
        found = [flip(x, [0]) for x in found]
    return tree_unflatten(parts_back(found, dim), spec)


def _scanned(combine: Combine, xs: list[Tensor]) -> list[Tensor]:
    """Pairs are combined and scanned; what lies between follows from those."""
    count = xs[0].shape[0]
    if count < 2:
        return xs
    pairs = combine([x[:-1:2] for x in xs], [x[1::2] for x in xs])
    odd = _scanned(combine, pairs)
    first = [x[:1] for x in xs]
    if count == 2:
        even = first
    else:
        before = [x[: (count - 1) // 2] for x in odd]
        later = combine(before, [x[2::2] for x in xs])
        even = [cat([one, rest]) for one, rest in zip(first, later)]
    return [_alternating(one, other) for one, other in zip(even, odd)]


def _alternating(even: Tensor, odd: Tensor) -> Tensor:
    count = odd.shape[0]
    both = stack([even[:count], odd], 1).flatten(0, 1)
    return both if even.shape[0] == count else cat([both, even[count:]])
