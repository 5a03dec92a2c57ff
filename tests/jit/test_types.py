"""Types in TorchScript: annotations, refinement, errors at the user's line."""

import collections
from typing import Any, Optional, Union

import pytest

import tritorch as torch

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def commented(x, name):  # type: ignore[no-untyped-def]
    # type: (int, str)
    return name + str(x)


def sliced(x: list[int]) -> list[int]:
    return x[slice(1, 3)]


def ordered() -> int:
    return collections.OrderedDict([(1, 2), (2, 3), (1, 4)])[1]


def converted(x: torch.Tensor) -> torch.Tensor:
    return x.double()


def either(flag: int) -> Union[int, str, None]:  # noqa: UP007
    if flag == 0:
        x: Optional[Union[int, str]] = "text"  # noqa: UP007, UP045
    elif flag == 1:
        x: Optional[Union[int, str]] = 1  # type: ignore[no-redef]  # noqa: UP007, UP045
    else:
        x: Optional[Union[int, str]] = None  # type: ignore[no-redef]  # noqa: UP007, UP045
    return x


def renamed(x: tuple[str, str]) -> str:
    x = x[0]  # type: ignore[assignment]
    return x  # type: ignore[return-value]


def test_annotations_in_their_forms() -> None:
    script = torch.jit.script
    assert script(commented)(2, "ab") == "ab2"
    assert script(sliced)([1, 2, 3, 4]) == [2, 3]
    assert script(ordered)() == 4
    assert script(converted)(torch.ones(1)).dtype == torch.float64
    assert [script(either)(flag) for flag in range(3)] == ["text", 1, None]
    assert script(renamed)(("a", "b")) == "a"


def bare(x: torch.Tensor) -> tuple:  # type: ignore[type-arg]
    return x, x


def list_as_int() -> int:
    x: int = [1, 2]  # type: ignore[assignment]
    return x


def dict_as_union() -> Any:
    x: Union[list[int], int] = {}  # type: ignore[assignment]  # noqa: UP007
    return x


def declared_twice() -> int:
    x = 5
    if x > 1:
        x: Optional[int] = 7  # type: ignore[no-redef]  # noqa: UP045
    return 1


def assigned_tuple(x: tuple[int, int]) -> None:
    x[0] = 1  # type: ignore[index]


def added_number() -> int:
    return (1).add(1)  # type: ignore[attr-defined]


def keyword_default(*, x: int = 2) -> int:
    return x


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (bare, "Attempted to use Tuple without a contained type"),
        (list_as_int, "Expected an annotation of type List"),
        (dict_as_union, "Expected an Union type annotation with an inner Dict type"),
        (declared_twice, "declare and annotate"),
        (assigned_tuple, "does not support subscripted assignment"),
        (added_number, "object has no attribute or method"),
    ],
)
def test_refusals(function: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.jit.script(function)


def test_keyword_arguments_have_no_defaults() -> None:
    with pytest.raises(torch.jit.frontend.NotSupportedError, match="variable number of arguments"):
        torch.jit.script(keyword_default)


def wrong(x: int) -> int:
    return callee("text") + x


def callee(x: int) -> int:
    return deeper(x)


def deeper(x: int) -> int:
    return x - "text"  # type: ignore[operator]


def test_errors_say_who_called() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.jit.script(callee)
    assert "'deeper' is being compiled since it was called from 'callee'" in str(error.value)
