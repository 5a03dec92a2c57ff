"""An exported program as the JSON of a file."""

from __future__ import annotations

import math
import operator
from typing import Any

from tritorch.arrays.symbolic import SymBool, SymFloat, SymInt
from tritorch.core.device import PretendedDevice, device as Device
from tritorch.core.dtype import dtype
from tritorch.core.layout import layout, memory_format
from tritorch.core.tensor import Tensor
from tritorch.export._serde import OPSET, SCHEMA
from tritorch.export._serde.codes import FORMATS, LAYOUTS, NAMES, PARAMETERS, SCALAR_TYPES
from tritorch.export._serde.expressions import name_of, written
from tritorch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from tritorch.fx.node import Node
from tritorch.ops.record.overloads import OpOverload
from tritorch.schema.tensor_type import TensorType
from tritorch.schema.types import ListType, OptionalType
from tritorch.utils._pytree import treespec_dumps
from tritorch.version import __version__ as VERSION

_SYMBOLIC: dict[type, tuple[str, str, str]] = {
    SymInt: ("as_sym_int", "sym_int_values", "as_int"),
    SymFloat: ("as_sym_float", "sym_float_values", "as_float"),
    SymBool: ("as_sym_bool", "sym_bool_values", "as_bool"),
}
_ARGUMENTS: dict[type, str] = {
    SymIntArgument: "as_sym_int", SymFloatArgument: "as_sym_float",
    SymBoolArgument: "as_sym_bool",
}  # fmt: skip


class SerializeError(RuntimeError):
    """A program has what files cannot hold."""


