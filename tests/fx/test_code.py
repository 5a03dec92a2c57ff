"""torch.fx: graphs as code, with nested inputs, descriptions, changed lines; copies and hooks."""

import copy
import io
import operator
import pickle
from collections import namedtuple
from typing import NamedTuple

import pytest

import tritorch as torch
from tritorch import fx, nn
from tritorch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
from tritorch.fx._symbolic_trace import PHWithMeta
from tritorch.fx.graph import _BoxedCodeGen
from tritorch.fx.passes.shape_prop import ShapeProp

Pair = namedtuple("Pair", ["left", "right"])


class Point(NamedTuple):
    x: int
    y: int


def summed(x):
    total = 0
    for value in x.values():
        total = total + value
    return {"sum": total, "all": [total, x["a"]]}


def test_nested_inputs():
    """Containers are taken apart in the code, and put together again; so they are in copies."""
    traced = fx.symbolic_trace(summed, concrete_args={"x": {"a": fx.PH, "b": fx.PH}})
    given = {"a": torch.ones(2), "b": torch.full((2,), 2.0)}
    assert "fx_pytree.tree_flatten_spec([x], self._in_spec)" in traced.code
    assert [n.target for n in traced.graph.nodes if n.op == "placeholder"] == ["x_1", "x_2"]
    for each in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        out = each(given)
        assert out["sum"].tolist() == [3, 3] and out["all"][1].tolist() == [1, 1]
    assert fx.Interpreter(traced).run(given)["sum"].tolist() == [3, 3]
    assert fx.Transformer(traced).transform()(given)["sum"].tolist() == [3, 3]
    flat = traced.graph.process_inputs(given)
    assert [each.tolist() for each in flat] == [[1, 1], [2, 2]]


def test_specialized_arguments_are_checked():
    def f(x, scale, flag, nothing):
        return x * scale if flag else nothing

    values = {"scale": 3, "flag": True, "nothing": None}
    traced = fx.symbolic_trace(f, concrete_args=values)
    assert traced(torch.ones(1), 3, True, None).tolist() == [3]
    with pytest.raises(AssertionError, match="scale has been specialized to have value 3"):
        traced(torch.ones(1), 4, True, None)
    with pytest.raises(AssertionError, match="nothing has been specialized to have value None"):
        traced(torch.ones(1), 3, True, 1)


def test_what_is_set_on_a_placeholder_goes_to_its_node():
    mark = PHWithMeta(ph_key="weights")
    graph = fx.Tracer().trace(lambda x, y: x + y, concrete_args=(fx.PH, mark))
    keys = [getattr(n, "ph_key", None) for n in graph.nodes if n.op == "placeholder"]
    assert keys == [None, "weights"]


def test_verbose_code_says_what_is_known():
    class M(nn.Module):
        def forward(self, x):
            return torch.relu(x) + 1

    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    module = M()
    traced = fx.GraphModule(module, tracer.trace(module), "M")
    ShapeProp(traced).propagate(torch.ones(2, 3))
    text = traced.print_readable(print_output=False)
    assert 'relu: "f32[2, 3]" = torch.relu(x);  x = None' in text
    assert "in forward, code: return torch.relu(x) + 1" in text
    x = next(iter(traced.graph.nodes))
    x.meta["desc"] = "the input"
    shown = traced.print_readable(print_output=False, expanded_def=True)
    assert 'x: "f32[2, 3]",  # the input\n' in shown
    traced.print_readable(print_output=False, colored=True)
    with traced.graph.on_generate_code(lambda _: lambda body: ["y = 7\n", *body]):
        assert "y = 7\n" in traced.recompile().src
    assert "y = 7\n" not in traced.recompile().src
    assert traced._lineno_map[2] == 2  # by line, the place of its node


def test_values_as_code():
    """Named tuples, slices, dtypes, enumerations and infinities come back from generated code."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    pair = graph.call_function(Pair, (x, float("inf")))
    point = graph.call_function(operator.getitem, (pair, 0))
    cut = graph.call_function(operator.getitem, (point, (slice(None, 1), ...)))
    made = graph.call_method("to", (cut,), {"dtype": torch.float64})
    graph.output((made, Point(1, 2), {"k": [x, None]}))
    module = fx.GraphModule({}, graph)
    cut_value, point_value, rest = module(torch.ones(2, 2))
    assert cut_value.dtype is torch.float64 and cut_value.shape == (1, 2)
    assert point_value == Point(1, 2) and rest["k"][0].shape == (2, 2)
    assert pickle.loads(pickle.dumps(module))(torch.ones(2, 2))[1] == Point(1, 2)


def test_boxed_code_empties_its_list():
    graph = fx.symbolic_trace(lambda x, y: x + y).graph
    graph.set_codegen(_BoxedCodeGen())
    module = fx.GraphModule({}, graph)
    given = [torch.ones(1), torch.ones(1)]
    assert module(given).tolist() == [2] and given == []
    given = [torch.ones(1), torch.ones(1)]
    assert fx.Interpreter(module).boxed_run(given).tolist() == [2] and given == []


def test_order_and_names():
    graph = fx.Graph()
    x = graph.placeholder("x")
    nodes = [graph.call_function(torch.neg, (x,)) for _ in range(3)]
    assert [n.name for n in nodes] == ["neg", "neg_1", "neg_2"]
    first = nodes[0]
    for _ in range(60):  # more often than the room between two sort keys can be halved
        with graph.inserting_after(first):
            graph.call_function(torch.abs, (x,))
    assert sorted(graph.nodes, reverse=True) == list(reversed(graph.nodes))
    assert graph.find_nodes(op="call_function", target=torch.neg) == nodes
    nodes[2].prepend(x)
    assert x > nodes[1] and x < nodes[2]
    first._rename("first")
    assert first.name == "first" and str(first) == "first"
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph.lint()


def test_hooks_see_every_change():
    module = fx.symbolic_trace(lambda x: torch.neg(torch.relu(x)))
    seen = []
    module._register_create_node_hook(lambda n: seen.append(("create", n.name)))
    module._register_erase_node_hook(lambda n: seen.append(("erase", n.name)))
    with module._set_replace_hook(lambda old, new, user: seen.append((old.name, new, user.name))):
        relu = module.graph.find_nodes(op="call_function", target=torch.relu)[0]
        with module.graph.inserting_after(relu):
            other = module.graph.call_function(torch.abs, relu.args)
        relu.replace_all_uses_with(other)
        module.graph.erase_node(relu)
    assert seen == [("create", "abs_1"), ("relu", "abs_1", "neg"), ("erase", "relu")]


def test_lazy_modules_write_code_when_it_is_wanted():
    with _use_lazy_graph_module(True):
        module = fx.symbolic_trace(lambda x: x + 1)
    assert isinstance(module, _LazyGraphModule) and module._needs_recompile()
    assert module(torch.ones(1)).tolist() == [2] and not module._needs_recompile()
    module.recompile()
    assert module._needs_recompile() and "x + 1" in module.code


def test_errors_show_the_line(capsys):
    module = fx.symbolic_trace(lambda x: x.missing())
    with pytest.raises(AttributeError):
        module(torch.ones(1))
    assert (
        "Call using an FX-traced Module, line 5 of the traced Module's" in capsys.readouterr().err
    )


def test_saved_modules_load(tmp_path):
    module = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    x = torch.randn(3, 2)
    assert loaded(x).equal(module(x)) and loaded.graph.find_nodes(op="call_module")
