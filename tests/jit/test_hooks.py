"""Forward hooks of scripted modules: when they run, and what signatures they must have."""

import io
from typing import Any

import pytest

import tritorch as torch
from tritorch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.name = "inner"

    def forward(self, text: str) -> str:
        return text + "_forward"


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, text: str) -> str:
        return self.inner(text)


class Direct(Outer):
    def forward(self, text: str) -> str:
        return self.inner.forward(text)


def before(self: Any, input: tuple[str]) -> tuple[str]:
    return (self.name + "_" + input[0],)


def after(self: Any, input: tuple[str], output: str) -> str:
    return output + "_after_" + input[0]


def unannotated(self: Any, input: tuple[str]):  # type: ignore[no-untyped-def]
    return (input[0],)


def hooked() -> Inner:
    inner = Inner()
    inner.register_forward_pre_hook(before)
    inner.register_forward_hook(after)
    return inner


def test_hooks_run_where_a_module_is_called() -> None:
    expected = "inner_a_forward_after_inner_a"
    assert torch.jit.script(hooked())("a") == expected
    assert torch.jit.script(Outer(hooked()))("a") == expected


def test_hooks_do_not_run_where_forward_is_called() -> None:
    assert torch.jit.script(hooked()).forward("a") == "a_forward"
    assert torch.jit.script(Direct(hooked()))("a") == "a_forward"


def test_hooks_are_kept_in_archives() -> None:
    for module in (hooked(), Outer(hooked())):
        buffer = io.BytesIO()
        torch.jit.save(torch.jit.script(module), buffer)
        buffer.seek(0)
        assert torch.jit.load(buffer)("a") == "inner_a_forward_after_inner_a"


def test_a_pre_hook_says_what_it_returns() -> None:
    inner = Inner()
    inner.register_forward_pre_hook(unannotated)
    with pytest.raises(RuntimeError, match="is missing a return annotation"):
        torch.jit.script(inner)


def test_hooks_have_names_of_their_own() -> None:
    inner = Inner()
    inner.register_forward_hook(after)

    def forward(self: Any, input: tuple[str], output: str) -> str:
        return output

    inner.register_forward_hook(forward)
    with pytest.raises(RuntimeError, match="because a method or hook with that name"):
        torch.jit.script(inner)
