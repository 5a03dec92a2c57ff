"""Compilers that are wrong in what happens beside the results."""

from __future__ import annotations

import builtins
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import tritorch as torch

from .table import around, changed, replaced, without

# -- gradients -------------------------------------------------------------------------------------


@around(r"returned.*flags", "torch.no_grad()")
def ignores_the_grad_mode_inside(state: dict, args: tuple) -> Iterator[Any]:
    """Contexts of the program have no effect."""
    with without(torch.no_grad):
        yield None


@around(r"returned.*flags", "ambient = ")
def keeps_the_first_grad_mode(state: dict, args: tuple) -> Iterator[Any]:
    with torch.set_grad_enabled(state.setdefault("mode", torch.is_grad_enabled())):
        yield None


@around(r"modes")
def leaves_the_grad_mode_changed(state: dict, args: tuple) -> Iterator[Any]:
    try:
        yield None
    except Exception:
        torch.set_grad_enabled(False)
        raise


@around(r"returned.*layout", "autocast")
def ignores_autocast(state: dict, args: tuple) -> Iterator[Any]:
    with without(torch.autocast):
        yield None


@around(r"log", "Named()")
def ignores_function_modes(state: dict, args: tuple) -> Iterator[Any]:
    with without(torch.overrides.TorchFunctionMode):
        yield None


@changed(r"returned.*flags")
def detaches_results(tensor: Any, args: tuple) -> Any:
    return (
        tensor.detach() if tensor.requires_grad and not any(tensor is a for a in args) else tensor
    )


@around(r"grad\.contents")
def replaces_gradients(state: dict, args: tuple) -> Iterator[Any]:
    """A gradient from before the call is not added to."""
    for tensor in args[:3]:
        if isinstance(tensor, torch.Tensor) and tensor.is_leaf:
            tensor.grad = None
    yield None


@changed(r"grad\.contents")
def scales_gradients(tensor: Any, args: tuple) -> Any:
    """The backward pass is that of another function with the same results."""
    if tensor.grad_fn is None or tensor._base is not None or any(tensor is a for a in args):
        return tensor
    return tensor * 2 - tensor.detach()


# -- random numbers --------------------------------------------------------------------------------


@around(r"returned.*contents")
def draws_the_same_numbers_again(state: dict, args: tuple) -> Iterator[Any]:
    torch.set_rng_state(state.setdefault("random", torch.get_rng_state()))
    yield None


@around(r"generator")
def leaves_the_generator_as_it_was(state: dict, args: tuple) -> Iterator[Any]:
    before = torch.get_rng_state()
    yield None
    torch.set_rng_state(before)


@around(r"returned.*contents", "random.")
def draws_pythons_numbers_again(state: dict, args: tuple) -> Iterator[Any]:
    random.setstate(state.setdefault("random", random.getstate()))
    yield None


# -- modules and what is seen beside results -------------------------------------------------------


@around(r"buffers.*contents")
def drops_buffers(state: dict, args: tuple) -> Iterator[Any]:
    model = args[3] if len(args) > 3 else None
    before = [(b, b.clone()) for b in model.buffers()] if model else []
    yield None
    with torch.no_grad():
        for buffer, old in before:
            buffer.data.copy_(old)


@around(r"returned.*contents", "model.train(")
def keeps_modules_in_one_mode(state: dict, args: tuple) -> Iterator[Any]:
    with replaced(torch.nn.Module, "train", lambda self, mode=True: self):
        yield None


@around(r"log", "hook")
def skips_module_hooks(state: dict, args: tuple) -> Iterator[Any]:
    with replaced(torch.nn.Module, "__call__", lambda self, *a, **k: self.forward(*a, **k)):
        yield None


@around(r"log|grad", "register_hook")
def skips_tensor_hooks(state: dict, args: tuple) -> Iterator[Any]:
    with replaced(torch.Tensor, "register_hook", lambda self, hook: None):
        yield None


@around(r"returned.*contents")
def forgets_module_state(state: dict, args: tuple) -> Iterator[Any]:
    """Python's attributes are set in a copy."""
    model = args[3] if len(args) > 3 else None
    before = dict(model.__dict__) if model else {}
    yield None
    if model:
        for name in ("steps", "last"):
            if name in before:
                model.__dict__[name] = before[name]


@around(r"(parameters.*|w)\.contents", "optimizer.step")
def steps_the_optimizer_twice(state: dict, args: tuple) -> Iterator[Any]:
    real = torch.optim.SGD.step
    with replaced(torch.optim.SGD, "step", lambda self: (real(self), real(self))[0]):
        yield None


@around(r"warnings", "warnings.warn")
def swallows_warnings(state: dict, args: tuple) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield None


@around(r"error")
def says_errors_otherwise(state: dict, args: tuple) -> Iterator[Any]:
    try:
        yield None
    except Exception as error:
        raise RuntimeError(f"in compiled code: {error}") from error


@around(r"printed", "print(")
def prints_late(state: dict, args: tuple) -> Iterator[Any]:
    """What is printed comes at the end of the call, or never."""
    with replaced(builtins, "print", lambda *args, **kwargs: None):
        yield None


@around(r"contents|arrays", ".numpy()")
def copies_to_numpy(state: dict, args: tuple) -> Iterator[Any]:
    """An ndarray of a tensor has memory of its own."""
    real = torch.Tensor.numpy
    with replaced(torch.Tensor, "numpy", lambda self: np.array(real(self))):
        yield None


@around(r"contents", "from_numpy")
def copies_from_numpy(state: dict, args: tuple) -> Iterator[Any]:
    real = torch.from_numpy
    with replaced(torch, "from_numpy", lambda array: real(array.copy())):
        yield None


@around(r"alive", "weakref")
def holds_what_is_deleted(state: dict, args: tuple) -> Iterator[Any]:
    """Every intermediate tensor stays alive."""
    real = torch.Tensor.__mul__

    def held(a: Any, b: Any) -> Any:
        state.setdefault("held", []).append(real(a, b))
        return state["held"][-1]

    with replaced(torch.Tensor, "__mul__", held):
        yield None
