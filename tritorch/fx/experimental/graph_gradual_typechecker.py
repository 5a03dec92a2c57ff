"""Types of tensors by their sizes, checked and inferred node by node; some may stay unknown."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

from tritorch import nn
from tritorch.core.tensor import Tensor
from tritorch.fx._naming import public
from tritorch.fx.experimental.refinement_types import Equality
from tritorch.fx.experimental.unification import Var
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.node import Node, map_arg
from tritorch.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

_INFERENCE_RULES: dict[Any, Callable[..., Any]] = {}
_REFINEMENT_RULES: dict[Any, Callable[..., Any]] = {}
_RULES: dict[Any, Callable[..., Any]] = {}

__all__ = [
    "GraphTypeChecker", "Refine", "adaptiveavgpool2d_check", "adaptiveavgpool2d_inference_rule",
    "add_inference_rule", "all_eq", "bn2d_inference_rule", "broadcast_types",
    "calculate_out_dimension", "conv2d_inference_rule", "conv_refinement_rule", "conv_rule",
    "element_wise_eq", "expand_to_tensor_dim", "first_two_eq", "flatten_check",
    "flatten_inference_rule", "flatten_refinement_rule", "get_attr_inference_rule",
    "get_greatest_upper_bound", "get_parameter", "linear_check", "linear_inference_rule",
    "linear_refinement_rule", "maxpool2d_check", "maxpool2d_inference_rule",
    "register_algebraic_expressions_inference_rule", "register_inference_rule",
    "register_refinement_rule", "relu_inference_rule", "reshape_inference_rule",
    "transpose_inference_rule",
]  # fmt: skip


def _registering(rules: dict[Any, Callable[..., Any]], kind: str) -> Callable[[Any], Any]:
    def for_target(call_target: Any) -> Callable[[Any], Any]:
        def register(fn: Any) -> Any:
            if call_target in rules:
                raise RuntimeError(f"{kind} already registered for {call_target}!")
            rules[call_target] = fn
            return fn

        return register

    return for_target


# Decorators for rules of a function or a type of modules: its type from those of its arguments;
# what of these has to be equal; sizes computed from sizes.
register_inference_rule = _registering(_INFERENCE_RULES, "Inference rule")
register_refinement_rule = _registering(_REFINEMENT_RULES, "Refinement rule")
register_algebraic_expressions_inference_rule = _registering(_RULES, "Rule")


# ---- types ---------------------------------------------------------------------------------------


def expand_to_tensor_dim(t: Any, n: int) -> TensorType:
    """A type with this many sizes; of one that is not known, all unknown."""
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if not isinstance(t, TensorType):
        raise TypeError(f"Cannot match the type {t}")
    if len(t.dims) != n:
        raise TypeError(
            f"Cannot extend tensor. Tensor {t} has rank {len(t.dims)}. It should have rank {n}"
        )
    return t


def broadcast_types(t1: Any, t2: Any) -> tuple[Any, Any]:
    """Two types with the same number of sizes, 1 being what the other one has."""
    if t1 == Dyn or t2 == Dyn or isinstance(t1, Var) or isinstance(t2, Var):
        return t1, t2
    if not isinstance(t1, TensorType) or not isinstance(t2, TensorType):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    count = max(len(t1.dims), len(t2.dims))
    padded = [[1] * (count - len(t.dims)) + list(t.dims) for t in (t1, t2)]
    first = [y if x == 1 else x for x, y in zip(*padded)]
    second = [x if y == 1 and x != 1 else y for x, y in zip(*padded)]
    return TensorType(tuple(first)), TensorType(tuple(second))


def get_greatest_upper_bound(type1: Any, type2: Any) -> Any:
    """What is known of two types that are consistent, together."""
    if type1 == Dyn:
        return type2
    if type2 == Dyn:
        return type1
    if not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    return TensorType(
        tuple(a if is_more_precise(a, b) else b for a, b in zip(type1.dims, type2.dims))
    )


def _argument(n: Node) -> Any:
    """The node of a call's first argument."""
    if not isinstance(n.args[0], Node):
        raise AssertionError(f"Expected Node, got {type(n.args[0])}")
    return n.args[0]


