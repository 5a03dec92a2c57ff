"""Classes of torch.jit of which a program is given objects, and the readers of its graphs.

Nothing compiles to such graphs here, so nobody gives one: the classes are there to be asked for.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tritorch.jit._errors import refuse


def import_ir_module(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there yet: archives of TorchScript."""
    refuse("torch.import_ir_module")


def import_ir_module_from_buffer(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there yet: archives of TorchScript."""
    refuse("torch.import_ir_module_from_buffer")


def parse_ir(input: str, parse_tensor_constants: bool = False) -> NoReturn:
    """Not there yet: graphs from their text."""
    refuse("torch.parse_ir")


class _Given:
    """A class of which PyTorch gives objects; a program cannot make one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"torch._C.{type(self).__name__}: No constructor defined!")


# What TorchScript compiles to, and what runs it.
_GIVEN = {
    name: type(name, (_Given,), {"__module__": "torch", "__doc__": "Of TorchScript's graphs."})
    for name in [
        "AliasDb",
        "ArgumentSpec",
        "Block",
        "Capsule",
        "Code",
        "CompleteArgumentSpec",
        "ConcreteModuleType",
        "ConcreteModuleTypeBuilder",
        "DeepCopyMemoTable",
        "ExecutionPlan",
        "Gradient",
        "GraphExecutorState",
        "IODescriptor",
        "InterfaceType",
        "LiteScriptModule",
        "Node",
        "OperatorInfo",
        "ScriptClass",
        "ScriptClassFunction",
        "ScriptMethod",
        "ScriptModule",
        "ScriptModuleSerializer",
        "ScriptObject",
        "ScriptObjectProperty",
        "SerializationStorageContext",
        "StaticModule",
        "TracingState",
        "Use",
        "Value",
    ]
}
globals().update(_GIVEN)


class Graph:
    """A graph of TorchScript; torch.fx.Graph is another class."""

    def __init__(self) -> None:
        refuse("torch.Graph")


Graph.__module__ = "torch"


class ScriptFunction(_Given):
    """What `torch.jit.script` makes of a function in PyTorch; here nobody makes one."""


ScriptFunction.__module__ = "torch.jit"
