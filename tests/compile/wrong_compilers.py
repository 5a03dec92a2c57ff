"""Compilers that are wrong in one way each: what the comparison must find.

Each is what some real compiler did, or what one that follows calls and computes them late could do.
A compiler takes a function and gives one that is called in its place.
"""

from __future__ import annotations

import contextlib
import random
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tritorch as torch

Compiler = Callable[[Callable], Callable]

COMPILERS: dict[str, Compiler] = {}
"""Every wrong compiler, by what it does."""


def wrong(compiler: Compiler) -> Compiler:
    """Puts a compiler into the table."""
    COMPILERS[compiler.__name__] = compiler
    return compiler


def around(context: Callable) -> Compiler:
    """A compiler that runs the function inside a context of its arguments, and puts it into the table.

    The context has (state, args): `state` outlives the calls.  What it yields, if anything, takes the
    result and gives another.
    """

    def compiler(function: Callable) -> Callable:
        state: dict = {}

        def run(*args: Any, **kwargs: Any) -> Any:
            with contextlib.contextmanager(context)(state, args) as after:
                result = function(*args, **kwargs)
                return after(result) if after else result

        return run

    compiler.__name__ = context.__name__
    return wrong(compiler)


def changed(change: Callable) -> Compiler:
    """A compiler whose results' tensors are changed, each on its own, as (tensor, args) -> tensor."""

    def compiler(function: Callable) -> Callable:
        return lambda *args: _each(function(*args), lambda t: change(t, args))

    compiler.__name__ = change.__name__
    return wrong(compiler)


def _each(value: Any, change: Callable) -> Any:
    """Nested containers with their tensors changed; one object stays one object."""
    known: dict[int, Any] = {}

    def walk(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            if id(one) not in known:
                known[id(one)] = change(one)
            return known[id(one)]
        if isinstance(one, dict):
            return {key: walk(inner) for key, inner in one.items()}
        return type(one)(walk(inner) for inner in one) if isinstance(one, list | tuple) else one

    return walk(value)


def _plain(args: tuple) -> list:
    return [a for a in args if isinstance(a, torch.Tensor) and not (a.requires_grad or a.is_inference())]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# -- what is computed ----------------------------------------------------------------------------------


@wrong
def keeps_the_first_result(function: Callable) -> Callable:
    kept: list = []

    def run(*args: Any) -> Any:
        if not kept:
            kept.append(function(*args))
        return kept[0]

    return run


@wrong
def keeps_a_result_by_shapes(function: Callable) -> Callable:
    kept: dict = {}

    def run(*args: Any) -> Any:
        key = tuple((a.dtype, a.shape) if isinstance(a, torch.Tensor) else a for a in args[:2] + args[4:])
        if key not in kept:
            kept[key] = function(*args)
        return kept[key]

    return run


@changed
def rounds_otherwise(tensor: Any, args: tuple) -> Any:
    """One bit in one number."""
    if tensor.is_floating_point() and tensor.numel() and not tensor.requires_grad:
        with torch.no_grad():
            tensor = tensor.clone()
            tensor.view(-1)[-1:].mul_(1 + 2 * torch.finfo(tensor.dtype).eps) if tensor.is_contiguous() else 0
    return tensor


@changed
def loses_the_sign_of_zero(tensor: Any, args: tuple) -> Any:
    return torch.where(tensor == 0, tensor.abs(), tensor) if tensor.is_floating_point() else tensor


@changed
def lays_results_out_densely(tensor: Any, args: tuple) -> Any:
    return tensor.contiguous()


@changed
def computes_in_float32(tensor: Any, args: tuple) -> Any:
    return tensor.float().to(tensor.dtype) if tensor.dtype == torch.float64 else tensor


# -- numbers, state and branches -----------------------------------------------------------------------


@wrong
def keeps_the_first_numbers(function: Callable) -> Callable:
    kept: list = []

    def run(*args: Any) -> Any:
        kept[:] = kept or [args[4:]]
        return function(*args[:4], *kept[0])

    return run


@wrong
def keeps_the_first_globals(function: Callable) -> Callable:
    if function.__closure__:
        return function
    names = {k: v for k, v in function.__globals__.items() if k != "setting"}
    frozen = types.FunctionType(function.__code__, {**names, "setting": 1.0}, function.__name__)
    frozen.__defaults__, frozen.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return frozen


@around
def keeps_the_first_cell(state: dict, args: tuple) -> Iterator[Any]:
    """A function whose closure is read at the first call only."""
    names = state.get("names")
    if names is None:
        import sys

        frame = sys._getframe()
        while frame and "get_cell" not in frame.f_globals:  # the nested compiled function's module
            frame = frame.f_back
        state["names"] = names = frame.f_globals if frame else {}
    yield None
    if "put_cell" in names:
        names["put_cell"](1.0)


def _answers(name: str) -> Compiler:
    """A compiler that gives a tensor's answers of the first call again, in order."""

    def context(state: dict, args: tuple) -> Iterator[Any]:
        first = not state
        answers, real = state.setdefault("answers", []), getattr(torch.Tensor, name)
        again = iter(list(answers))

        def answer(tensor: Any) -> Any:
            value = real(tensor)
            if first:
                answers.append(value)
                return value
            return next(again, value)

        with _replaced(torch.Tensor, name, answer):
            yield None

    context.__name__ = "keeps_the_first_" + name.strip("_")
    return around(context)


_answers("__bool__")
_answers("item")
_answers("tolist")


@wrong
def keeps_the_first_operation(function: Callable) -> Callable:
    """What PyTorch issue 197811 is about: functions of one code share what was compiled for the first."""
    first = _BY_CODE.setdefault((function.__code__, id(function.__globals__)), function)
    return first


_BY_CODE: dict = {}


# -- writes and aliases --------------------------------------------------------------------------------


@wrong
def drops_writes_to_inputs(function: Callable) -> Callable:
    def run(*args: Any) -> Any:
        return function(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))

    return run