def plain_float(value: float) -> Any:
    """A float as JSON has it."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if math.isnan(value) else value


def number(value: Any) -> dict[str, Any]:
    """A size, or a number that may be open."""
    for kind, (_, _, constant) in _SYMBOLIC.items():
        if isinstance(value, kind):
            number: Any = value
            made: dict[str, Any] = {"expr_str": written(value), "hint": None}
            if number.value is not None:
                made["hint"] = {constant: number.value}
            return {"as_expr": made}
    if isinstance(value, bool):
        return {"as_bool": value}
    return {"as_float": plain_float(value)} if isinstance(value, float) else {"as_int": int(value)}


def device_of(value: Any) -> dict[str, Any]:
    """A device."""
    return {"type": value.type, "index": value.index}


def tensor_meta(tensor: Tensor) -> dict[str, Any]:
    """What a tensor is like."""
    fake = tensor._array
    strides = getattr(fake, "strides", None) if hasattr(fake, "offset") else tensor.stride()
    offset = tensor.storage_offset()
    return {
        "dtype": SCALAR_TYPES[tensor.dtype],
        "sizes": [number(n) for n in tensor.shape],
        "requires_grad": tensor.requires_grad,
        "device": device_of(tensor.device),
        "strides": [number(n) for n in (tensor.stride() if strides is None else strides)],
        "storage_offset": number(offset),
        "layout": LAYOUTS[tensor.layout],
    }


class GraphWriter:
    """One graph, and those that its operators run."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.values: dict[str, dict[str, Any]] = {
            "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
            "custom_obj_values": {}, "sym_float_values": {},
        }  # fmt: skip
        self.nodes: list[dict[str, Any]] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def written(self) -> dict[str, Any]:
        """The graph."""
        single = False
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.inputs.append(self._input(node))
            elif node.op == "output":
                returned = node.args[0]
                single = isinstance(returned, Node)
                returned = (returned,) if single else returned
                self.outputs = [self.argument(x) for x in returned]
            elif node.op == "call_function" and node.target is not operator.getitem:
                self.nodes.append(self._node(node))
        return {
            "inputs": self.inputs, "outputs": self.outputs, "nodes": self.nodes, **self.values,
            "is_single_tensor_return": single,
        }  # fmt: skip

    def _input(self, node: Node) -> dict[str, Any]:
        value = node.meta["val"]
        if isinstance(value, (Tensor, SymInt, SymFloat, SymBool)):
            return self._output(node.name, value)
        return self.argument(value)

    def _output(self, name: str, value: Any) -> dict[str, Any]:
        """A value of a node, noted with what it is like."""
        if isinstance(value, Tensor):
            self.values["tensor_values"][name] = tensor_meta(value)
            return {"as_tensor": {"name": name}}
        for kind, (argument, table, _) in _SYMBOLIC.items():
            if isinstance(value, kind):
                self.values[table][name] = number(value)
                return {argument: {"as_name": name}}
        if isinstance(value, (int, float, bool)):
            kind = {int: SymInt, float: SymFloat, bool: SymBool}[type(value)]
            argument, table, _ = _SYMBOLIC[kind]
            self.values[table][name] = number(value)
            return {argument: {"as_name": name}}
        if value is None:
            return {"as_none": True}
        raise SerializeError(f"{name} is a {type(value).__name__}, which no file holds")

    # ---- nodes --------------------------------------------------------------------------------

    def _node(self, node: Node) -> dict[str, Any]:
        target = node.target
        value = node.meta.get("val")
        if isinstance(target, OpOverload):
            name = f"torch.ops.{target}"
            inputs = self._by_schema(target, node)
            outputs = self._outputs(node, target._schema, value)
        elif target in NAMES:
            name = NAMES[target]
            names = PARAMETERS[len(node.args)]
            inputs = [
                {"name": n, "arg": self.argument(x), "kind": 1}
                for n, x in zip(names, node.args, strict=True)
            ]
            outputs = [self._output(node.name, value)]
        elif getattr(target, "namespace", "") == "higher_order":
            return self._of_functions(node)
        else:
            raise SerializeError(f"{target} is no operator that a file has")
        if name.startswith("torch.ops.tritorch."):
            raise SerializeError(f"{name} has no name in ATen: PyTorch could not run it")
        return {
            "target": name, "inputs": inputs, "outputs": outputs, "metadata": _metadata(node),
            "is_hop_single_tensor_return": None, "name": node.name,
        }  # fmt: skip

    def _of_functions(self, node: Node) -> dict[str, Any]:
        given = [{"name": "", "arg": self.argument(x), "kind": 1} for x in node.args]
        given += [{"name": n, "arg": self.argument(x), "kind": 2} for n, x in node.kwargs.items()]
        values = node.meta["val"]
        outputs = [self._item(node, i, v) for i, v in enumerate(values)]
        return {
            "target": f"torch.ops.higher_order.{node.target.__name__}",
            "inputs": given, "outputs": outputs, "metadata": _metadata(node),
            "is_hop_single_tensor_return": False, "name": node.name,
        }  # fmt: skip

    def _by_schema(self, target: OpOverload, node: Node) -> list[dict[str, Any]]:
        found = []
        for place, argument in enumerate(target._schema.arguments):
            if argument.name in node.kwargs:
                value, kind = node.kwargs[argument.name], 2
            elif not argument.kwarg_only and place < len(node.args):
                value, kind = node.args[place], 1
            else:
                continue
            arg = self.argument(value, argument.type)
            found.append({"name": argument.name, "arg": arg, "kind": kind})
        return found

    def _outputs(self, node: Node, schema: Any, value: Any) -> list[Any]:
        returns = schema.returns
        if not returns:
            return []
        if len(returns) == 1 and isinstance(returns[0].type, ListType):
            if isinstance(returns[0].type.getElementType(), TensorType):
                items = [self._item(node, i, v)["as_tensor"] for i, v in enumerate(value)]
                return [{"as_tensors": items}]
        if len(returns) == 1:
            return [self._output(node.name, value)]
        values = value if value is not None else [None] * len(returns)
        return [self._item(node, i, v) for i, v in enumerate(values)]

    def _item(self, node: Node, place: int, value: Any) -> dict[str, Any]:
        """One of several results: the node that takes it is left out."""
        if value is None:
            return {"as_none": True}
        takers = [
            user for user in node.users
            if user.target is operator.getitem and user.args[1] == place
        ]  # fmt: skip
        name = takers[0].name if takers else f"{node.name}_unused_{place}"
        return self._output(name, value)

    # ---- arguments ----------------------------------------------------------------------------

    def argument(self, value: Any, kind: Any = None) -> dict[str, Any]:
        """An argument; kind: its type in the schema."""
        if isinstance(kind, OptionalType):
            kind = kind.getElementType()
        if value is None:
            return {"as_none": True}
        if isinstance(value, Node):
            return self._of_node(value)
        if isinstance(value, (list, tuple)):
            return self._of_list(list(value), kind)
        return _constant(value)

    def _of_node(self, node: Node) -> dict[str, Any]:
        if node.op == "get_attr":
            inner = getattr(self.module, node.target)
            return {"as_graph": {"name": node.target, "graph": GraphWriter(inner).written()}}
        value = node.meta.get("val")
        for kind, (argument, _, _) in _SYMBOLIC.items():
            if isinstance(value, kind):
                return {argument: {"as_name": node.name}}
        if isinstance(value, (int, float, bool)):
            return {{int: "as_sym_int", float: "as_sym_float", bool: "as_sym_bool"}[type(value)]:
                    {"as_name": node.name}}  # fmt: skip
        if node.target is operator.getitem:
            source: Any = node.args[0]
            first = next(
                u for u in source.users
                if u.target is operator.getitem and u.args[1] == node.args[1]
            )  # fmt: skip
            return {"as_tensor": {"name": first.name}}
        return {"as_tensor": {"name": node.name}}

    def _of_list(self, values: list[Any], kind: Any) -> dict[str, Any]:
        inner = kind.getElementType() if isinstance(kind, ListType) else None
        if isinstance(inner, OptionalType) and isinstance(inner.getElementType(), TensorType):
            return {"as_optional_tensors": [
                {"as_none": True} if x is None else self._of_node(x) for x in values
            ]}  # fmt: skip
        if not values:
            return {_EMPTY.get(type(inner).__name__, "as_ints"): []}
        made = [self.argument(x) for x in values]
        keys = {next(iter(each)) for each in made}
        if keys == {"as_tensor"}:
            return {"as_tensors": [each["as_tensor"] for each in made]}
        for single, several, constant in (
            ("as_sym_int", "as_sym_ints", "as_int"), ("as_sym_float", "as_sym_floats", "as_float"),
            ("as_sym_bool", "as_sym_bools", "as_bool"),
        ):  # fmt: skip
            if single in keys and keys <= {single, constant}:
                return {several: [x.get(single, x) for x in made]}
        if keys == {"as_int", "as_float"}:
            return {"as_floats": [plain_float(float(x)) for x in values]}
        if len(keys) == 1 and keys <= {"as_int", "as_float", "as_bool", "as_string"}:
            key = keys.pop()
            return {f"{key}s": [each[key] for each in made]}
        if keys <= {"as_tensor", "as_none"}:
            return {"as_optional_tensors": made}
        raise SerializeError(f"{values} is a list that no file has")


