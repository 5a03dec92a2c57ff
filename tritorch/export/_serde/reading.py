"""An exported program from the JSON of a file."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tritorch.compat.torch_private._ops import ops
from tritorch.compat.torch_private._subclasses.fake_tensor import FakeTensorMode
from tritorch.core.device import device as Device
from tritorch.core.tensor import Tensor
from tritorch.export._environment import ExportEnv, Range
from tritorch.export._serde import SCHEMA, codes
from tritorch.export._serde.expressions import Reader
from tritorch.export._serde.writing import SerializeError
from tritorch.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
)
from tritorch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node
from tritorch.nn.modules.module import Module
from tritorch.ops.record.overloads import OpOverload
from tritorch.ops.shape.factory import empty_strided
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import ListType
from tritorch.utils._pytree import treespec_loads

_SYMBOLIC = {
    "as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument,
    "as_sym_bool": SymBoolArgument,
}  # fmt: skip


def as_float(value: Any) -> float:
    """A float of JSON."""
    return float(value)  # "Infinity" and "NaN" too


def operator_named(name: str) -> Any:
    """The function that a node calls."""
    if name in codes.ON_NUMBERS:
        return codes.ON_NUMBERS[name]
    if not name.startswith("torch.ops."):
        raise SerializeError(f"a file's graph calls {name}: no operator")
    found: Any = ops
    for part in name.removeprefix("torch.ops.").split("."):
        if not hasattr(found, part):
            raise SerializeError(
                f"a file's graph calls {name}, which is not defined here: an operator that a "
                "program defines has to be imported before the file is loaded"
            )
        found = getattr(found, part)
    return found


class GraphReader:
    """One graph, and those that its operators run."""

    def __init__(self, data: dict[str, Any], symbols: Reader, fakes: FakeTensorMode) -> None:
        self.data, self.symbols, self.fakes = data, symbols, fakes
        self.graph, self.root = Graph(), Module()
        self.nodes: dict[str, Node] = {}

    def read(self, signature: Any = None) -> GraphModule:
        """The graph's module; signature: what the inputs are, of the outermost graph."""
        specs = signature["input_specs"] if signature else [None] * len(self.data["inputs"])
        for argument, spec in zip(self.data["inputs"], specs, strict=True):
            self._input(argument, spec)
        for node in self.data["nodes"]:
            self._node(node)
        returned = [self.argument(x) for x in self.data["outputs"]]
        single = self.data.get("is_single_tensor_return")
        self.graph.output(returned[0] if single else tuple(returned))
        return GraphModule(self.root, self.graph, "GraphModule")

    def _input(self, argument: dict[str, Any], spec: Any) -> None:
        ((kind, value),) = argument.items()
        name = value.get("name", value.get("as_name")) if isinstance(value, dict) else None
        if name is None:
            said = spec["constant_input"]["name"] if spec and "constant_input" in spec else "input"
            node = self.graph.create_node("placeholder", said, name=said)
            node.meta["val"] = None if kind == "as_none" else value
            return
        node = self.graph.create_node("placeholder", name, name=name)
        self._know(name, node)

    def _know(self, name: str, node: Node) -> None:
        """Says which node a value is of, and what it is like."""
        self.nodes[name] = node
        if "val" not in node.meta:
            node.meta["val"] = self.value(name)

    def value(self, name: str) -> Any:
        """A description of a value."""
        data = self.data
        if name in data["tensor_values"]:
            return self.tensor(data["tensor_values"][name])
        for table in ("sym_int_values", "sym_float_values", "sym_bool_values"):
            if name in data.get(table, {}):
                return self.number(data[table][name])
        return None

    def number(self, value: dict[str, Any]) -> Any:
        """A number that may be open."""
        ((kind, said),) = value.items()
        if kind != "as_expr":
            return as_float(said) if kind == "as_float" else said
        hint = said.get("hint") or {}
        try:
            return self.symbols.read(said["expr_str"], next(iter(hint.values()), None))
        except ValueError:
            return None

    def tensor(self, meta: dict[str, Any]) -> Tensor:
        """A tensor without memory."""
        sizes = [self.number(n) for n in meta["sizes"]]
        strides = [self.number(n) for n in meta["strides"]]
        with self.fakes:
            made = empty_strided(
                sizes, strides, dtype=codes.OF_SCALAR_TYPE[meta["dtype"]],
                device=Device(meta["device"]["type"]),
            )  # fmt: skip
            return made.requires_grad_(meta["requires_grad"]) if meta["requires_grad"] else made

    # ---- nodes --------------------------------------------------------------------------------

    def _node(self, data: dict[str, Any]) -> None:
        target = operator_named(data["target"])
        args, kwargs = self._arguments(data, target)
        name = data.get("name") or _name(data)
        if name in self.nodes:
            name = None
        node = self.graph.create_node("call_function", target, args, kwargs, name=name)
        node.meta.update(_metadata(data["metadata"]))
        self._outputs(data["outputs"], node, target)

    def _arguments(self, data: dict[str, Any], target: Any) -> tuple[Any, Any]:
        schema = target._schema if isinstance(target, OpOverload) else None
        named = {a.name for a in schema.arguments if a.kwarg_only} if schema else set()
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in data["inputs"]:
            value = self.argument(each["arg"])
            by_name = each.get("kind") == 2 or (each.get("kind") is None and each["name"] in named)
            if by_name or (schema and len(args) < _place(schema, each["name"])):
                kwargs[each["name"]] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    def _outputs(self, outputs: list[Any], node: Node, target: Any) -> None:
        if not outputs:
            return
        schema = getattr(target, "_schema", None)
        ((kind, value),) = outputs[0].items()
        functional = schema is None and getattr(target, "namespace", "") == "higher_order"
        listed = schema is not None and len(schema.returns) == 1 and _is_tensors(schema.returns[0])
        if kind == "as_tensors" and (listed or len(outputs) == 1):
            names = [each["name"] for each in value]
        elif len(outputs) == 1 and not functional:
            if kind != "as_none":
                self._know(value.get("name", value.get("as_name")), node)
            return
        else:
            names = [_output_name(each) for each in outputs]
        values: list[Any] = []
        for place, each in enumerate(names):
            if each is None:
                values.append(None)
                continue
            item = self.graph.create_node(
                "call_function", operator.getitem, (node, place), name=each
            )
            self._know(each, item)
            values.append(item.meta["val"])
        node.meta["val"] = values if listed else tuple(values)
        for each in names:  # those that nobody takes go
            if each is not None and "_unused_" in each:
                self.graph.erase_node(self.nodes.pop(each))

    def argument(self, data: dict[str, Any]) -> Any:
        """An argument."""
        ((kind, value),) = data.items()
        if kind == "as_none":
            return None
        if kind in ("as_tensor", "as_custom_obj"):
            return self.nodes[value["name"]]
        if kind in _SYMBOLIC:
            return self._number(value)
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._number(x) for x in value]
        if kind == "as_tensors":
            return [self.nodes[x["name"]] for x in value]
        if kind == "as_nested_tensors":
            return [[self.nodes[x["name"]] for x in row] for row in value]
        if kind == "as_optional_tensors":
            return [self._optional(x) for x in value]
        if kind == "as_optional_tensor":
            return self._optional(value)
        if kind == "as_graph":
            inner = GraphReader(value["graph"], self.symbols, self.fakes).read()
            setattr(self.root, value["name"], inner)
            return self.graph.create_node("get_attr", value["name"], name=value["name"])
        return _constant(kind, value)

    def _number(self, data: dict[str, Any]) -> Any:
        ((kind, value),) = data.items()
        return self.nodes[value] if kind == "as_name" else value

    def _optional(self, data: dict[str, Any]) -> Any:
        return None if "as_none" in data else self.nodes[data["as_tensor"]["name"]]


