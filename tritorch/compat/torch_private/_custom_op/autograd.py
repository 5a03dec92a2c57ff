"""Gradients by the first way: what is saved, and a dict of gradients by the names of inputs."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tritorch.core.tensor import Tensor
from tritorch.ops.record.schema import is_tensor
from tritorch.trees.walk import tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from tritorch.compat.torch_private._custom_op.impl import CustomOp


def setup_of(
    op: CustomOp, save: Callable[..., Any], differentiable: Sequence[bool] | None
) -> Callable[..., None]:
    """The function that keeps what `save(inputs, output)` gives for the gradient."""
    names = [a.name for a in op._schema.arguments if not a.kwarg_only]
    make: Any = collections.namedtuple  # of names that a schema gives
    inputs_of = make(f"{op._opname}_args", names)

    def setup_context(ctx: Any, inputs: Sequence[Any], output: Any, **keywords: Any) -> None:
        leaves, spec = tree_flatten(save(inputs_of(*inputs), output))
        ctx.save_for_backward(*(x for x in leaves if isinstance(x, Tensor)))
        ctx.rest = [None if isinstance(x, Tensor) else (x,) for x in leaves]
        ctx.spec = spec
        ctx.kinds = {name: _kind(value) for name, value in zip(names, inputs)}
        outputs = output if isinstance(output, tuple) else (output,)
        _mark(ctx, outputs, differentiable)

    return setup_context


def _kind(value: Any) -> Any:
    return [type(x) for x in value] if isinstance(value, (list, tuple)) else type(value)


def _mark(ctx: Any, outputs: Sequence[Any], differentiable: Sequence[bool] | None) -> None:
    """Says which outputs have no gradient."""
    if differentiable is None:
        return
    without: list[Any] = []
    for place, (has_gradient, out) in enumerate(zip(differentiable, outputs)):
        if isinstance(out, (Tensor, list)):
            without += [] if has_gradient else out if isinstance(out, list) else [out]
        elif has_gradient:
            raise RuntimeError(
                f"With output_differentiability={list(differentiable)}. At idx {place}, we "
                f"received an object of type {type(out)} that is not a Tensor, so it cannot have "
                "be marked as differentiable in output_differentiability."
            )
    ctx.mark_non_differentiable(*without)


def backward_of(op: CustomOp, backward: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients in the order of inputs, from a function that gives them by name."""

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        tensors = iter(ctx.saved_tensors)
        leaves = [next(tensors) if rest is None else rest[0] for rest in ctx.rest]
        found = backward(object(), tree_unflatten(leaves, ctx.spec), *grads)
        _require_gradients(op, found, ctx.kinds)
        return tuple(found.get(name) for name in ctx.kinds)

    return gradients


def _require_gradients(op: CustomOp, found: Any, kinds: dict[str, Any]) -> None:
    """Refuses what is not a gradient, or None, for each input that may be a tensor."""

    def refuse(what: str) -> NoReturn:
        place = op._get_impl("backward").location
        raise RuntimeError(
            f"In the backward function defined for {op} at {place} using the CustomOp API, {what}"
        )

    if not isinstance(found, dict):
        refuse(f"expected the output of the backward function to be a dict but got {type(found)}")
    expected = {a.name for a in op._schema.arguments if is_tensor(a)}
    if expected != found.keys():
        refuse(
            f"expected the returned grad_input dict to have keys {expected} but got "
            f"{found.keys()}. The backward function must return a gradient (can be None) for each "
            "arg to the CustomOp that may be a Tensor or Sequence[Tensor]. Args declared to be "
            "non-Tensor-like types should not appear in the grad_input dict"
        )
    for name, grad in found.items():
        kind = kinds[name]
        if isinstance(kind, list):
            _require_list(name, grad, kind, refuse)
        elif grad is not None and not isinstance(grad, Tensor):
            refuse(
                f"got object of type {type(grad)} as the gradient for input '{name}', but expected "
                "the gradient to be either None or a Tensor"
            )
        elif grad is not None and not issubclass(kind, Tensor):
            refuse(
                f"got a Tensor as the gradient for input '{name}' but expected None as the "
                f"gradient because input '{name}' was not a Tensor (it was type {kind})."
            )


def _require_list(name: str, grad: Any, kinds: list[Any], refuse: Callable[[str], Any]) -> None:
    if not isinstance(grad, (tuple, list)):
        refuse(
            f"for input '{name}' expected the grad_input dict to hold a list of gradients but got "
            f"object of type {type(grad)}."
        )
    if len(grad) != len(kinds):
        refuse(
            f"for input '{name}' expected the grad_input dict to hold a list of {len(kinds)} "
            f"gradients but got {len(grad)}"
        )
    for place, (each, kind) in enumerate(zip(grad, kinds)):
        if each is not None and not isinstance(each, Tensor):
            refuse(
                f"for input '{name}' expected the grad_input dict to hold a list of None or Tensor "
                f"gradients but got object of {type(each)} at index {place}"
            )
        if each is not None and not issubclass(kind, Tensor):
            refuse(
                f"for input '{name}', got a Tensor as the gradient for the {place}-th value but "
                f"expected None because the {place}-th value was not a Tensor (it was type {kind}"
            )