def _pair(value: Any) -> tuple[Any, Any]:
    return (value, value) if isinstance(value, int) else value


def calculate_out_dimension(d_in: Any, module_instance: Any, index: int) -> Any:
    """The size that a convolution or a pool makes of a size."""
    if d_in == Dyn:
        return Dyn
    if not isinstance(d_in, int) and type(d_in).__name__ != "Symbol":
        raise TypeError(
            f"{d_in} in {module_instance} must be a number or Dyn. Received {type(d_in)}"
        )
    padding, kernel, stride, dilation = (
        _pair(getattr(module_instance, name))
        for name in ("padding", "kernel_size", "stride", "dilation")
    )
    n = d_in + 2 * padding[index] - dilation[index] * (kernel[index] - 1) - 1
    return n // stride[0] + 1


# ---- inference -----------------------------------------------------------------------------------


@register_inference_rule(public("add"))
@register_inference_rule(operator.add)
def add_inference_rule(n: Node) -> Any:
    """The type of a sum."""
    left, right = n.args
    for each in (left, right):
        if not isinstance(each, Node):
            raise AssertionError(f"Expected Node, got {type(each)}")
    t1, t2 = left.type, right.type
    for one, other in ((t1, t2), (t2, t1)):
        if one is int and isinstance(other, TensorType):
            n.type = other
            return n.type
    new_t1, new_t2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = new_t1 != t1 or new_t2 != t2
    if n.meta["broadcast"]:
        n.meta[str(left)], n.meta[str(right)] = new_t1, new_t2
    if not is_consistent(new_t1, new_t2):
        raise TypeError(
            f"Cannot add arguments {left} ({left.type}) and {right} ({right.type}) in node {n}. "
            "Types should match "
        )
    n.type = new_t2 if is_more_precise(new_t1, new_t2) else new_t1
    return n.type


@register_inference_rule(getattr)
def get_attr_inference_rule(n: Node, traced: Any) -> Any:
    """The type of an attribute of a tensor: its shape's is not known."""
    if n.args[1] != "shape":
        raise TypeError("Not yet implemented")
    n.type = Dyn
    return n.type


@register_inference_rule(public("transpose"))
def transpose_inference_rule(n: Node) -> Any:
    """The type of a transpose."""
    t, (dim1, dim2) = _argument(n).type, n.args[1:3]
    if t == Dyn:
        n.type = Dyn
        return n.type
    known = isinstance(t, TensorType) and all(0 <= d < len(t.dims) for d in (dim1, dim2))
    if not known:
        raise TypeError(f"Cannot transpose {dim1} and {dim2} in type {t} for node {n}")
    dims = list(t.dims)
    dims[dim1], dims[dim2] = dims[dim2], dims[dim1]
    n.type = get_greatest_upper_bound(n.type, TensorType(dims))
    return n.type


@register_inference_rule(public("reshape"))
def reshape_inference_rule(n: Node) -> TensorType:
    """The type of a reshape."""
    t1, sizes = _argument(n).type, n.args[1]
    if not isinstance(sizes, list):
        raise AssertionError(f"Expected list, got {type(sizes)}")
    made = TensorType([Dyn if size == -1 else size for size in sizes])
    if t1 != Dyn:
        if not isinstance(t1, TensorType):
            raise TypeError(f"Cannot reshape in node {n} from {t1} to {made}")
        before = functools.reduce(operator.mul, [1 if d == Dyn else d for d in t1.dims])
        after = functools.reduce(operator.mul, sizes)
        if before % after and after % before:
            raise TypeError(f"Cannot reshape in node {n} from {t1} to {made}")
    n.type = made
    return made