def _constant(kind: str, value: Any) -> Any:
    if kind == "as_float":
        return as_float(value)
    if kind == "as_floats":
        return [as_float(x) for x in value]
    if kind == "as_float_lists":
        return [[as_float(x) for x in row] for row in value]
    if kind == "as_complex":
        return complex(as_float(value["real"]), as_float(value["imag"]))
    if kind == "as_scalar_type":
        return codes.OF_SCALAR_TYPE[value]
    if kind == "as_memory_format":
        return codes.OF_FORMAT[value]
    if kind == "as_layout":
        return codes.OF_LAYOUT[value]
    if kind == "as_device":
        return Device(value["type"], value["index"])
    if kind == "as_operator":
        return operator_named(value)
    if kind in ("as_int", "as_ints", "as_string", "as_strings", "as_bool", "as_bools",
                "as_int_lists"):  # fmt: skip
        return value
    raise SerializeError(f"{kind} is an argument that is not read")


def _place(schema: Any, name: str) -> int:
    return next((i for i, a in enumerate(schema.arguments) if a.name == name), 0)


def _is_tensors(returned: Any) -> bool:
    kind = returned.type
    return isinstance(kind, ListType) and isinstance(kind.getElementType(), TensorType)


def _output_name(data: dict[str, Any]) -> str | None:
    ((kind, value),) = data.items()
    return None if kind == "as_none" else value.get("name", value.get("as_name"))


def _name(data: dict[str, Any]) -> str | None:
    return _output_name(data["outputs"][0]) if len(data["outputs"]) == 1 and isinstance(
        next(iter(data["outputs"][0].values())), dict
    ) else None  # fmt: skip


