"""What torch.compile got wrong in PyTorch, by issue: eager's results, four calls each.

The programs are small ones of our own about what an issue reports.  A case takes `compiled`, which
is torch.compile or nothing, and gives plain data; the numbers beside it are eager's.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

import tritorch as torch

F = torch.nn.functional
DEVICE = ["cpu"]
CASES: dict[str, tuple[Callable, Any]] = {}


def gives(expected: Any) -> Callable[[Callable], Callable]:
    """Puts a case into the table, with what it gives."""

    def put(case: Callable) -> Callable:
        CASES[case.__name__] = case, expected
        return case

    return put


def four(call: Callable[[int], Any]) -> list:
    """What four calls give, with tensors as lists that are read after the last call."""
    results = [call(index) for index in range(4)]
    return [plain(result) for result in results]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def made(factory: Callable) -> Callable:
    """A factory of tensors on the device that is tested."""
    return lambda *args, **kwargs: factory(*args, device=DEVICE[0], **kwargs)


tensor, ones, zeros = made(torch.tensor), made(torch.ones), made(torch.zeros)
arange, eye = made(torch.arange), made(torch.eye)


# -- what a call depends on besides its arguments --------------------------------------------------


@gives([[9.0, 18.0]] * 4)
def issue_197811_closures_of_one_code_hold_methods(compiled: Callable) -> Any:
    """A method of Tensor in a closure's cell decides what is computed."""

    def make(operation: Callable) -> Callable:
        return lambda a, b: operation(a, b)

    add = compiled(make(torch.Tensor.__add__))
    multiply = compiled(make(torch.Tensor.__mul__))
    x, y = tensor(6.0), tensor(3.0)
    return four(lambda i: [add(x, y), multiply(x, y)])


@gives([[9.0], [18.0], [9.0], [18.0]])
def issue_197811_a_cell_changes_between_calls(compiled: Callable) -> Any:
    """The same function, whose cell is written from outside."""
    operation = torch.Tensor.__add__
    function = compiled(lambda a, b: operation(a, b))

    def call(index: int) -> Any:
        nonlocal operation
        operation = [torch.Tensor.__add__, torch.Tensor.__mul__][index % 2]
        return [function(tensor(6.0), tensor(3.0))]

    return four(call)


@gives([4.0, 4.0, 2.0, 4.0])
def issue_192905_nested_regions_branch_on_what_they_are_given(compiled: Callable) -> Any:
    """An outer region is not the same because its own code is: an inner one reads a flag."""
    region = torch.compiler.nested_compile_region

    @region
    def inner(layer: Any, a: Any) -> Any:
        return a * 2 if layer.flag else a * 0

    @region
    def outer(layer: Any, a: Any) -> Any:
        return inner(layer, a) + 0.0

    layers = [types.SimpleNamespace(flag=flag) for flag in (True, False, True, False)]
    function = compiled(lambda a: sum(outer(layer, a) for layer in layers))

    def call(index: int) -> Any:
        layers[0].flag = index != 2
        return function(tensor(1.0))

    return four(call)


@gives([[0.0, 1.0, 4], [1.0, 2.0, 5], [2.0, 3.0, 6], [3.0, 4.0, 7]])
def issue_197896_a_local_class_writes_what_it_closes_over(compiled: Callable) -> Any:
    """A list and a dict are changed by a method of a class that the function defines."""
    seen, counts = [], {"n": 3}

    def function(a: Any) -> Any:
        class Helper:
            def touch(self) -> None:
                seen.append(a.shape)
                counts["n"] += 1

        Helper().touch()
        return a + len(seen) - 1

    run = compiled(function)
    return four(lambda i: [*run(tensor([0.0, 1.0])), counts["n"]])