_EMPTY = {
    "TensorType": "as_tensors", "FloatType": "as_floats", "BoolType": "as_bools",
    "StringType": "as_strings",
}  # fmt: skip


def _constant(value: Any) -> dict[str, Any]:
    if isinstance(value, (bool, int, float)):
        return number(value)
    if isinstance(value, str):
        return {"as_string": value}
    if isinstance(value, complex):
        return {"as_complex": {"real": plain_float(value.real), "imag": plain_float(value.imag)}}
    if isinstance(value, dtype):
        return {"as_scalar_type": SCALAR_TYPES[value]}
    if isinstance(value, (Device, PretendedDevice)):
        return {"as_device": device_of(value)}
    if isinstance(value, memory_format):
        return {"as_memory_format": FORMATS[value]}
    if isinstance(value, layout):
        return {"as_layout": LAYOUTS[value]}
    if isinstance(value, OpOverload):
        return {"as_operator": f"torch.ops.{value}"}
    raise SerializeError(f"{value!r} is a {type(value).__name__}, which no file holds")


def _metadata(node: Node) -> dict[str, str]:
    found = {}
    if node.meta.get("stack_trace"):
        found["stack_trace"] = node.meta["stack_trace"]
    modules = node.meta.get("nn_module_stack") or {}
    if modules:
        found["nn_module_stack"] = ";".join(
            f"{key},{name},{kind.replace('tritorch.', 'torch.', 1)}"
            for key, (name, kind) in modules.items()
        )
    if node.meta.get("torch_fn"):
        found["torch_fn"] = ";".join(node.meta["torch_fn"])
    return found


