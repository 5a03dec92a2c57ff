"""jacobian, hessian, vjp, jvp, hvp, vhp: derivatives of functions, by the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core import published
from tritorch.core.scopes import recorded
from tritorch.core.tensor import Tensor


def _tuple(value: Any, what: str, caller: str) -> tuple[bool, tuple[Tensor, ...]]:
    many = isinstance(value, (tuple, list))
    items = tuple(value) if many else (value,)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            which = f"value at index {i}" if many else f"given {what}"
            raise TypeError(
                f"The {what} given to {caller} must be either a Tensor or a tuple of Tensors but "
                f"the {which} has type {type(item)}."
            )
    return many, items


def _prepare(inputs: Any, create_graph: bool, caller: str) -> tuple[bool, tuple[Tensor, ...]]:
    many, items = _tuple(inputs, "inputs", caller)
    fresh = tuple(
        x.view_as(x) if create_graph and x._requires_grad else x.detach().requires_grad_(True)
        for x in items
    )
    return many, fresh


def _run(
    func: Callable[..., Any], items: tuple[Tensor, ...], caller: str
) -> tuple[bool, tuple[Tensor, ...]]:
    return _tuple(func(*items), "outputs of the user-provided function", caller)


def _gradients(
    outs: Any, ins: Any, gs: Any, create_graph: bool, strict: bool = False
) -> list[Tensor]:
    from tritorch.autograd import grad

    pairs = [(o, g) for o, g in zip(outs, gs) if o._requires_grad]
    if strict and len(pairs) < len(outs):
        raise RuntimeError(
            "The output of the user-provided function is independent of the input. This is not "
            "allowed in strict mode."
        )
    if not pairs:
        return [published.public.zeros_like(x) for x in ins]
    found = grad([o for o, _ in pairs], ins, [g for _, g in pairs], create_graph=create_graph,
                 retain_graph=True, allow_unused=True)  # fmt: skip
    if strict and any(g is None for g in found):
        raise RuntimeError(
            "The output of the user-provided function is independent of an input. This is not "
            "allowed in strict mode."
        )
    return [published.public.zeros_like(x) if g is None else g for g, x in zip(found, ins)]


def _done(values: Any, many: bool, create_graph: bool) -> Any:
    items = tuple(v if create_graph else v.detach() for v in values)
    return items if many else items[0]


def _check_vector(
    v: Any, items: tuple[Tensor, ...], what: str, caller: str, many: bool
) -> tuple[Tensor, ...]:
    if v is None:
        if len(items) != 1 or items[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {what} a single Tensor with a single "
                f"element."
            )
        return (published.public.ones_like(items[0]),)
    _, vs = _tuple(v, "v", caller)
    if len(vs) != len(items):
        if not many:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(items)} but got {len(vs)}."
        )
    for i, (a, b) in enumerate(zip(vs, items)):
        if a.shape != b.shape:
            which = f"Entry {i} in v" if many else "v"
            raise RuntimeError(f"{which} has invalid size: should be {b.shape} but got {a.shape}.")
    return vs


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and v^T J."""
    with recorded:
        many, items = _prepare(inputs, create_graph, "vjp")
        out_many, outs = _run(func, items, "vjp")
        vs = _check_vector(v, outs, "user-provided function returns", "vjp", out_many)
        found = _gradients(outs, items, vs, create_graph, strict)
    return _done(outs, out_many, create_graph), _done(found, many, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and J v, by two backward passes."""
    with recorded:
        many, items = _prepare(inputs, create_graph, "jvp")
        vs = _check_vector(v, items, "input to the user-provided function is", "jvp", many)
        out_many, outs = _run(func, items, "jvp")
        us = [published.public.zeros_like(out).requires_grad_(True) for out in outs]
        pulled = _gradients(outs, items, us, True, strict)
        found = _gradients(pulled, us, vs, create_graph)
    return _done(outs, out_many, create_graph), _done(found, out_many, create_graph)


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """d outputs / d inputs."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    with recorded:
        many, items = _prepare(inputs, create_graph, "jacobian")
        out_many, outs = _run(func, items, "jacobian")
        rows = []
        for out in outs:
            parts: list[list[Tensor]] = [[] for _ in items]
            flat = out.reshape(-1)
            for j in range(flat.shape[0]):
                element = flat[j]
                one = published.public.ones_like(element)
                for part, g in zip(
                    parts, _gradients([element], items, [one], create_graph, strict)
                ):
                    part.append(g)
            rows.append(tuple(
                published.public.stack(part).reshape(*out.shape, *x.shape) if part
                else x.new_zeros((*out.shape, *x.shape))
                for part, x in zip(parts, items)
            ))  # fmt: skip
    shaped = tuple(_done(row, many, create_graph) for row in rows)
    return shaped if out_many else shaped[0]


def _scalar(func: Callable[..., Any], caller: str) -> Callable[..., Any]:
    def checked(*args: Any) -> Any:
        _, outs = _run(func, args, caller)
        if len(outs) != 1:
            raise RuntimeError(f"The function given to {caller} should return a single Tensor")
        out = outs[0]
        if out.numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {caller} should contain a single "
                "element"
            )
        return out.reshape(())

    return checked


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivatives of a scalar function."""
    many, _ = _tuple(inputs, "inputs", "hessian")

    def first(*args: Any) -> Any:
        found = jacobian(_scalar(func, "hessian"), args, create_graph=True)
        return found if many else found[0]

    return jacobian(first, inputs, create_graph=create_graph, strict=strict)


def _hessian_product(
    caller: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> Any:
    with recorded:
        many, items = _prepare(inputs, create_graph, caller)
        vs = _check_vector(v, items, "input to the user-provided function is", caller, many)
        out = _scalar(func, caller)(*items)
        first = _gradients([out], items, [published.public.ones_like(out)], True, strict)
        found = _gradients(first, items, vs, create_graph)
    return _done([out], False, create_graph), _done(found, many, create_graph)


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and v^T H."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """func(inputs), and H v."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)
