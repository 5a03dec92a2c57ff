"""Classes of TorchScript: attributes, methods, context managers, enumerations, and their errors."""

import dataclasses
import enum
from typing import Any, Optional

import pytest

import tritorch as torch
from tritorch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Counter:
    def __init__(self, start: int) -> None:
        self.count = start

    def add(self, by: int) -> int:
        self.count += by
        return self.count

    @torch.jit.unused
    def unscriptable(self, x: "list[Any]", **kwargs: Any) -> int:
        return next(iter(x))


class Holder(nn.Module):
    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def forward(self, by: int) -> int:
        return self.counter.add(by)


class Derived(Counter):
    pass


class WithClassAttribute:
    SIZE = 3

    def __init__(self) -> None:
        self.x = 1


class Late:
    def __init__(self, flag: bool) -> None:
        if flag:
            self.x = 1


class Holding:
    def __init__(self, value: torch.Tensor) -> None:
        self.value = value


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Tensors(enum.Enum):
    ZERO = torch.zeros(1)


def test_an_attribute_of_a_class_is_compiled_with_its_module() -> None:
    scripted = torch.jit.script(Holder(Counter(3)))
    assert [scripted(2), scripted(2)] == [5, 7]


def test_classes_do_not_inherit() -> None:
    with pytest.raises(RuntimeError, match="does not support inheritance"):
        torch.jit.script(Derived)


def uses_class_attribute() -> int:
    return WithClassAttribute().SIZE


def test_values_of_the_class_are_no_attributes() -> None:
    with pytest.raises(RuntimeError, match="is defined as a class attribute"):
        torch.jit.script(uses_class_attribute)


def test_attributes_are_declared_outside_of_branches() -> None:
    with pytest.raises(RuntimeError, match="assignment cannot be in a control-flow block"):
        torch.jit.script(Late)


class HoldsText(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Holding("text")  # type: ignore[arg-type]

    def forward(self) -> torch.Tensor:
        return self.part.value


def test_attributes_have_the_type_of_the_class() -> None:
    with pytest.raises(RuntimeError, match="Could not cast attribute 'value' to type Tensor"):
        torch.jit.script(HoldsText())


def red_or(other: Optional[Color]) -> int:  # noqa: UP045
    return Color.RED.value if other is None else other.value


def zero(x: Tensors) -> str:
    return x.name


def test_enumerations() -> None:
    scripted = torch.jit.script(red_or)
    assert scripted(None) == 1
    assert scripted(Color.BLUE) == 2
    with pytest.raises(RuntimeError, match="Cannot create Enum with value type 'Tensor'"):
        torch.jit.script(zero)


def without_gradients(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        y = x * 2
    return y, x * 3


def recorded(x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.profiler.record_function("part"):
        return x + 1


def test_context_managers_of_the_library() -> None:
    x = torch.ones(2, requires_grad=True)
    y, z = torch.jit.script(without_gradients)(x)
    assert (y.requires_grad, z.requires_grad) == (False, True)
    with torch.autograd.profiler.profile() as profile:
        torch.jit.script(recorded)(x)
    assert "part" in {event.name for event in profile.function_events}


@dataclasses.dataclass(order=True)
class Span:
    start: int
    end: int | None = None


@dataclasses.dataclass(init=False)
class Selected:
    index: torch.Tensor
    weight: torch.Tensor | None = None

    def __init__(self, index: torch.Tensor, weight: torch.Tensor | None = None) -> None:
        self.index = index
        self.weight = weight


def test_comparisons_of_a_dataclass_refine_its_optional_fields() -> None:
    def equal(a: int, b: int | None, c: int | None) -> bool:
        return Span(a, b) == Span(a, c)

    def less(a: int, b: int | None, c: int | None) -> bool:
        return Span(a, b) < Span(a, c)

    same = torch.jit.script(equal)
    assert [same(1, 2, 2), same(1, None, None), same(1, 2, None), same(1, 2, 3)] == [
        True, True, False, False,
    ]  # fmt: skip
    before = torch.jit.script(less)
    assert before(1, 2, 3) and not before(1, 2, 2) and not before(1, None, None)
    with pytest.raises(torch.jit.Error, match="Cannot compare Span with None"):
        before(1, 2, None)


def test_a_dataclass_with_an_optional_tensor_is_scripted() -> None:
    torch.jit.script(Selected)

    def equal(x: torch.Tensor, weight: torch.Tensor | None) -> bool:
        return Selected(x, None) == Selected(x, weight)

    same = torch.jit.script(equal)
    assert same(torch.tensor(1), None) and not same(torch.tensor(1), torch.tensor(3))


def test_names_that_packages_reach_for() -> None:
    @torch.jit._script_if_tracing
    def more(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert more(torch.ones(1)) == 2
    graph = torch.jit.script(increment).graph
    assert "test_classes.py" in str(graph)
    with torch.jit._hide_source_ranges():
        assert "test_classes.py" not in str(graph)
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    assert list(torch.jit._unique_state_dict(tied)) == ["0.weight", "0.bias", "1.bias"]


def increment(x: torch.Tensor) -> torch.Tensor:
    return x + 1
