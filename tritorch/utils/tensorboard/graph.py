"""A model's graph: the functions that it calls, which tensors go from where to where."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from tritorch.autograd import no_grad
from tritorch.core.scopes import Scope, set_back, sets
from tritorch.core.tensor import Tensor
from tritorch.overrides import TorchFunctionMode
from tritorch.trees.walk import tree_flatten


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


class _Recorder(TorchFunctionMode):
    """Notes each function's call as a node, below the modules that it is called in."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[Any] = []
        self.scopes: list[str] = []
        self.names: Counter[str] = Counter()
        self.sources: dict[int, str] = {}  # by the tensor's id
        self.alive: list[Tensor] = []  # so that no id comes twice

    def add(self, name: str, op: str, inputs: list[str], outputs: list[Tensor], about: str) -> None:
        """A node, which its outputs come from from now on."""
        name = "/".join([*self.scopes, name]) if "/" not in name else name
        self.names[name] += 1
        if self.names[name] > 1:
            name = f"{name}_{self.names[name] - 1}"
        attr = {"attr": AttrValue(s=about.encode())}
        if outputs:
            dims = [
                TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in out.shape])
                for out in outputs
            ]
            attr["_output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=dims))
        self.nodes.append(NodeDef(name=name, op=op, input=inputs, attr=attr))
        for out in outputs:
            self.sources[id(out)] = name
            self.alive.append(out)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        outputs = _tensors(result)
        inputs = [
            self.sources[id(x)] for x in _tensors((args, kwargs or {})) if id(x) in self.sources
        ]
        name = getattr(func, "__name__", str(func))
        if outputs and inputs and name != "__get__":
            options = {k: v for k, v in (kwargs or {}).items() if not isinstance(v, Tensor)}
            self.add(name, f"aten::{name}", inputs, outputs, str(options))
        return result


def _scopes(model: Any, recorder: _Recorder) -> Scope:
    """Within it, a call of a module below the model is a scope, `Linear[fc1]`."""
    handles: list[Any] = []

    def remove() -> None:
        for handle in handles:
            handle.remove()

    return Scope(set_back(remove), sets(_add_scopes, model, recorder, handles))


def _add_scopes(model: Any, recorder: _Recorder, handles: list[Any]) -> None:
    for path, module in model.named_modules():
        kind, last = type(module).__name__, path.rpartition(".")[2]
        scope = f"{kind}[{last}]" if path else kind
        enter = lambda *args, scope=scope: recorder.scopes.append(scope)
        leave = lambda *args: recorder.scopes.pop() and None
        handles.append(module.register_forward_pre_hook(enter, prepend=True))
        handles.append(module.register_forward_hook(leave, always_call=True))


def _evaluating(model: Any) -> Scope:
    return Scope(set_back(model.train, model.training), sets(model.train, False))


def graph(
    model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True
) -> tuple[Any, Any]:
    """The graph of `model(*args)` in evaluation mode, and where it ran."""
    args = args if isinstance(args, tuple) else (args,)
    recorder = _Recorder()
    for number, x in enumerate(_tensors(args)):
        recorder.add(f"input/x.{number + 1}", "IO Node", [], [x], "{}")
    for path, parameter in [*model.named_parameters(), *model.named_buffers()]:
        *modules, last = path.split(".")
        scope, inner = [type(model).__name__], model
        for part in modules:
            inner = getattr(inner, part)
            scope.append(f"{type(inner).__name__}[{part}]")
        recorder.add("/".join([*scope, last]), "prim::GetAttr", [], [parameter], "{}")
    with _evaluating(model), no_grad(), _scopes(model, recorder), recorder:
        result = model(*args)
    for number, x in enumerate(_tensors(result)):
        sources = [recorder.sources[id(x)]] if id(x) in recorder.sources else []
        recorder.add(f"output/output.{number + 1}", "IO Node", sources, [x], "{}")
    definition = GraphDef(node=recorder.nodes, versions=VersionDef(producer=22))
    if verbose:
        print(definition)
    where = StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")])
    return definition, RunMetadata(step_stats=where)