@around
def writes_behind_autograd(state: dict, args: tuple) -> Iterator[Any]:
    """Inputs get their new numbers, but neither their versions nor their history."""
    before = [(t, t._version) for t in _plain(args)]
    yield None
    for tensor, version in before:
        if tensor._version != version and not tensor.requires_grad:
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@changed
def copies_what_is_an_alias(tensor: Any, args: tuple) -> Any:
    return tensor.clone() if tensor._base is not None else tensor


@changed
def makes_views_of_inputs_that_are_returned(tensor: Any, args: tuple) -> Any:
    return tensor[...] if any(tensor is a for a in args) else tensor


@wrong
def gives_equal_results_one_memory(function: Callable) -> Callable:
    """Returns an alias where eager returns a copy: results equal to an input become that input."""

    def share(tensor: Any, args: tuple) -> Any:
        for a in _plain(args):
            if (a.dtype, a.shape, a.stride()) == (tensor.dtype, tensor.shape, tensor.stride()):
                if torch.equal(a, tensor) and not tensor.requires_grad:
                    return a
        return tensor

    return lambda *args: _each(function(*args), lambda t: share(t, args))


@wrong
def writes_results_over_those_of_the_call_before(function: Callable) -> Callable:
    """What PyTorch issues 144386 and 170604 are about: results have one memory for all calls."""
    kept: dict = {}

    def run(*args: Any) -> Any:
        count = iter(range(10**6))

        def reuse(tensor: Any) -> Any:
            key = next(count), tensor.dtype, tuple(tensor.shape), tensor.stride()
            if tensor.requires_grad or tensor._base is not None or any(tensor is a for a in args):
                return tensor
            with torch.no_grad():
                return kept[key].copy_(tensor) if key in kept else kept.setdefault(key, tensor)

        return _each(function(*args), reuse)

    return run


@wrong
def merges_arguments_that_are_equal(function: Callable) -> Callable:
    """One tensor where the caller gave two of the same numbers."""

    def run(x: Any, *rest: Any) -> Any:
        if rest and isinstance(rest[0], torch.Tensor) and rest[0].shape == x.shape:
            if rest[0].dtype == x.dtype and not rest[0].requires_grad:
                rest = (x.detach()[:] if rest[0].data_ptr() == x.data_ptr() else rest[0], *rest[1:])
        return function(x, *rest)

    return run


@around
def takes_writes_back_when_it_raises(state: dict, args: tuple) -> Iterator[Any]:
    before = [(t, t.clone()) for t in _plain(args)]
    try:
        yield None
    except Exception:
        with torch.no_grad():
            for tensor, old in before:
                tensor.detach().copy_(old)
        raise


# -- gradients -----------------------------------------------------------------------------------------


@around
def ignores_the_grad_mode_inside(state: dict, args: tuple) -> Iterator[Any]:
    """Contexts of the program have no effect."""
    with _replaced(torch.no_grad, "__enter__", lambda self: None):
        yield None


@around
def keeps_the_first_grad_mode(state: dict, args: tuple) -> Iterator[Any]:
    with torch.set_grad_enabled(state.setdefault("mode", torch.is_grad_enabled())):
        yield None


