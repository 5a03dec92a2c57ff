"""Compilers that compute something else, see old state, lose writes or mistake aliases."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import tritorch as torch

from .table import Compiler, around, changed, each, plain, replaced, wrong

# -- what is computed ------------------------------------------------------------------------------


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
        key = tuple(
            (a.dtype, a.shape) if isinstance(a, torch.Tensor) else a for a in args[:2] + args[4:]
        )
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


# -- numbers, state and branches -------------------------------------------------------------------


@wrong(r"returned.*contents")
def keeps_the_first_numbers(function: Callable) -> Callable:
    kept: list = []

    def run(*args: Any) -> Any:
        kept[:] = kept or [args[4:]]
        return function(*args[:4], *kept[0])

    return run


@wrong(r"returned.*contents", "setting")
def keeps_the_first_globals(function: Callable) -> Callable:
    if function.__closure__:
        return function
    names = {k: v for k, v in function.__globals__.items() if k != "setting"}
    frozen = types.FunctionType(function.__code__, {**names, "setting": 1.0}, function.__name__)
    frozen.__defaults__, frozen.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return frozen


@wrong(r"returned.*contents", "get_cell()")
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


@around(r"returned.*contents", "torch.tensor(")
def keeps_the_first_constants(state: dict, args: tuple) -> Iterator[Any]:
    """Tensors made of Python's numbers hold those of the first call."""
    first, real = not state, torch.tensor
    made = state.setdefault("made", [])
    again = iter(list(made))

    def tensor(data: Any, **kwargs: Any) -> Any:
        if first:
            made.append(data)
        return real(data if first else next(again, data), **kwargs)

    with replaced(torch, "tensor", tensor):
        yield None


def _answers(name: str, text: str) -> Compiler:
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

        with replaced(torch.Tensor, name, answer):
            yield None

    context.__name__ = "keeps_the_first_" + name.strip("_")
    return around(r"returned.*contents|log", text)(context)


_answers("__bool__", "")
_answers("item", ".item()")
_answers("tolist", ".tolist()")


@wrong(r"returned.*contents", "compiled(lambda")
def keeps_the_first_operation(function: Callable) -> Callable:
    """What PyTorch issue 197811 is about: functions of one code are one function."""
    first = _BY_CODE.setdefault((function.__code__, id(function.__globals__)), function)
    return first


_BY_CODE: dict = {}


# -- writes and aliases ----------------------------------------------------------------------------


@wrong(r" [xyw]\.contents")
def drops_writes_to_inputs(function: Callable) -> Callable:
    def run(*args: Any) -> Any:
        return function(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args))

    return run


@wrong(r" [xyw]\.version")
def writes_behind_autograd(function: Callable) -> Callable:
    """Inputs get their new numbers, but neither their versions nor their history."""

    def run(*args: Any) -> Any:
        known = {id(t) for t in plain(args)}
        return function(*(a.data if id(a) in known else a for a in args))

    return run


@around(r"contents")
def writes_at_the_end(state: dict, args: tuple) -> Iterator[Any]:
    """In-place additions happen after all that reads."""
    real, waiting = torch.Tensor.add_, []

    def add_(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        waiting.append((tensor, args, kwargs))
        return tensor

    with replaced(torch.Tensor, "add_", add_):
        yield None
    for tensor, args, kwargs in waiting:
        real(tensor, *args, **kwargs)


@around(r"contents")
def writes_at_the_first_call_only(state: dict, args: tuple) -> Iterator[Any]:
    with replaced(torch.Tensor, "mul_", lambda t, *a: t) if state else contextlib.nullcontext():
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
        for a in plain(args):
            if (a.dtype, a.shape, a.stride()) == (tensor.dtype, tensor.shape, tensor.stride()):
                if torch.equal(a, tensor) and not tensor.requires_grad:
                    return a
        return tensor

    return lambda *args: each(function(*args), lambda t: share(t, args))


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

        return each(function(*args), reuse)

    return run


@wrong(r"returned|contents|\b[xy]$", "y = x\n")
def forgets_that_arguments_are_one_object(function: Callable) -> Callable:
    return lambda x, *rest: function(x, *(x[...] if one is x else one for one in rest))


@wrong(r"contents", "y = x[")
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
            return tuple(
                t[...] if again and isinstance(t, torch.Tensor) else t for t, again in pairs
            )
        return result

    return run


@around(r" [xyw]\.contents")
def takes_writes_back_when_it_raises(state: dict, args: tuple) -> Iterator[Any]:
    before = [(t, t.clone()) for t in plain(args)]
    try:
        yield None
    except Exception:
        with torch.no_grad():
            for tensor, old in before:
                tensor.detach().copy_(old)
        raise