@register_inference_rule(nn.BatchNorm2d)
def bn2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of a batch norm."""
    argument = _argument(n)
    argument.type = t = expand_to_tensor_dim(argument.type, 4)
    n.type = expand_to_tensor_dim(n.type, 4)
    count = module_instance.num_features
    fits = is_consistent(t.dims[1], count) and is_consistent(n.type.dims[1], count)
    if not (fits and is_consistent(t, n.type)):
        raise TypeError(
            f"Cannot apply {module_instance} with input type {t} and existing type {n.type} on {n}"
        )
    n.type = get_greatest_upper_bound(t, n.type)
    return n.type


@register_inference_rule(nn.Conv2d)
def conv2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of a convolution."""
    argument = _argument(n)
    argument.type = t = expand_to_tensor_dim(argument.type, 4)
    current = expand_to_tensor_dim(n.type, 4)
    if not is_consistent(t.dims[1], module_instance.in_channels):
        raise TypeError(
            f"Cannot apply {module_instance} with input type {t} and existing type {n.type} on {n}"
        )
    height = calculate_out_dimension(t.dims[2], module_instance, 0)
    width = calculate_out_dimension(t.dims[3], module_instance, 1)
    made = TensorType((t.dims[0], module_instance.out_channels, height, width))
    n.type = get_greatest_upper_bound(made, current)
    return n.type


def _inferred(n: Node, check: Callable[[Any], Any]) -> Any:
    """A call's type, from what `check` makes of its argument's."""
    argument = _argument(n)
    if argument.type == Dyn and isinstance(n.type, TensorType):
        argument.type = expand_to_tensor_dim(argument.type, len(n.type.dims))
    if isinstance(argument.type, TensorType):
        n.type = get_greatest_upper_bound(check(argument.type), n.type)
    return n.type


@register_inference_rule(nn.ReLU)
def relu_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of what is computed element by element: its argument's."""
    return _inferred(n, lambda t: t)


def maxpool2d_check(typ: Any, module_instance: Any) -> TensorType:
    """The type that a pool makes of a type."""
    dims = list(typ.dims)
    if len(dims) not in (3, 4):
        raise TypeError(f"Wrong size {typ} for {module_instance}")
    dims[-1] = calculate_out_dimension(dims[-1], module_instance, 1)
    dims[-2] = calculate_out_dimension(dims[-2], module_instance, 0)
    return TensorType(tuple(dims))


@register_inference_rule(nn.MaxPool2d)
def maxpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of a pool."""
    return _inferred(n, lambda t: maxpool2d_check(t, module_instance))


def linear_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """The type that a linear layer makes of a type."""
    dims = list(tensor_type.dims)
    if len(dims) < 2:
        raise TypeError(f"Type {tensor_type} must have rank 2 or more.")
    if not is_consistent(module_instance.in_features, dims[-1]):
        raise TypeError(
            f"Inconsistent {module_instance.in_features} and {dims[-1]} in {module_instance}"
        )
    return TensorType((*dims[:-1], module_instance.out_features))


@register_inference_rule(nn.Linear)
def linear_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of a linear layer."""
    return _inferred(n, lambda t: linear_check(t, module_instance))


def adaptiveavgpool2d_check(tensor_type: Any, module_instance: Any) -> TensorType:
    """The type that an adaptive pool makes of a type."""
    height, width = _pair(module_instance.output_size)
    dims = list(tensor_type.dims)
    if len(dims) not in (3, 4):
        raise TypeError(f"Tensor ranks must be 3 or 4. Got {tensor_type}")
    dims[-2] = width if height is None else height
    dims[-1] = height if width is None else width
    return TensorType(tuple(dims))


@register_inference_rule(nn.AdaptiveAvgPool2d)
def adaptiveavgpool2d_inference_rule(n: Node, module_instance: Any) -> Any:
    """The type of an adaptive pool."""
    return _inferred(n, lambda t: adaptiveavgpool2d_check(t, module_instance))


def flatten_check(tensor_type: Any, start_dim: int, end_dim: int) -> TensorType:
    """The type that flattening makes of a type."""
    dims = list(tensor_type.dims)
    count = len(dims)
    start = count if start_dim == -1 else abs(start_dim)
    end = count + end_dim + 1 if end_dim < 0 else end_dim + 1
    if not (0 <= start <= count - 1 and 0 <= end <= count and start < end):
        raise TypeError(f"Incompatible dimensions {start}, {end - 1} in type {tensor_type}")
    inside = dims[start:end]
    middle = Dyn if any(d == Dyn for d in inside) else functools.reduce(operator.mul, inside)
    return TensorType((*dims[:start], middle, *dims[end:]))