@around
def leaves_the_grad_mode_changed(state: dict, args: tuple) -> Iterator[Any]:
    try:
        yield None
    except Exception:
        torch.set_grad_enabled(False)
        raise


@around
def ignores_autocast(state: dict, args: tuple) -> Iterator[Any]:
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield None


@changed
def detaches_results(tensor: Any, args: tuple) -> Any:
    return tensor.detach() if tensor.requires_grad and not any(tensor is a for a in args) else tensor


@around
def replaces_gradients(state: dict, args: tuple) -> Iterator[Any]:
    """A gradient from before the call is not added to."""
    for tensor in args[:3]:
        if isinstance(tensor, torch.Tensor) and tensor.is_leaf:
            tensor.grad = None
    yield None


@around
def scales_gradients(state: dict, args: tuple) -> Iterator[Any]:
    """The backward pass is that of another function, where results are the same."""
    yield lambda result: _each(
        result, lambda t: t * 2 - t.detach() if t.grad_fn is not None and t._base is None else t
    )


# -- random numbers ------------------------------------------------------------------------------------


@around
def draws_the_same_numbers_again(state: dict, args: tuple) -> Iterator[Any]:
    torch.set_rng_state(state.setdefault("random", torch.get_rng_state()))
    yield None


@around
def leaves_the_generator_as_it_was(state: dict, args: tuple) -> Iterator[Any]:
    before = torch.get_rng_state()
    yield None
    torch.set_rng_state(before)


@around
def draws_pythons_numbers_again(state: dict, args: tuple) -> Iterator[Any]:
    random.setstate(state.setdefault("random", random.getstate()))
    yield None


# -- modules and what is seen beside results -----------------------------------------------------------


@around
def drops_buffers(state: dict, args: tuple) -> Iterator[Any]:
    model = args[3] if len(args) > 3 else None
    before = [(b, b.clone()) for b in model.buffers()] if model else []
    yield None
    with torch.no_grad():
        for buffer, old in before:
            buffer.data.copy_(old)


@around
def keeps_modules_in_one_mode(state: dict, args: tuple) -> Iterator[Any]:
    with _replaced(torch.nn.Module, "train", lambda self, mode=True: self):
        yield None


@around
def skips_module_hooks(state: dict, args: tuple) -> Iterator[Any]:
    with _replaced(torch.nn.Module, "__call__", lambda self, *a, **k: self.forward(*a, **k)):
        yield None


@around
def skips_tensor_hooks(state: dict, args: tuple) -> Iterator[Any]:
    with _replaced(torch.Tensor, "register_hook", lambda self, hook: None):
        yield None


@around
def forgets_module_state(state: dict, args: tuple) -> Iterator[Any]:
    """Python's attributes are set in a copy."""
    model = args[3] if len(args) > 3 else None
    before = dict(model.__dict__) if model else {}
    yield None
    if model:
        for name in ("steps", "last"):
            if name in before:
                model.__dict__[name] = before[name]


@around
def steps_the_optimizer_twice(state: dict, args: tuple) -> Iterator[Any]:
    real = torch.optim.SGD.step
    with _replaced(torch.optim.SGD, "step", lambda self: (real(self), real(self))[0]):
        yield None


@around
def swallows_warnings(state: dict, args: tuple) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield None


@around
def says_errors_otherwise(state: dict, args: tuple) -> Iterator[Any]:
    try:
        yield None
    except Exception as error:
        raise RuntimeError(f"in compiled code: {error}") from error


@around
def prints_late(state: dict, args: tuple) -> Iterator[Any]:
    """What is printed comes at the end of the call, or never."""
    import builtins

    with _replaced(builtins, "print", lambda *args, **kwargs: None):
        yield None


@around
def copies_to_numpy(state: dict, args: tuple) -> Iterator[Any]:
    """An ndarray of a tensor has memory of its own."""
    real = torch.Tensor.numpy
    with _replaced(torch.Tensor, "numpy", lambda self: np.array(real(self))):
        yield None


@around
def copies_from_numpy(state: dict, args: tuple) -> Iterator[Any]:
    real = torch.from_numpy
    with _replaced(torch, "from_numpy", lambda array: real(array.copy())):
        yield None


@around
def holds_what_is_deleted(state: dict, args: tuple) -> Iterator[Any]:
    """Every intermediate tensor stays alive."""
    real = torch.Tensor.__mul__

    def held(a: Any, b: Any) -> Any:
        state.setdefault("held", []).append(real(a, b))
        return state["held"][-1]

    with _replaced(torch.Tensor, "__mul__", held):
        yield None