# ---- signatures ----------------------------------------------------------------------------------


def _argument(spec: Any) -> dict[str, Any]:
    if isinstance(spec, TensorArgument):
        return {"as_tensor": {"name": spec.name}}
    if isinstance(spec, ConstantArgument):
        return {"as_none": True} if spec.value is None else _constant(spec.value)
    return {_ARGUMENTS[type(spec)]: {"as_name": spec.name}}


_INPUTS = {
    InputKind.PARAMETER: ("parameter", "parameter_name"),
    InputKind.BUFFER: ("buffer", "buffer_name"),
    InputKind.CONSTANT_TENSOR: ("tensor_constant", "tensor_constant_name"),
}
_OUTPUTS = {
    OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
    OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
    OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name"),
}


def _input_spec(spec: Any) -> dict[str, Any]:
    if spec.kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, ConstantArgument):
            return {"constant_input": {"name": spec.arg.name, "value": _argument(spec.arg)}}
        return {"user_input": {"arg": _argument(spec.arg)}}
    key, name = _INPUTS[spec.kind]
    made = {"arg": {"name": spec.arg.name}, name: spec.target}
    if spec.kind is InputKind.BUFFER:
        made["persistent"] = spec.persistent
    return {key: made}


def _output_spec(spec: Any) -> dict[str, Any]:
    if spec.kind is OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": _argument(spec.arg)}}
    if spec.kind is OutputKind.LOSS_OUTPUT:
        return {"loss_output": {"arg": {"name": spec.arg.name}}}
    key, name = _OUTPUTS[spec.kind]
    return {key: {"arg": {"name": spec.arg.name}, name: spec.target}}


def _call_entry(entry: Any) -> dict[str, Any]:
    signature = entry.signature
    if signature is None:
        return {"fqn": entry.fqn, "signature": None}
    return {"fqn": entry.fqn, "signature": {
        "inputs": [_argument(x) for x in signature.inputs],
        "outputs": [_argument(x) for x in signature.outputs],
        "in_spec": treespec_dumps(signature.in_spec, 1),
        "out_spec": treespec_dumps(signature.out_spec, 1),
        "forward_arg_names": signature.forward_arg_names,
    }}  # fmt: skip


def _end(value: float) -> int | None:
    return None if math.isinf(value) else int(value)


def program(exported: Any) -> dict[str, Any]:
    """A program as JSON."""
    signature = exported.graph_signature
    return {
        "graph_module": {
            "graph": GraphWriter(exported.graph_module).written(),
            "signature": {
                "input_specs": [_input_spec(x) for x in signature.input_specs],
                "output_specs": [_output_spec(x) for x in signature.output_specs],
            },
            "module_call_graph": [_call_entry(x) for x in exported.module_call_graph],
            "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": OPSET,
        "range_constraints": {
            name_of(key): {"min_val": _end(limits.lower), "max_val": _end(limits.upper)}
            for key, limits in exported.range_constraints.items()
        },
        "schema_version": SCHEMA,
        "verifiers": [exported.dialect], "torch_version": VERSION, "guards_code": [],
    }  # fmt: skip
