"""Classes of torch.jit of which a program is given objects, and the readers of its graphs.

Nothing compiles to such graphs here, so nobody gives one: the classes are there to be asked for.
"""

from __future__ import annotations

from typing import Any


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
    ]
}
globals().update(_GIVEN)