def _flattened(n: Node) -> tuple[Any, Any]:
    """The dims between which a call flattens; those of nn.Flatten where it does not say them."""
    given = (*n.args[1:3], *(1, -1)[len(n.args) - 1 :])
    return given[0], given[1]


@register_inference_rule(public("flatten"))
def flatten_inference_rule(n: Node) -> Any:
    """The type of a flattened tensor."""
    return _inferred(n, lambda t: flatten_check(t, *_flattened(n)))


class GraphTypeChecker:
    """Checks and infers the types of a graph's nodes."""

    def __init__(self, env: dict[str, Any], traced: GraphModule) -> None:
        self.env, self.traced = env, traced

    def type_check(self) -> bool:
        """Gives all nodes their types; TypeError where they do not fit."""
        for node in self.traced.graph.nodes:
            self.type_check_node(node)
        return True

    def type_check_node(self, n: Node) -> Any:
        """Gives a node its type."""
        if n.type is None:
            n.type = Dyn
        if n.op == "get_attr":
            value = get_parameter(self.traced, str(n.target))
            if isinstance(value.data, Tensor):
                n.type = TensorType(value.data.shape)
        elif n.op == "call_function":
            if n.target not in _INFERENCE_RULES:
                raise RuntimeError(f"No inference rule registered for target {n.target}!")
            more = (self.traced,) if n.target is getattr else ()
            return _INFERENCE_RULES[n.target](n, *more)
        elif n.op == "call_module":
            module = self.traced.get_submodule(str(n.target))
            if type(module) not in _INFERENCE_RULES:
                raise RuntimeError(f"No inference rule registered for class {type(module)}!")
            return _INFERENCE_RULES[type(module)](n, module)
        elif n.op == "output":
            n.type = map_arg(n.args[0], lambda a: a.type)
        elif n.op != "placeholder":
            raise NotImplementedError(f"Method {n.op} not yet implemented")
        return n.type


# ---- refinement ----------------------------------------------------------------------------------


def _equalities(n: Node, count: int | None) -> list[Equality]:
    """The first sizes of a call's argument and of its result are equal; all with None."""
    t = _argument(n).type
    if not isinstance(t, TensorType) or not isinstance(n.type, TensorType):
        return []
    return [Equality(a, b) for a, b in list(zip(t.dims, n.type.dims))[:count]]


@register_refinement_rule(nn.Conv2d)
def conv_refinement_rule(n: Node) -> list[Equality]:
    """A convolution keeps the batch."""
    return _equalities(n, 1)


@register_refinement_rule(nn.Linear)
def linear_refinement_rule(n: Node) -> list[Equality]:
    """A linear layer keeps the batch."""
    return _equalities(n, 1)


@register_refinement_rule(nn.BatchNorm2d)
@register_refinement_rule(nn.ReLU)
def all_eq(n: Node) -> list[Equality]:
    """All sizes stay."""
    return _equalities(n, None)


@register_refinement_rule(nn.AdaptiveAvgPool2d)
@register_refinement_rule(nn.MaxPool2d)
def first_two_eq(n: Node) -> list[Equality]:
    """Pools keep the batch and the channels."""
    return _equalities(n, 2)


@register_refinement_rule(public("add"))
@register_refinement_rule(operator.add)
def element_wise_eq(n: Node) -> list[Equality]:
    """Sizes that are the same in both arguments stay."""
    if not all(isinstance(each, Node) for each in n.args[:2]):
        return []
    t1, t2 = (each.type for each in n.args[:2])
    if not all(isinstance(t, TensorType) for t in (t1, t2, n.type)):
        return []
    b1, b2 = broadcast_types(t1, t2)
    return [Equality(x, z) for x, y, z in zip(b1.dims, b2.dims, n.type.dims) if x == y]


