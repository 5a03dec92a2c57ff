"""What the inputs and outputs of an exported graph are."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.core.tensor import Tensor

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature",
    "InputKind", "InputSpec", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument",
    "SymIntArgument", "TensorArgument",
]  # fmt: skip


@dataclasses.dataclass
class TensorArgument:
    """A tensor: the name of its node."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """A token that orders effects."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A dynamic integer."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A dynamic float."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A dynamic condition."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a class that a program defines."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A value that is as it was when the program was exported."""

    name: str
    value: int | float | bool | str | None


_NAMED = (
    TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument, CustomObjArgument,
    TokenArgument,
)  # fmt: skip
ArgumentSpec = Any


class InputKind(enum.Enum):
    """What an input is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """What an output is."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


def _require_argument(arg: Any) -> None:
    if not isinstance(arg, (*_NAMED, ConstantArgument)):
        raise AssertionError(f"expected valid arg type, got {type(arg)}")


@dataclasses.dataclass
class InputSpec:
    """One input: its kind, its node, and the name of the parameter or buffer that it is."""

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")
        _require_argument(self.arg)

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclasses.dataclass
class OutputSpec:
    """One output: its kind, its node, and the name of what it is written to."""

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __post_init__(self) -> None:
        _require_argument(self.arg)

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """Which outputs are gradients, and of what."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """All inputs and outputs, in the graph's order: parameters, buffers and constants before what
    the program is given, and what is written before what it returns."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple(s.target for s in self.input_specs if s.kind is kind and s.target is not None)

    def _inputs(self, kind: InputKind) -> Mapping[str, str]:
        return _fixed(
            (s.arg.name, s.target)
            for s in self.input_specs
            if s.kind is kind and isinstance(s.target, str)
        )

    def _outputs(self, kind: OutputKind) -> Mapping[str, str]:
        return _fixed(
            (s.arg.name, s.target)
            for s in self.output_specs
            if s.kind is kind and isinstance(s.target, str)
        )

    @property
    def parameters(self) -> Collection[str]:
        """The names of parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> Collection[str]:
        """The names of buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> Collection[str]:
        """The names of buffers that are in no state dict."""
        return tuple(
            s.target
            for s in self.input_specs
            if s.kind is InputKind.BUFFER and s.persistent is False and s.target is not None
        )

    @property
    def lifted_tensor_constants(self) -> Collection[str]:
        """The names of tensors that are neither parameters nor buffers."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> Collection[str]:
        """The names of objects."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> Collection[Any]:
        """What the program is given: names of nodes, and constants."""
        return tuple(
            _seen(s.arg, "input") for s in self.input_specs if s.kind is InputKind.USER_INPUT
        )

    @property
    def user_outputs(self) -> Collection[Any]:
        """What the program returns: names of nodes, and constants."""
        kinds = OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT
        return tuple(_seen(s.arg, "output") for s in self.output_specs if s.kind in kinds)

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """The parameter of each node that is one."""
        return self._inputs(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """The buffer of each node that is one."""
        return self._inputs(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """The constant of each node that is one."""
        return self._inputs(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """The object of each node that is one."""
        return self._inputs(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """The buffer that each output is written to."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """The parameter that each output is written to."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """The input that each output is written to."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """Which outputs are gradients; None without a loss."""
        losses = [s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT]
        if len(losses) > 1:
            raise AssertionError("multiple LOSS_OUTPUT specs found")
        if not losses:
            return None
        return ExportBackwardSignature(
            dict(self._outputs(OutputKind.GRADIENT_TO_PARAMETER)),
            dict(self._outputs(OutputKind.GRADIENT_TO_USER_INPUT)),
            losses[0],
        )

    @property
    def assertion_dep_token(self) -> Mapping[int, str] | None:
        """None: assertions are nodes."""
        return None

    @property
    def input_tokens(self) -> Collection[str]:
        """Tokens that come in."""
        return tuple(s.arg.name for s in self.input_specs if s.kind is InputKind.TOKEN)

    @property
    def output_tokens(self) -> Collection[str]:
        """Tokens that go out."""
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Renames a node."""
        for name in (old, new):
            if not isinstance(name, str):
                raise AssertionError(f"expected a name, got {type(name)}")
        specs: list[Any] = [*self.output_specs, *self.input_specs]
        for spec in specs:
            if isinstance(spec.arg, _NAMED) and spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs: bool = False) -> Callable[[Any, Any, Any], None]:
        """A hook for a graph's module, which keeps the names of outputs up to date."""

        def replaced(old: Any, new: Any, user: Any) -> None:
            if user.op == "output" or (replace_inputs and old.op == "placeholder"):
                self.replace_all_uses(old.name, new)

        return replaced

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def _seen(arg: Any, what: str) -> Any:
    if isinstance(arg, ConstantArgument):
        return arg.value
    if isinstance(arg, _NAMED):
        return arg.name
    raise RuntimeError(f"{arg} is not a valid user {what}")


def _fixed(items: Iterable[tuple[str, Any]]) -> Mapping[str, Any]:
    return MappingProxyType(dict(items))


_OF_NUMBERS = {SymInt: SymIntArgument, SymFloat: SymFloatArgument, SymBool: SymBoolArgument}


def argument_of(node: Any) -> ArgumentSpec:
    """What an input or an output of a graph is."""
    if isinstance(node, (int, bool, float, type(None), str)):
        return ConstantArgument("", node)
    value = node.meta["val"]
    if isinstance(value, Tensor):
        return TensorArgument(node.name)
    for kind, made in _OF_NUMBERS.items():
        if isinstance(value, kind):
            return made(node.name)
    if isinstance(value, (int, bool, str, float, type(None))):
        return ConstantArgument(node.name, value)
    raise AssertionError(f"{node} is a {type(value).__name__}, which no signature has")
