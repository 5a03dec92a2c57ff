"""PyTorch's 3,882 schemas of aten:: and prim::, of which these are computed."""

import collections
import re

import pytest

import tritorch
from tritorch.jit.ir import operators
from tritorch.jit.ir.graph import Graph
from tritorch.jit.run.calls import call_of
from tritorch.jit.run.executor import HANDLERS
from tritorch.schema import OptionalType, TensorType, table, types

# Why operators are missing, by their names; all of them are refused with their names.
REASONS = {
    "of libraries that tritorch does not use": r"_?(cudnn|miopen|mkldnn|mps|cufft|nnpack|fbgemm|"
    r"cslt|MKLDNN|oneDNN|ConstantMKLDNN|BroadcastMKLDNN|use_cudnn|use_miopen|get_cpu_cap).*|"
    r".*(_mps|MKLDNN|xla).*",
    "of PyTorch's graph executor": r"(Autograd|Bail|Chunk|ConstantChunk|Differentiable|Fallback|"
    r"Fus|MM|Reduction|RequiresGrad|Static|TensorExpr|TypeCheck|profile).*",
    "of remote calls": r"(rpc_.*|owner.*|local_value|to_here|confirmed_by_owner|get_gradients|"
    r"dist_backward)",
    "of PyTorch's own tests": r"_test_.*",
    "gradients, which records compute": r".*(_backward|_jvp|backward_impl).*|_backward",
}


def resolved():
    """Schemas that are computed, and those that are not."""
    found, missing = [], []
    for space in ("aten", "prim"):
        for name in table.names(space):
            for overload in table.overloads(name, space):
                schema = table.find(name, overload, space)
                if schema.name in HANDLERS:
                    found.append(schema)
                    continue
                try:
                    call_of(schema)
                except NotImplementedError as error:
                    assert schema.name in str(error)
                    missing.append(schema)
                else:
                    found.append(schema)
    return found, missing


def reason(schema):
    name = schema.name.partition("::")[2]
    for text, pattern in REASONS.items():
        if re.fullmatch(pattern, name):
            return text
    if any(argument.is_out for argument in schema.arguments):
        return "with a place for the result"
    return "others"


def test_most_schemas_are_computed_and_the_others_named(capsys):
    found, missing = resolved()
    counts = collections.Counter(map(reason, missing))
    with capsys.disabled():
        print(f"\n{len(found)} of {len(found) + len(missing)} schemas are computed; missing are")
        for text, count in counts.most_common():
            print(f"  {count:4} {text}")
    assert len(found) + len(missing) == 3882
    assert len(found) >= 3350
    assert counts["others"] <= 210


def test_operators_without_tensors_are_computed_but_for_few():
    missing = {s.name for s in resolved()[1] if "Tensor" not in str(s) and not s._is_vararg}
    libraries = {f"aten::_cufft_{name}" for name in (
        "get_plan_cache_size", "get_plan_cache_max_size", "set_plan_cache_max_size")}  # fmt: skip
    calls = {f"aten::{name}" for name in (
        "confirmed_by_owner", "local_value", "owner", "owner_name", "to_here")}  # fmt: skip
    assert missing <= libraries | calls | {
        "aten::_get_cpu_capability", "aten::_use_cudnn_rnn_flatten_weight",
        "aten::get_autocast_dtype", "prim::BailoutTemplate", "prim::ReductionSizes",
    }  # fmt: skip


# ---- choosing schemas ----------------------------------------------------------------------------


def test_overloads_come_in_pytorchs_order():
    names = [schema.overload_name for schema in operators.schemas("aten::max")]
    assert names == ["other", "", "dim", "dim_max", "unary_out", "out"]
    assert [s.overload_name for s in operators.schemas("aten::mul")][:5] == [
        "Tensor", "Scalar", "out", "Scalar_out", "left_t",
    ]  # fmt: skip
    assert operators.schemas("aten::nothing") == []


def test_operators_of_programs_are_found():
    library = tritorch.library.Library("jit_schemas", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    (schema,) = operators.schemas("jit_schemas::twice")
    assert str(schema) == "jit_schemas::twice(Tensor x) -> Tensor"
    assert operators.find("jit_schemas::twice", "") is schema
    assert operators.find("jit_schemas::twice", "other") is None


INT, FLOAT = types.IntType.get(), types.FloatType.get()


@pytest.mark.parametrize(
    ("kind", "inputs", "overload"),
    [
        ("aten::add", [INT, INT], "int"),
        ("aten::add", [FLOAT, INT], "float_int"),
        ("aten::add", [TensorType.get(), TensorType.get(), INT], "Tensor"),
        ("aten::add", [TensorType.get(), FLOAT, INT], "Scalar"),
        ("aten::append", [types.ListType(INT), INT], "t"),
        ("aten::len", [types.StringType.get()], "str"),
        ("aten::sum", [TensorType.get(), types.NoneType.get()], ""),
        ("aten::zeros", [types.ListType(INT), INT, *[types.NoneType.get()] * 3], ""),
        ("aten::__getitem__", [types.DictType(types.StringType.get(), INT),
                               types.StringType.get()], "Dict_str"),
        ("aten::_unwrap_optional", [OptionalType(INT)], ""),
        ("aten::format", [types.StringType.get(), INT, FLOAT], ""),
    ],
)  # fmt: skip
def test_a_node_has_the_schema_that_its_inputs_fit(kind, inputs, overload):
    graph = Graph()
    values = [graph.addInput().setType(each) for each in inputs]
    found = operators.schema_of(graph.create(kind, values))
    assert found is not None and found.overload_name == overload


def test_random_operators_are_known():
    assert operators.is_random("aten::rand") and operators.is_random("aten::dropout")
    assert not operators.is_random("aten::relu") and not operators.is_random("aten::none_such")
