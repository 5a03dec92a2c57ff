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

COMPILERS: dict[str, tuple[Compiler, str]] = {}
"""Every wrong compiler, by what it does, and in what the difference must be seen (a pattern)."""


def wrong(seen: str) -> Callable[[Compiler], Compiler]:
    """Puts a compiler into the table."""

    def put(compiler: Compiler) -> Compiler:
        COMPILERS[compiler.__name__] = compiler, seen
        return compiler

    return put


def around(seen: str) -> Callable[[Callable], Compiler]:
    """A compiler that runs the function inside a context of (state, args); state outlives the calls."""

    def put(context: Callable) -> Compiler:
        manager = contextlib.contextmanager(context)

        def compiler(function: Callable) -> Callable:
            state: dict = {}

            def run(*args: Any, **kwargs: Any) -> Any:
                with manager(state, args):
                    return function(*args, **kwargs)

            return run

        compiler.__name__ = context.__name__
        return wrong(seen)(compiler)

    return put


def changed(seen: str) -> Callable[[Callable], Compiler]:
    """A compiler that changes each tensor of the results, as (tensor, args) -> tensor."""

    def put(change: Callable) -> Compiler:
        def compiler(function: Callable) -> Callable:
            return lambda *args: _each(function(*args), lambda t: change(t, args))

        compiler.__name__ = change.__name__
        return wrong(seen)(compiler)

    return put


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


@contextlib.contextmanager
def _without(kind: type) -> Iterator[None]:
    """A class of contexts that do nothing."""
    with _replaced(kind, "__enter__", lambda self: self):
        with _replaced(kind, "__exit__", lambda self, *error: None):
            yield


# -- what is computed ----------------------------------------------------------------------------------


@wrong(r"returned.*contents")
def keeps_the_first_result(function: Callable) -> Callable:
    kept: list = []

    def run(*args: Any) -> Any:
        if not kept:
            kept.append(function(*args))
        return kept[0]

    return run


@wrong(r"returned.*contents")
def keeps_a_result_by_shapes(function: Callable) -> Callable:
    kept: dict = {}

    def run(*args: Any) -> Any:
        key = tuple((a.dtype, a.shape) if isinstance(a, torch.Tensor) else a for a in args[:2] + args[4:])
        if key not in kept:
            kept[key] = function(*args)
        return kept[key]

    return run


def _numbers(tensor: Any, args: tuple) -> Any:
    """A result's numbers, to be changed behind everything else; none if they are an input's."""
    if not tensor.is_floating_point() or any(tensor is a or tensor._base is a for a in args):
        return torch.zeros(0)
    return tensor.data


@changed(r"returned.*contents")
def rounds_otherwise(tensor: Any, args: tuple) -> Any:
    """The last bit of the numbers."""
    numbers = _numbers(tensor, args)
    numbers.mul_(1 + torch.finfo(numbers.dtype).eps)
    return tensor


@changed(r"returned.*contents")
def loses_the_sign_of_zero(tensor: Any, args: tuple) -> Any:
    _numbers(tensor, args).add_(0.0)
    return tensor


@changed(r"returned.*layout")
def lays_results_out_densely(tensor: Any, args: tuple) -> Any:
    return tensor.contiguous()


@changed(r"returned.*contents")
def computes_in_float32(tensor: Any, args: tuple) -> Any:
    numbers = _numbers(tensor, args)
    if numbers.dtype == torch.float64:
        numbers.copy_(numbers.float())
    return tensor


@wrong(r"log|state")
def runs_python_twice(function: Callable) -> Callable:
    def run(*args: Any) -> Any:
        function(*args)
        return function(*args)

    return run


# -- numbers, state and branches -----------------------------------------------------------------------


@wrong(r"returned.*contents")
def keeps_the_first_numbers(function: Callable) -> Callable:
    kept: list = []

    def run(*args: Any) -> Any:
        kept[:] = kept or [args[4:]]
        return function(*args[:4], *kept[0])

    return run


@wrong(r"returned.*contents")
def keeps_the_first_globals(function: Callable) -> Callable:
    if function.__closure__:
        return function
    names = {k: v for k, v in function.__globals__.items() if k != "setting"}
    frozen = types.FunctionType(function.__code__, {**names, "setting": 1.0}, function.__name__)
    frozen.__defaults__, frozen.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return frozen