def _metadata(data: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "stack_trace" in data:
        found["stack_trace"] = data["stack_trace"]
    modules = {}
    for entry in filter(None, data.get("nn_module_stack", "").split(";")):
        key, name, kind = entry.split(",", 2)
        modules[key] = (name, kind)
    found["nn_module_stack"] = {
        key: entry for key, entry in modules.items() if not key.startswith("_empty_nn_module")
    }
    if "torch_fn" in data:
        found["torch_fn"] = tuple(data["torch_fn"].split(";"))
    return found


# ---- signatures ----------------------------------------------------------------------------------


def _argument(data: dict[str, Any]) -> Any:
    ((kind, value),) = data.items()
    if kind == "as_tensor":
        return TensorArgument(value["name"])
    if kind in _SYMBOLIC:
        if "as_name" in value:
            return _SYMBOLIC[kind](value["as_name"])
        return ConstantArgument("", next(iter(value.values())))
    return ConstantArgument("", None if kind == "as_none" else _constant(kind, value))


_INPUTS = {
    "parameter": (InputKind.PARAMETER, "parameter_name"),
    "buffer": (InputKind.BUFFER, "buffer_name"),
    "tensor_constant": (InputKind.CONSTANT_TENSOR, "tensor_constant_name"),
}
_OUTPUTS = {
    "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
    "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
    "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
    "gradient_to_parameter": (OutputKind.GRADIENT_TO_PARAMETER, "parameter_name"),
    "gradient_to_user_input": (OutputKind.GRADIENT_TO_USER_INPUT, "user_input_name"),
}


def _input_spec(data: dict[str, Any]) -> InputSpec:
    ((kind, value),) = data.items()
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, _argument(value["arg"]), None)
    if kind == "constant_input":
        said = _argument(value["value"])
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(value["name"], said.value), None)
    if kind not in _INPUTS:
        raise SerializeError(f"an input of the kind {kind} is not read")
    made, name = _INPUTS[kind]
    return InputSpec(
        made, TensorArgument(value["arg"]["name"]), value[name], value.get("persistent")
    )


def _output_spec(data: dict[str, Any]) -> OutputSpec:
    ((kind, value),) = data.items()
    if kind == "user_output":
        return OutputSpec(OutputKind.USER_OUTPUT, _argument(value["arg"]), None)
    if kind == "loss_output":
        return OutputSpec(OutputKind.LOSS_OUTPUT, TensorArgument(value["arg"]["name"]), None)
    if kind not in _OUTPUTS:
        raise SerializeError(f"an output of the kind {kind} is not read")
    made, name = _OUTPUTS[kind]
    return OutputSpec(made, TensorArgument(value["arg"]["name"]), value[name])


def _call_entry(data: dict[str, Any]) -> ModuleCallEntry:
    said = data.get("signature")
    if said is None:
        return ModuleCallEntry(data["fqn"])
    return ModuleCallEntry(data["fqn"], ModuleCallSignature(
        [_argument(x) for x in said["inputs"]], [_argument(x) for x in said["outputs"]],
        treespec_loads(said["in_spec"]), treespec_loads(said["out_spec"]),
        said.get("forward_arg_names"),
    ))  # fmt: skip


def _ranges(data: dict[str, Any]) -> dict[str, tuple[float, float]]:
    return {
        name: (-math.inf if each["min_val"] is None else each["min_val"],
               math.inf if each["max_val"] is None else each["max_val"])
        for name, each in data.items()
    }  # fmt: skip


def program(
    data: dict[str, Any],
    state: dict[str, Any],
    constants: dict[str, Any],
    inputs: Sequence[Any] | None,
) -> ExportedProgram:
    """The program of a file's JSON."""
    major = data["schema_version"]["major"]
    if major != SCHEMA["major"]:
        raise SerializeError(
            f"Serialized schema version {data['schema_version']} does not match our current schema "
            f"version {SCHEMA}."
        )
    ranges = _ranges(data["range_constraints"])
    env = ExportEnv()
    fakes = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env, static_shapes=True)
    symbols = Reader(env, ranges)
    module = data["graph_module"]
    read = GraphReader(module["graph"], symbols, fakes)
    made = read.read(module["signature"])
    signature = ExportGraphSignature(
        [_input_spec(x) for x in module["signature"]["input_specs"]],
        [_output_spec(x) for x in module["signature"]["output_specs"]],
    )
    limits: dict[Any, Any] = {}
    for name, (low, high) in ranges.items():
        number = symbols.symbols.get(name)
        limits[number if number is not None else name] = Range(low, high)
    exported = ExportedProgram(
        made, made.graph, signature, state, limits,
        [_call_entry(x) for x in module["module_call_graph"]],
        tuple(inputs) if inputs else None, constants,
    )  # fmt: skip
    exported.validate()
    return exported
