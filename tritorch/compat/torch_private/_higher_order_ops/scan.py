"""`scan`: a function along a dim, of what it has carried so far and of the next part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.compat.torch_private._higher_order_ops.control import recorder
from tritorch.compat.torch_private._higher_order_ops.operators import OPERATORS
from tritorch.core.tensor import Tensor
from tritorch.ops.shape.joining import flip
from tritorch.ops.shape.shape import movedim
from tritorch.utils._pytree import tree_flatten, tree_unflatten


def parts_along(what: str, xs: list[Any], dim: int) -> list[Tensor]:
    """Tensors with the dim that is walked first; refuses what cannot be walked."""
    for x in xs:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All {what} leaves must be a Tensor but got {x}")
    found = [movedim(x, dim, 0) for x in xs] if dim else xs
    if any(not x.ndim or not x.shape[0] for x in found):
        raise RuntimeError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    return found


def parts_back(xs: list[Tensor], dim: int) -> list[Tensor]:
    """Tensors whose first dim goes back to its place."""
    return [movedim(x, 0, dim) for x in xs] if dim else xs


class _Body:
    """combine_fn on leaves."""

    def __init__(self, combine_fn: Callable[..., Any], init: Any, xs: Any) -> None:
        self.combine_fn = combine_fn
        self.init, self.init_spec = tree_flatten(init)
        self.xs, self.xs_spec = tree_flatten(xs)
        self.y_spec: Any = None

    def __call__(self, *given: Any) -> Any:
        """The next carry's leaves, and those of what goes out."""
        count = len(self.init)
        found = self.combine_fn(
            tree_unflatten(list(given[:count]), self.init_spec),
            tree_unflatten(list(given[count:]), self.xs_spec),
        )
        if not isinstance(found, tuple) or len(found) != 2:
            raise RuntimeError(
                f"scan: combine_fn must return a tuple of the next carry and an output, but "
                f"returned {type(found).__name__}"
            )
        carry, spec = tree_flatten(found[0])
        if spec != self.init_spec:
            raise RuntimeError(f"Expected init and carry to have the same structure but found "
                               f"{self.init_spec} and {spec}")  # fmt: skip
        for place, (before, after) in enumerate(zip(given, carry)):
            for name in ("shape", "dtype", "device"):
                one, other = getattr(before, name), getattr(after, name, None)
                if one != other:
                    raise RuntimeError(
                        f"Expected init and carry to have same metadata but found: pair[{place}] "
                        f"differ in '{name}: {one} vs {other}'"
                    )
        y, self.y_spec = tree_flatten(found[1])
        return (*carry, *y)


def scan(
    combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """What combine_fn(carry, x) has carried in the end, beginning with init, and its outputs.

    x: xs without its dim, from the first to the last, or back if reverse; outputs are stacked along
    that dim, in the order of xs."""
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    body = _Body(combine_fn, init, xs)
    if not body.init:
        raise RuntimeError("scan() operator requires init leaves.")
    for x in body.init:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"All init leaves must be a Tensor but got {x}")
    if not body.xs:
        return init, xs
    leaves = parts_along("xs", body.xs, dim)
    if reverse:
        leaves = [flip(x, [0]) for x in leaves]
    mode, count = recorder(), len(body.init)
    if mode is None:
        found = list(OPERATORS["scan"](body, body.init, leaves))
    else:
        found = _traced(mode, body, leaves)
    ys = found[count:]
    if reverse:
        ys = [flip(y, [0]) for y in ys]
    ys = parts_back(ys, dim)
    return tree_unflatten(found[:count], body.init_spec), tree_unflatten(ys, body.y_spec)


def _traced(mode: Any, body: _Body, xs: list[Tensor]) -> list[Any]:
    """One node."""
    count, length = len(body.init), xs[0].shape[0]

    def arguments(graphs: Any, given: Any, captured: Any) -> Any:
        return (*graphs, list(given[:count]), list(given[count:]), tuple(captured))

    def shaped(found: list[Any]) -> list[Any]:
        rows = [x.unsqueeze(0).expand(length, *x.shape).clone() for x in found[count:]]
        return [*found[:count], *rows]

    with mode.untracked():
        rows = [x.select(0, 0) for x in xs]
    out, _ = mode.of_functions(
        OPERATORS["scan"], {"scan_combine_graph": body}, [*body.init, *rows], [*body.init, *xs],
        arguments, 0, shaped,
    )  # fmt: skip
    return list(out)
