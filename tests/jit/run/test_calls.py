"""Operators of tensors as graphs call them, against `torch.ops`."""

import warnings

import pytest

import tritorch
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Graph
from tritorch.jit.run import builtins
from tritorch.jit.run.calls import _direct, call_of
from tritorch.jit.run.executor import runner
from tritorch.ops.record import overloads
from tritorch.schema import TensorType, table, types
from tritorch.schema.objects import converters

SCALARS = (
    (types.BoolType, (False, True, False)),
    ((types.IntType, types.SymIntType), (1, 0, 1)),
    (types.FloatType, (0.5, 0.5, 0.5)),
    (types.NumberType, (2, 2, 2)),
    (types.StringType, ("none", "none", "none")),
    (types.ScalarTypeType, (6, 6, 6)),
    ((types.LayoutType, types.MemoryFormatType), (0, 0, 0)),
)


def tensor(variant):
    """A matrix of floats, one of ints, or a batch of images."""
    tritorch.manual_seed(0)
    if variant == 1:
        return tritorch.randint(0, 2, (2, 2))
    return tritorch.rand(2, 2) + 0.1 if variant == 0 else tritorch.rand(1, 2, 4, 4)


def value_for(argument, kind, variant):
    """A value for an argument; KeyError for kinds that there are none for here."""
    if isinstance(kind, types.OptionalType):
        return None if variant < 2 else value_for(argument, kind.getElementType(), variant)
    if isinstance(kind, TensorType):
        return tensor(variant)
    if isinstance(kind, types.ListType):
        count = argument.N or (1 if variant == 0 else 2)
        return [value_for(argument, kind.getElementType(), variant) for _ in range(count)]
    if isinstance(kind, types.DeviceObjType):
        return tritorch.device("cpu")
    for classes, values in SCALARS:
        if isinstance(kind, classes):
            return values[variant]
    raise KeyError(kind)


def by_graph(schema, values):
    """The results of a graph of one node, in which numbers are constants."""
    graph = Graph()
    inputs, given = [], []
    for argument, value in zip(schema.arguments, values):
        if isinstance(value, (list, tritorch.Tensor)):
            inputs.append(graph.addInput().setType(argument.type))
            given.append(value)
        else:
            inputs.append(graph.insertConstant(value))
    node = graph.insert(schema.name, inputs, len(schema.returns))
    node._schema = schema
    for output in node.outputs():
        graph.registerOutput(output)
    return runner(GraphFunction("f", graph)).raw(*given)


def by_overload(schema, values):
    """The results of the object of torch.ops."""
    for place, convert in converters(schema):
        values[place] = None if values[place] is None else convert(values[place])
    count = sum(not argument.kwarg_only for argument in schema.arguments)
    names = [argument.name for argument in schema.arguments[count:]]
    return overloads.overload_of(schema)(*values[:count], **dict(zip(names, values[count:])))


def outcome(compute, schema, variant):
    """The results, or None for an exception."""
    values = [
        argument.default_value
        if argument.has_default_value() and variant == 0
        else value_for(argument, argument.real_type, variant)
        for argument in schema.arguments
    ]
    tritorch.manual_seed(1)
    try:
        return compute(schema, values)
    except Exception:
        return None


def same(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, tritorch.Tensor):
        return a == b or a != a
    if a.layout is not tritorch.strided or a.is_quantized:
        return a.layout is b.layout
    return a.dtype == b.dtype and tritorch.allclose(a, b, equal_nan=True)


def schemas():
    """Calls of operators that go to public functions and not to the objects of torch.ops."""
    for name in table.names("aten"):
        if name.startswith("_") or "empty" in name:
            continue
        for overload in table.overloads(name):
            schema = table.find(name, overload)
            if any(argument.is_out for argument in schema.arguments):
                continue
            if builtins.find(schema) is None and _direct(schema) is not None:
                yield schema


def test_direct_calls_compute_what_torch_ops_computes():
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for schema in schemas():
            for variant in range(3):
                try:
                    wanted = outcome(by_overload, schema, variant)
                except KeyError:
                    continue
                if wanted is None:
                    continue
                found = outcome(by_graph, schema, variant)
                assert found is not None, schema
                assert same(found, wanted), schema
                compared += 1
    assert compared > 1500


@pytest.mark.parametrize(
    ("name", "overload"),
    [
        ("linear", ""), ("relu", ""), ("add", "Tensor"), ("mul", "Scalar"), ("softmax", "int"),
        ("conv2d", ""), ("view", ""), ("permute", ""), ("cat", ""), ("zeros", ""), ("to", "dtype"),
    ],
)  # fmt: skip
def test_frequent_operators_go_to_gates(name, overload):
    assert type(call_of(table.find(name, overload)).function).__name__ in ("Gate", "function")
