"""Tracers of programs: what feature extraction, size-dependent and checking ones want of fx."""

import collections

import pytest

import tritorch as torch
from tests.fx.architectures import MODELS
from tritorch import fx, nn
from tritorch._subclasses import FakeTensorMode
from tritorch.fx import traceback as fx_traceback
from tritorch.fx.experimental import meta_tracer
from tritorch.fx.experimental.graph_gradual_typechecker import GraphTypeChecker
from tritorch.fx.experimental.symbolic_shapes import (
    ShapeEnv,
    free_symbols,
    guard_or_false,
    hint_int,
    is_symbolic,
    statically_known_true,
)
from tritorch.fx.experimental.unification import reify, unify, var
from tritorch.fx.experimental.unify_refinements import infer_symbolic_types
from tritorch.fx.proxy import MetaProxy, TraceError
from tritorch.fx.tensor_type import Dyn, TensorType


class PathTracer(fx.Tracer):
    """Notes which module and call a node is of, as feature extraction does."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.current, self.paths = "", collections.OrderedDict()

    def call_module(self, m, forward, args, kwargs):
        before = self.current
        try:
            self.current = self.path_of_module(m)
            if not self.is_leaf_module(m, self.current):
                return forward(*args, **kwargs)
            return self.create_proxy("call_module", self.current, args, kwargs)
        finally:
            self.current = before

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, *_):
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr)
        path = self.current if kind == "call_module" else f"{self.current}.{proxy.node}".lstrip(".")
        self.paths[proxy.node] = path
        return proxy


def test_feature_extraction():
    """A model cut at nodes that are known by the paths of modules gives what those compute."""
    model, x = MODELS[0]().eval(), torch.randn(1, 3, 16, 16)
    tracer = PathTracer()
    graph = tracer.trace(model)
    leaves = [n for n in graph.nodes if n.op == "call_module"]
    wanted = {tracer.paths[node]: node for node in (leaves[1], leaves[-1])}
    seen = {}
    for path in wanted:
        model.get_submodule(path).register_forward_hook(
            lambda module, given, out, path=path: seen.__setitem__(path, out)
        )
    graph.erase_node(graph.output_node())
    graph.output(dict(wanted))
    cut = fx.GraphModule(tracer.root, graph, "Features")
    cut.graph.eliminate_dead_code()
    cut.delete_all_unused_submodules()
    cut.recompile()
    found = cut(x)
    seen.clear()
    model(x)
    assert found.keys() == seen.keys() and all(found[k].equal(seen[k]) for k in seen)


def test_operators_of_torch_ops_are_traced():
    traced = fx.symbolic_trace(lambda x: torch.ops.aten.view(torch.ops.aten.sigmoid(x), [-1]))
    targets = [str(n.target) for n in traced.graph.nodes if n.op == "call_function"]
    assert targets == ["aten.sigmoid", "aten.view"]
    assert traced(torch.zeros(1, 2)).tolist() == [0.5, 0.5]


def test_functions_of_the_package_are_one_call():
    traced = fx.symbolic_trace(torch.nn.functional.softmax)
    (call,) = [n for n in traced.graph.nodes if n.op == "call_function"]
    assert call.target is torch.nn.functional.softmax
    assert traced(torch.zeros(2), 0).tolist() == [0.5, 0.5]


def test_sizes_of_parameters_may_decide():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 2))

        def forward(self, x):
            return x + self.weight if self.weight.shape[0] == 3 else x

    with pytest.raises(TraceError):
        fx.Tracer().trace(M())
    graph = fx.Tracer(param_shapes_constant=True).trace(M())
    assert fx.GraphModule(M(), graph)(torch.zeros(3, 2)).sum() == 6


def test_proxies_that_know_more():
    def f(x):
        return x.reshape(x.shape[1], -1) if x.dim() == 2 else x

    meta = torch.empty(2, 3, device="meta")
    traced = meta_tracer.symbolic_trace(f, meta_args={"x": meta})
    assert "reshape(3, -1)" in traced.code
    graph, mode = fx.Graph(), FakeTensorMode()
    node = graph.placeholder("x")
    node.meta["val"] = mode.from_tensor(torch.ones(2, 3))
    out = torch.sum(MetaProxy(node, fake_mode=mode), 1)
    assert isinstance(out, MetaProxy) and out.node.meta["val"].shape == (2,)


def test_new_nodes_take_over_meta():
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    for node in traced.graph.nodes:
        node.meta["custom"] = {"from": node.name}
    made = fx.Transformer(traced).transform()
    relu = made.graph.find_nodes(op="call_function", target=torch.relu)[0]
    assert relu.meta["custom"] == {"from": "relu"}
    assert [s.name for s in relu.meta["from_node"]] == ["relu"]
    again = fx_traceback.NodeSource._from_dict(relu.meta["from_node"][0].to_dict())
    assert again == relu.meta["from_node"][0]


def test_types_are_inferred_and_checked():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 5)

        def forward(self, x: TensorType((Dyn, 3, 8, 8))):
            return self.linear(torch.flatten(torch.relu(self.conv(x)), 1))

    @torch.fx.experimental.graph_gradual_typechecker.register_inference_rule(torch.relu)
    def relu_rule(n):
        n.type = n.args[0].type
        return n.type

    traced = fx.symbolic_trace(M())
    GraphTypeChecker({}, traced).type_check()
    types = {n.name: n.type for n in traced.graph.nodes}
    assert types["conv"] == TensorType((Dyn, 4, 6, 6))
    assert types["linear"] == TensorType((Dyn, 5))
    wrong = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 5)))
    next(iter(wrong.graph.nodes)).type = TensorType((1, 2))
    with pytest.raises(TypeError, match="Inconsistent 4 and 3"):
        GraphTypeChecker({}, wrong).type_check()


def test_unknown_sizes_become_one():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    next(iter(traced.graph.nodes)).type = TensorType((Dyn, 2))
    GraphTypeChecker({}, traced).type_check()
    pytest.importorskip("sympy")
    infer_symbolic_types(traced)
    first, *_, last = (n.type.dims[0] for n in traced.graph.nodes)
    assert first == last != Dyn
    x, y = var("x"), var("y")
    known = unify((x, (1, y)), (2, (1, x)))
    assert reify((y, x), known) == (2, 2) and unify((x, x), (1, 2)) is False


def test_open_sizes():
    env = ShapeEnv()
    n, unknown = env.symbol("n", 5), env.symbol("u")
    assert is_symbolic(n) and not is_symbolic(n - n + 3) and hint_int(2 * n) == 10
    assert {str(s) for s in free_symbols([n * 2, (unknown + 1) // 3])} == {"n", "u"}
    assert statically_known_true(n >= 2) and not guard_or_false(unknown == 3) and not env.guards
    assert guard_or_false(n == 5) and env.guards == ["n == 5"]