@wrong(r"returned.*contents")
def keeps_the_first_cell(function: Callable) -> Callable:
    """What a closure held at the first call."""
    names, kept = function.__globals__, []

    def run(*args: Any) -> Any:
        real = names.get("get_cell")
        if real is None:
            return function(*args)
        kept[:] = kept or [real()]
        names["get_cell"] = lambda: kept[0]
        try:
            return function(*args)
        finally:
            names["get_cell"] = real

    return run


@around(r"returned.*contents")
def keeps_the_first_constants(state: dict, args: tuple) -> Iterator[Any]:
    """Tensors made of Python's numbers hold those of the first call."""
    first, real = not state, torch.tensor
    made = state.setdefault("made", [])
    again = iter(list(made))

    def tensor(data: Any, **kwargs: Any) -> Any:
        if first:
            made.append(data)
        return real(data if first else next(again, data), **kwargs)

    with _replaced(torch, "tensor", tensor):
        yield None


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
    return around(r"returned.*contents|log")(context)


_answers("__bool__")
_answers("item")
_answers("tolist")


@wrong(r"returned.*contents")
def keeps_the_first_operation(function: Callable) -> Callable:
    """What PyTorch issue 197811 is about: functions of one code share what was compiled for the first."""
    first = _BY_CODE.setdefault((function.__code__, id(function.__globals__)), function)
    return first


_BY_CODE: dict = {}


# -- writes and aliases --------------------------------------------------------------------------------


@wrong(r" [xyw]\.contents")
def drops_writes_to_inputs(function: Callable) -> Callable:
    def run(*args: Any) -> Any:
        return function(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))

    return run


@wrong(r" [xyw]\.version")
def writes_behind_autograd(function: Callable) -> Callable:
    """Inputs get their new numbers, but neither their versions nor their history."""

    def run(*args: Any) -> Any:
        plain = {id(t) for t in _plain(args)}
        return function(*(a.data if id(a) in plain else a for a in args))

    return run


