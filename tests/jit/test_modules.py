"""Modules in TorchScript: containers, properties, interfaces, listings, ScriptModule."""

from typing import Any

import pytest

import tritorch as torch
from tritorch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


@torch.jit.interface
class Unary(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Triple(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


class Length(nn.Module):
    def forward(self, x: int) -> int:
        return x


class ByInterface(nn.Module):
    part: Unary

    def __init__(self) -> None:
        super().__init__()
        self.part = Double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


class ByClass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.part(x)


def test_modules_of_an_interface_are_swapped() -> None:
    scripted = torch.jit.script(ByInterface())
    assert scripted(torch.ones(1)).item() == 2
    scripted.part = torch.jit.script(Triple())
    assert scripted(torch.ones(1)).item() == 3
    with pytest.raises(RuntimeError, match="is not compatible with interface"):
        scripted.part = torch.jit.script(Length())
    with pytest.raises(RuntimeError, match="with non-scripted module"):
        scripted.part = Triple()
    assert torch.jit.freeze(scripted.eval())(torch.ones(1)).item() == 3


def test_other_modules_are_swapped_by_one_of_their_type() -> None:
    scripted = torch.jit.script(ByClass())
    scripted.part = torch.jit.script(Double())
    with pytest.raises(RuntimeError, match="Expected a value of type '.*Double .*for field 'part'"):
        scripted.part = torch.jit.script(Triple())


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([Double(), Triple()])

    def forward(self, x: torch.Tensor, at: int) -> torch.Tensor:
        part: Unary = self.parts[at]
        return part.forward(x)


class Sliced(Chosen):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts[::-1]:
            x = part(x) + 1
        return x


class CustomList(nn.ModuleList):
    def __len__(self) -> int:
        return 7


class Containing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = CustomList([Double()])

    def forward(self) -> int:
        return len(self.parts)


def test_containers() -> None:
    assert torch.jit.script(Chosen())(torch.ones(1), 1).item() == 3
    assert torch.jit.script(Sliced())(torch.ones(1)).item() == 9
    assert torch.jit.script(Containing())() == 7


class Listing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.inner = nn.Linear(2, 2)

    def forward(self) -> tuple[list[str], int]:
        names: list[str] = []
        for name, _ in self.named_parameters():
            names.append(name)
        count = 0
        for _ in self.modules():
            count += 1
        return names, count


class WithProperty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2

    @property
    def size(self) -> int:
        return self.scale

    @size.setter
    def size(self, value: int) -> None:
        self.scale = value

    def forward(self, x: int) -> int:
        self.size = x
        return self.size + 1


class WithState(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def _save_to_state_dict(
        self, destination: dict[str, torch.Tensor], prefix: str, keep_vars: bool
    ) -> dict[str, torch.Tensor]:
        raise RuntimeError("called")


def test_what_python_shows_of_modules() -> None:
    assert torch.jit.script(Listing())() == (["weight", "inner.weight", "inner.bias"], 2)
    assert torch.jit.script(WithProperty())(5) == 6
    with pytest.raises(Exception, match="called"):
        torch.jit.script(WithState()).state_dict()


class Scripted(torch.jit.ScriptModule):
    def __init__(self) -> None:
        super().__init__()
        self.count = torch.jit.Attribute(0, int)
        self.define("def twice(self, x: int) -> int:\n    return x * 2")

    @torch.jit.script_method
    def forward(self, x: int) -> int:
        self.count += x
        return self.count


def test_script_modules_of_programs() -> None:
    module: Any = Scripted()
    assert [module(2), module(3), module.count, module.twice(4)] == [2, 5, 5, 8]
    module.count = 1
    assert module(1) == 2
    assert "def forward" in module.code


class Uninitialised(nn.Module):
    def __init__(self) -> None:
        pass


def test_a_module_without_init_is_refused() -> None:
    with pytest.raises(RuntimeError, match="has not been initialized, did you forget to call"):
        torch.jit.script(Uninitialised())