@gives([[0, 1], [2, 1], [2, 0], [0, 9]])
def issue_115774_an_attribute_is_replaced_between_calls(compiled: Callable) -> Any:
    """A module writes into the tensor that its attribute is now."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache = tensor([0, 0])

        def forward(self, value: Any, place: Any) -> Any:
            self.cache[place] = value
            return self.cache.clone()

    model = Model()
    run = compiled(model)

    def call(index: int) -> Any:
        if index == 3:
            model.cache = tensor([0, 0])
        value, place = [(1, 1), (2, 0), (0, 1), (9, 1)][index]
        return run(tensor(value), tensor(place))

    return four(call)


@gives([5.0, 4.0, 5.0, 4.0])
def issue_124717_a_switch_of_a_module_is_turned(compiled: Callable) -> Any:
    class Model(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            return a * a if self.disabled else a * a + 1

    model = Model()
    model.disabled = False
    run = compiled(model)

    def call(index: int) -> Any:
        model.disabled = index % 2 == 1
        return run(tensor(2.0))

    return four(call)


@gives([0.0, 1.0, 0.0, 1.0])
def issue_197859_an_entry_of_the_dict_hides_a_submodule(compiled: Callable) -> Any:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Identity()

        def forward(self, a: Any) -> Any:
            return self.inner(a)

    model = Model()
    run = compiled(model)

    def call(index: int) -> Any:
        model.__dict__.pop("inner", None)
        if index % 2:
            model.__dict__["inner"] = lambda a: a + 1
        return run(tensor(0.0))

    return four(call)


@gives([3.0, 12.0, 3.0, 12.0])
def issue_178365_defaults_are_part_of_a_function(compiled: Callable) -> Any:
    def scaled(a: Any, factor: float = 1.0) -> Any:
        return a * factor

    run = compiled(lambda a: scaled(a))

    def call(index: int) -> Any:
        scaled.__defaults__ = (4.0 if index % 2 else 1.0,)
        return run(tensor(3.0))

    return four(call)


@gives(["float32", "float64", "float32", "float64"])
def issue_184405_the_default_dtype_changes(compiled: Callable) -> Any:
    run = compiled(lambda: ones(2) * 2)

    def call(index: int) -> Any:
        torch.set_default_dtype(torch.float64 if index % 2 else torch.float32)
        try:
            return str(run().dtype).rpartition(".")[2]
        finally:
            torch.set_default_dtype(torch.float32)

    return four(call)


@gives([[0.5, 0.5], [0.25, 0.25], [0.125, 0.125], [1.0, 2.0]])
def issue_194976_a_float_is_another_at_each_call(compiled: Callable) -> Any:
    """A limit goes into clamp twice, once negated, forward and backward."""

    def function(a: Any, limit: float) -> Any:
        return a.clamp(max=limit) * a.clamp(min=-limit, max=4.0)

    run = compiled(function)

    def call(index: int) -> Any:
        a = tensor(1.0, requires_grad=True)
        result = run(a, [0.5, 0.25, 0.125, 1.0][index])
        result.backward()
        return [result, a.grad]

    return four(call)


# -- writes and memory that is shared --------------------------------------------------------------


@gives([[[2.0, 2.0], [2.0, 2.0], [4.0, 4.0], True]] * 4)
def issue_128035_an_input_with_history_is_written(compiled: Callable) -> Any:
    """Gradients go through the write, past a detached alias of the input."""

    def function(a: Any) -> Any:
        alias = a.detach()
        a.mul_(2)
        return a, alias

    run = compiled(function)

    def call(index: int) -> Any:
        leaf = ones(2, requires_grad=True)
        given = leaf * 1
        result, alias = run(given)
        (result.sum() * 2).backward()
        return [given.detach(), alias, leaf.grad, result is given]

    return four(call)


@gives([[3.0, 3.0], [3.0, 3.0], [3.0, 4.0], [3.0, 3.0]])
def issue_139789_inputs_share_memory_in_a_later_call(compiled: Callable) -> Any:
    def function(a: Any, b: Any) -> Any:
        a.mul_(2)
        return a + b

    run = compiled(function)

    def call(index: int) -> Any:
        if index == 2:
            base = ones(3)
            return run(base[:2], base[1:]).flip(0)
        return run(ones(2), ones(2))

    return four(call)


@gives([[2.0, 3.0]] * 4)
def issue_195422_a_write_through_a_dropout_that_does_nothing(compiled: Callable) -> Any:
    def function(a: Any) -> Any:
        b = F.dropout(a, 0.5, False)
        b += b
        return a + 1

    run = compiled(function)

    def call(index: int) -> Any:
        a = tensor(1.0)
        result = run(a)
        return [a, result]

    return four(call)


@gives([[[0.0, 1.0], [1.0, 2.0]]] * 4)
def issue_198131_a_copy_is_taken_before_the_write(compiled: Callable) -> Any:
    def function(to: Any, source: Any) -> Any:
        to[0:] = source[0:]
        source.add_(1)
        return source

    run = compiled(function)

    def call(index: int) -> Any:
        to, source = zeros(2), arange(2.0)
        return [to, run(to, source)]

    return four(call)


@gives([[[12, 12], [2, 2]]] * 4)
def issue_198101_a_view_of_another_dtype_is_read_before_the_write(compiled: Callable) -> Any:
    def function(a: Any) -> Any:
        b = a.view(torch.int32) * 2
        b.sub_(-4)
        a[:] = 2
        return b[::2], a

    run = compiled(function)
    return four(lambda i: run(tensor([4, 4])))


@gives([[[5.0, 1.0], [0.0, 0.0]]] * 4)
def issue_198094_a_scattered_copy_outlives_a_write(compiled: Callable) -> Any:
    def function(a: Any, source: Any) -> Any:
        b = torch.slice_scatter(a, source, 0, 0, 1)
        a.zero_()
        return b, a

    run = compiled(function)
    return four(lambda i: run(tensor([0.0, 1.0]), tensor([5.0])))


@gives([[6.0, 4.0, 6.0]] * 4)
def issue_198270_a_write_reads_itself_elsewhere(compiled: Callable) -> Any:
    def function(a: Any) -> Any:
        a.index_put_((arange(3),), a * 2)
        a.add_(a.flip(0))
        return a

    run = compiled(function)
    return four(lambda i: run(tensor([1.0, 1.0, 2.0])))


@gives([[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]] * 4)
def issue_103650_a_transposed_view_is_written_and_returned(compiled: Callable) -> Any:
    def function(a: Any) -> Any:
        b = a.t()
        b.add_(1)
        return b

    run = compiled(function)
    return four(lambda i: run(arange(6.0).view(2, 3)))


@gives([[3, 3], [3, 3], [3, 3], [3, 3]])
def issue_152425_an_expanded_tensor_is_one_number(compiled: Callable) -> Any:
    def function(a: Any, n: int) -> Any:
        b = a.expand((n,))
        b[-1] = 3
        return b

    run = compiled(function)
    numbers = arange(4)
    return four(lambda i: run(numbers[i], 2))


@gives([[101.0, 1]] * 4)
def issue_198095_a_view_of_an_input_that_is_a_view(compiled: Callable) -> Any:
    """The result begins where the second input begins, not where the written one does."""

    def function(base: Any, tail: Any) -> Any:
        base.add_(100)
        return tail[0]

    run = compiled(function)

    def call(index: int) -> Any:
        base = arange(4.0)
        result = run(base, base[1:])
        return [result, result.storage_offset()]

    return four(call)


# -- results, their memory and their gradients -----------------------------------------------------


@gives([[[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 4.0]], [[9.0, 0.0], [0.0, 9.0]],
        [[16.0, 0.0], [0.0, 16.0]]])  # fmt: skip
def issue_144386_results_of_earlier_calls_stay(compiled: Callable) -> Any:
    """No call writes over a result that the caller still has, in no mode."""
    run = compiled(lambda a: torch.matmul(a, a), mode="reduce-overhead")
    return four(lambda i: run(eye(2) * (i + 1)))


@gives([[[2.0, 4.0, 8.0]]] * 4)
def issue_170604_one_function_is_iterated(compiled: Callable) -> Any:
    """What the function gave is what it is given next; all of it is looked at afterwards."""
    run = compiled(lambda a: a * 2, mode="reduce-overhead")

    def call(index: int) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        first = run(ones(1))
        second = run(first)
        return [torch.cat([first, second, run(second)])]

    return four(call)


@gives([[True, False, False, False]] * 4)
def issue_114344_equal_results_with_and_without_gradients(compiled: Callable) -> Any:
    def function(a: Any) -> Any:
        with torch.enable_grad():
            first = a + 1
        return first, a + 1, a + 1

    run = compiled(function)

    def call(index: int) -> Any:
        with torch.no_grad():
            first, second, third = run(ones(2, requires_grad=True))
        return [first.requires_grad, second.requires_grad, third.requires_grad, second is third]

    return four(call)


@gives([4.0] * 4)
def issue_181146_a_function_is_given_one_tensor_twice(compiled: Callable) -> Any:
    """Both of the gradients that a custom function returns for the tensor arrive."""

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            return a + b + c

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None, grad * 3

    run = compiled(lambda a: Both.apply(a, a, a))

    def call(index: int) -> Any:
        a = tensor(1.0, requires_grad=True)
        run(a).backward()
        return a.grad

    return four(call)


@gives([[3.0, 3.0]] * 4)
def issue_180642_a_function_writes_inside_of_its_forward_pass(compiled: Callable) -> Any:
    class Tripled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            b = a.clone()
            b += a
            b += a
            return b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    run = compiled(lambda a: Tripled.apply(a))

    def call(index: int) -> Any:
        a = ones((), requires_grad=True)
        result = run(a)
        result.backward()
        return [result.item(), a.grad.item()]

    return four(call)


@gives([[False, True, True, False]] * 4)
def issue_183606_zeros_have_signs(compiled: Callable) -> Any:
    def function(a: Any) -> Any:
        return torch.stack([torch.frac(a), a * 1, torch.trunc(a), a + 0.0])

    run = compiled(function)
    return four(lambda i: torch.signbit(run(tensor(-0.0))))


def eager(function: Callable, **options: Any) -> Callable:
    """The function as it is, whatever compile is told."""
    return function


@pytest.mark.parametrize("name", CASES)
def test_compiled_is_eager(name: str) -> None:
    case, expected = CASES[name]
    assert case(eager) == expected
    assert case(torch.compile) == expected


@pytest.mark.device
@pytest.mark.parametrize("name", CASES)
def test_compiled_is_eager_on_the_gpu(name: str) -> None:
    case, expected = CASES[name]
    DEVICE[0] = "cuda"
    try:
        assert case(torch.compile) == expected
    finally:
        DEVICE[0] = "cpu"