@around(r"contents")
def writes_at_the_end(state: dict, args: tuple) -> Iterator[Any]:
    """In-place additions happen after all that reads."""
    real, waiting = torch.Tensor.add_, []

    def add_(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        waiting.append((tensor, args, kwargs))
        return tensor

    with _replaced(torch.Tensor, "add_", add_):
        yield None
    for tensor, args, kwargs in waiting:
        real(tensor, *args, **kwargs)


@around(r"contents")
def writes_at_the_first_call_only(state: dict, args: tuple) -> Iterator[Any]:
    with _replaced(torch.Tensor, "mul_", lambda t, *a: t) if state else contextlib.nullcontext():
        state["called"] = True
        yield None


@changed(r"returned.*memory")
def copies_what_is_an_alias(tensor: Any, args: tuple) -> Any:
    return tensor.clone() if tensor._base is not None else tensor


@changed(r"returned|\b[xyw]$")
def makes_views_of_inputs_that_are_returned(tensor: Any, args: tuple) -> Any:
    return tensor[...] if any(tensor is a for a in args) else tensor


@wrong(r"memory|\b[xyw]$")
def gives_equal_results_one_memory(function: Callable) -> Callable:
    """Returns an alias where eager returns a copy: results equal to an input become that input."""

    def share(tensor: Any, args: tuple) -> Any:
        for a in _plain(args):
            if (a.dtype, a.shape, a.stride()) == (tensor.dtype, tensor.shape, tensor.stride()):
                if torch.equal(a, tensor) and not tensor.requires_grad:
                    return a
        return tensor

    return lambda *args: _each(function(*args), lambda t: share(t, args))


@wrong(r"at the end, returned.*contents")
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


@wrong(r"returned|contents|\b[xy]$")
def forgets_that_arguments_are_one_object(function: Callable) -> Callable:
    return lambda x, *rest: function(x, *(x[...] if one is x else one for one in rest))


@wrong(r"contents")
def gives_arguments_memory_of_their_own(function: Callable) -> Callable:
    """Inputs that share memory do not, inside."""

    def run(x: Any, y: Any = None, *rest: Any) -> Any:
        if isinstance(y, torch.Tensor) and not y.requires_grad and y is not x and y.numel():
            if y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
                y = y.clone()
        return function(x, y, *rest) if y is not None else function(x)

    return run


@wrong(r"returned")
def gives_one_result_as_two(function: Callable) -> Callable:
    def run(*args: Any) -> Any:
        result = function(*args)
        if isinstance(result, tuple):
            known: set[int] = set()
            twice = [id(t) in known or known.add(id(t)) for t in result]
            pairs = zip(result, twice)
            return tuple(t[...] if again and isinstance(t, torch.Tensor) else t for t, again in pairs)
        return result

    return run


@around(r" [xyw]\.contents")
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


@around(r"returned.*flags")
def ignores_the_grad_mode_inside(state: dict, args: tuple) -> Iterator[Any]:
    """Contexts of the program have no effect."""
    with _without(torch.no_grad):
        yield None


@around(r"returned.*flags")
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


@around(r"returned.*layout")
def ignores_autocast(state: dict, args: tuple) -> Iterator[Any]:
    with _without(torch.autocast):
        yield None


@around(r"log")
def ignores_function_modes(state: dict, args: tuple) -> Iterator[Any]:
    with _without(torch.overrides.TorchFunctionMode):
        yield None


@changed(r"returned.*flags")
def detaches_results(tensor: Any, args: tuple) -> Any:
    return tensor.detach() if tensor.requires_grad and not any(tensor is a for a in args) else tensor


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


# -- random numbers ------------------------------------------------------------------------------------


@around(r"returned.*contents")
def draws_the_same_numbers_again(state: dict, args: tuple) -> Iterator[Any]:
    torch.set_rng_state(state.setdefault("random", torch.get_rng_state()))
    yield None


@around(r"generator")
def leaves_the_generator_as_it_was(state: dict, args: tuple) -> Iterator[Any]:
    before = torch.get_rng_state()
    yield None
    torch.set_rng_state(before)


@around(r"returned.*contents")
def draws_pythons_numbers_again(state: dict, args: tuple) -> Iterator[Any]:
    random.setstate(state.setdefault("random", random.getstate()))
    yield None


# -- modules and what is seen beside results -----------------------------------------------------------


@around(r"buffers.*contents")
def drops_buffers(state: dict, args: tuple) -> Iterator[Any]:
    model = args[3] if len(args) > 3 else None
    before = [(b, b.clone()) for b in model.buffers()] if model else []
    yield None
    with torch.no_grad():
        for buffer, old in before:
            buffer.data.copy_(old)


@around(r"returned.*contents")
def keeps_modules_in_one_mode(state: dict, args: tuple) -> Iterator[Any]:
    with _replaced(torch.nn.Module, "train", lambda self, mode=True: self):
        yield None


@around(r"log")
def skips_module_hooks(state: dict, args: tuple) -> Iterator[Any]:
    with _replaced(torch.nn.Module, "__call__", lambda self, *a, **k: self.forward(*a, **k)):
        yield None


@around(r"log|grad")
def skips_tensor_hooks(state: dict, args: tuple) -> Iterator[Any]:
    with _replaced(torch.Tensor, "register_hook", lambda self, hook: None):
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


@around(r"(parameters.*|w)\.contents")
def steps_the_optimizer_twice(state: dict, args: tuple) -> Iterator[Any]:
    real = torch.optim.SGD.step
    with _replaced(torch.optim.SGD, "step", lambda self: (real(self), real(self))[0]):
        yield None


@around(r"warnings")
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


@around(r"printed")
def prints_late(state: dict, args: tuple) -> Iterator[Any]:
    """What is printed comes at the end of the call, or never."""
    import builtins

    with _replaced(builtins, "print", lambda *args, **kwargs: None):
        yield None


@around(r"contents|arrays")
def copies_to_numpy(state: dict, args: tuple) -> Iterator[Any]:
    """An ndarray of a tensor has memory of its own."""
    real = torch.Tensor.numpy
    with _replaced(torch.Tensor, "numpy", lambda self: np.array(real(self))):
        yield None


@around(r"contents")
def copies_from_numpy(state: dict, args: tuple) -> Iterator[Any]:
    real = torch.from_numpy
    with _replaced(torch, "from_numpy", lambda array: real(array.copy())):
        yield None


@around(r"alive")
def holds_what_is_deleted(state: dict, args: tuple) -> Iterator[Any]:
    """Every intermediate tensor stays alive."""
    real = torch.Tensor.__mul__

    def held(a: Any, b: Any) -> Any:
        state.setdefault("held", []).append(real(a, b))
        return state["held"][-1]

    with _replaced(torch.Tensor, "__mul__", held):
        yield None