@register_refinement_rule(public("flatten"))
def flatten_refinement_rule(n: Node) -> list[Equality]:
    """Flattening keeps the sizes before and after."""
    t = _argument(n).type
    if not isinstance(n.type, TensorType) or not isinstance(t, TensorType):
        return []
    start, end = _flattened(n)
    count = len(n.type.dims)
    start = count if start == -1 else start
    end = count + end + 1 if end < 0 else end + 1
    pairs = [*zip(n.type.dims[:start], t.dims[:start]), *zip(n.type.dims[end:], t.dims[end:])]
    return [Equality(a, b) for a, b in pairs]


@register_algebraic_expressions_inference_rule(nn.Conv2d)
def conv_rule(n: Node, module_instance: Any) -> TensorType | None:
    """A convolution's sizes as expressions of its argument's."""
    t = _argument(n).type
    if not isinstance(t, TensorType) or not isinstance(n.type, TensorType):
        return None
    height = calculate_out_dimension(t.dims[2], module_instance, 0)
    width = calculate_out_dimension(t.dims[3], module_instance, 1)
    n.type = TensorType((n.type.dims[0], n.type.dims[1], height, width))
    return n.type


class Refine:
    """Puts variables where sizes are not known, and finds what has to be equal."""

    def __init__(self, traced: GraphModule) -> None:
        self.constraints: list[Equality] = []
        self.traced = traced
        self.symbol_iter = itertools.count()

    def refine(self) -> bool:
        """Goes through the nodes; `constraints` has what is found."""
        for node in self.traced.graph.nodes:
            self.refine_node(node)
        return True

    def symbolic_relations(self) -> bool:
        """Makes variables sympy's symbols, and computes sizes from them."""
        for node in self.traced.graph.nodes:
            self.infer_symbolic_relations(node)
        return True

    def replace_dyn_with_fresh_var(self, typ: Any) -> Any:
        """A type with a new variable for each size that is not known."""
        fresh = lambda t: Var(next(self.symbol_iter)) if t == Dyn else t
        return _mapped(typ, fresh)

    def convert_to_sympy_symbols(self, typ: Any) -> Any:
        """A type with sympy's symbols in the place of variables."""
        import sympy

        return _mapped(typ, lambda t: sympy.symbols(str(t)) if isinstance(t, Var) else t)

    def _rule(self, n: Node, rules: dict[Any, Any]) -> tuple[Any, tuple[Any, ...]]:
        if n.op == "call_function":
            return rules.get(n.target), ()
        if n.op == "call_module":
            module = self.traced.get_submodule(str(n.target))
            return rules.get(type(module)), (module,)
        return None, ()

    def refine_node(self, n: Node) -> Any:
        """Finds what has to be equal at one node."""
        n.type = self.replace_dyn_with_fresh_var(Dyn if n.type is None else n.type)
        rule, _ = self._rule(n, _REFINEMENT_RULES)
        if rule is not None:
            self.constraints += rule(n)
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda a: a.type)
        return n.type

    def infer_symbolic_relations(self, n: Node) -> Any:
        """Computes one node's sizes from its argument's."""
        n.type = self.convert_to_sympy_symbols(n.type)
        rule, more = self._rule(n, _RULES)
        if rule is not None:
            return rule(n, *more)
        if n.op == "output":
            n.type = map_arg(n.args[0], lambda a: a.type)
        return n.type


def _mapped(typ: Any, function: Callable[[Any], Any]) -> Any:
    """A type, or types in a list or tuple, with each size mapped."""
    if isinstance(typ, TensorType):
        return TensorType(tuple(_mapped(dim, function) for dim in typ.dims))
    if isinstance(typ, (list, tuple)):
        return type(typ)(_mapped(each, function) for each in typ)
    return function(typ)


def get_parameter(traced: Any, target: str) -> Any:
    """A parameter, or another attribute, by a dotted name."""
    path, _, name = target.rpartition(".")
    module = traced.get_submodule(path)
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
