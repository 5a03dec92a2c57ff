"""Optimizers as functions of lists: parameters, gradients and each kind of state.

`functions` makes them of an optimizer, whose arithmetic they run: `adam`, which says how by
`foreach` and `fused`, and those that PyTorch has for each way.  Here they do one thing, since a
group's parameters are updated together on any device.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from tritorch import _C
from tritorch.core.tensor import Tensor
from tritorch.optim._elementwise import Elementwise

_PAIRS = {  # options of a group that functions take as two
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
_WAYS = ("foreach", "fused", "grad_scale", "found_inf")


def functions(
    cls: type[Elementwise],
    lists: str,
    options: str,
    ways: str,
    *,
    grads: str = "grads",
    **fixed: Any,
) -> tuple[Callable[..., None], ...]:
    """The function of an optimizer, and those of the ways to run it.

    lists: "argument=state ..." in the function's order, after parameters and gradients.
    options: the function's other arguments, as they stand in a signature.
    ways: the prefixes of the other functions, "single_tensor multi_tensor fused".
    grads: what the function calls the gradients.
    fixed: options that this function does not leave open.
    """
    name = sys._getframe(1).f_globals["__name__"].rpartition(".")[2]
    kept = dict(pair.split("=") for pair in lists.split())
    whole = _signature(f"params, {grads}, {', '.join(kept)}, {options}")
    scaled = [n for n in ("grad_scale", "found_inf") if n in whole.parameters]
    rest = [n for n in whole.parameters if n not in ("params", grads, *kept, *_WAYS)]
    each = _signature(", ".join(["params", "grads", *kept, *scaled, "*", *rest]))
    found = [_function(name, whole, cls, kept, fixed)]
    for way in ways.split():
        found.append(_function(f"_{way}_{name}", each, cls, kept, fixed))
    return tuple(found)


def _signature(arguments: str) -> inspect.Signature:
    world: dict[str, Any] = {}
    exec(f"def function({arguments}): pass", world)
    return inspect.signature(world["function"])


def _function(
    name: str, signature: inspect.Signature, cls: type[Elementwise], lists: dict[str, str],
    fixed: dict[str, Any],
) -> Callable[..., None]:  # fmt: skip
    first, second = list(signature.parameters)[:2]

    def function(*args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        bound.apply_defaults()
        given = bound.arguments | fixed
        params, grads = given.pop(first), given.pop(second)
        columns = {state: given.pop(argument) for argument, state in lists.items()}
        if not all(isinstance(step, Tensor) for step in columns.get("step", ())):
            raise RuntimeError(
                "API has changed, `state_steps` argument must contain a list of singleton tensors"
            )
        _update(cls, params, grads, columns, given)

    function.__name__ = function.__qualname__ = name
    function.__module__ = cls.__module__
    function.__doc__ = f"One step of {cls.__name__}: changes parameters and state in place."
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _update(
    cls: type[Elementwise], params: list[Tensor], grads: list[Tensor],
    columns: dict[str, list[Any]], given: dict[str, Any],
) -> None:  # fmt: skip
    optimizer = cls.__new__(cls)
    optimizer.defaults = {}
    for name in ("grad_scale", "found_inf"):
        value = given.pop(name, None)
        if value is not None:
            setattr(optimizer, name, value)
    group = {"lr": 0.0, **given}  # Rprop's is in its state
    for option, pair in _PAIRS.items():
        if pair[0] in group:
            group[option] = tuple(group.pop(each) for each in pair)
    absent = optimizer.without(group)
    states = [
        {name: values[i] for name, values in columns.items() if name not in absent}
        for i in range(len(params))
    ]
    _C.flush()  # deferred calls may read them
    optimizer.step_lists(group, params, grads, states)
    for name, values in columns.items():  # state that the first step makes
        for i, state in enumerate(states):
            if name in state and values[i] is not state[name]:
                values[i] = state[name]
