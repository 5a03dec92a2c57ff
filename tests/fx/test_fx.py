# ruff: noqa: E501
"""torch.fx: graphs of modules and functions, changed, copied, run."""

import copy
import operator
import pickle

import pytest

import tritorch as torch
from tests.fx.architectures import MODELS
from tritorch import fx, nn
from tritorch.fx.passes.shape_prop import ShapeProp
from tritorch.fx.proxy import TraceError
from tritorch.nn import functional as F


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_architectures(model):
    """The same bits: traced, pickled, copied, interpreted, made anew, and rewritten."""
    torch.manual_seed(0)
    module, x = model().eval(), torch.randn(2, 3, 16, 16)
    traced = fx.symbolic_trace(module)
    traced.graph.lint()
    want = module(x)
    assert traced(x).equal(want)
    assert pickle.loads(pickle.dumps(traced))(x).equal(want)
    assert copy.deepcopy(traced)(x).equal(want)
    assert fx.Interpreter(traced).run(x).equal(want)
    assert fx.Transformer(traced).transform()(x).equal(want)
    assert not traced.graph.eliminate_dead_code() or traced(x).equal(want)
    ShapeProp(traced).propagate(x)
    last = traced.graph.output_node().all_input_nodes[0]
    assert last.meta["tensor_meta"].shape == want.shape
    other = copy.deepcopy(traced)
    matches = fx.replace_pattern(
        other, lambda x, y: torch.cat([x, y], 1), lambda x, y: torch.cat((y, x), dim=1)
    )
    fx.replace_pattern(other, lambda x: torch.relu(x), lambda x: x.clamp(min=0))
    other.graph.lint()
    assert other(x).shape == want.shape
    if not matches:
        assert torch.allclose(other(x), want, atol=1e-6)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.weight = nn.Linear(3, 4), nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.ones(4))
        self.inner = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x, y=2, *, k=None):
        a = self.linear(x) + self.weight
        b = torch.cat([a, a], dim=1)[:, :4].relu() - self.shift
        size = b.shape[0]
        return {"out": self.inner(b), "rest": (size, y)}


def test_the_text_of_a_graph():
    traced = fx.symbolic_trace(Branches())
    assert (
        str(traced.graph)
        == """graph():
    %x : [num_users=1] = placeholder[target=x]
    %y : [num_users=1] = placeholder[target=y](default=2)
    %k : [num_users=0] = placeholder[target=k](default=None)
    %linear : [num_users=1] = call_module[target=linear](args = (%x,), kwargs = {})
    %weight : [num_users=1] = get_attr[target=weight]
    %add : [num_users=1] = call_function[target=operator.add](args = (%linear, %weight), kwargs = {})
    %cat : [num_users=1] = call_function[target=torch.cat](args = ([%add, %add],), kwargs = {dim: 1})
    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%cat, (slice(None, None, None), slice(None, 4, None))), kwargs = {})
    %relu : [num_users=1] = call_method[target=relu](args = (%getitem,), kwargs = {})
    %shift : [num_users=1] = get_attr[target=shift]
    %sub : [num_users=2] = call_function[target=operator.sub](args = (%relu, %shift), kwargs = {})
    %getattr_1 : [num_users=1] = call_function[target=builtins.getattr](args = (%sub, shape), kwargs = {})
    %getitem_1 : [num_users=1] = call_function[target=operator.getitem](args = (%getattr_1, 0), kwargs = {})
    %inner_0 : [num_users=1] = call_module[target=inner.0](args = (%sub,), kwargs = {})
    %inner_1 : [num_users=1] = call_module[target=inner.1](args = (%inner_0,), kwargs = {})
    return {'out': inner_1, 'rest': (getitem_1, y)}"""
    )
    assert (
        traced.code
        == """


def forward(self, x, y = 2, k = None):
    linear = self.linear(x);  x = None
    weight = self.weight
    add = linear + weight;  linear = weight = None
    cat = torch.cat([add, add], dim = 1);  add = None
    getitem = cat[(slice(None, None, None), slice(None, 4, None))];  cat = None
    relu = getitem.relu();  getitem = None
    shift = self.shift
    sub = relu - shift;  relu = shift = None
    getattr_1 = sub.shape
    getitem_1 = getattr_1[0];  getattr_1 = None
    inner_0 = getattr(self.inner, "0")(sub);  sub = None
    inner_1 = getattr(self.inner, "1")(inner_0);  inner_0 = None
    return {'out': inner_1, 'rest': (getitem_1, y)}
    """
    )


def test_a_graph_by_hand():
    graph = fx.Graph()
    x = graph.placeholder("x")
    with graph.inserting_after(x):
        y = graph.call_function(torch.neg, (x,))
    z = graph.call_method("add", (y, x))
    graph.output(z)
    module = fx.GraphModule({}, graph)
    assert module(torch.ones(2)).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(y)
    y.replace_all_uses_with(x)
    graph.erase_node(y)
    module.recompile()
    assert module(torch.ones(2)).tolist() == [2, 2]
    assert list(x.users) == [z] and z.all_input_nodes == [x] and x < z
    with pytest.raises(TypeError, match="does not support mutation"):
        z.kwargs.setdefault("a", 1) if isinstance(z.kwargs, dict) else None


def test_lint_finds_what_is_no_program():
    graph, other = fx.Graph(), fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.neg, (other.placeholder("y"),)))
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        graph.lint()
    assert x.op == "placeholder"


@pytest.mark.parametrize(
    "function, match",
    [
        (lambda x: x if x.sum() > 0 else -x, "control flow"),
        (lambda x: list(x), "cannot be iterated"),
        (lambda x: torch.zeros(len(x)), "'len' is not supported"),
    ],
)
def test_what_cannot_be_traced(function, match):
    with pytest.raises((TraceError, RuntimeError), match=match):
        fx.symbolic_trace(function)


def test_unpacking_and_arguments():
    def f(x, *rest, **named):
        a, b = x.split(2)
        return a + b + rest[0] * named["k"]

    traced = fx.symbolic_trace(f)
    x = torch.arange(4.0)
    assert traced(x, torch.ones(2), k=3).tolist() == f(x, torch.ones(2), k=3).tolist()


def test_concrete_arguments():
    def f(x, flag, scale=2.0):
        return x * scale if flag else -x

    traced = fx.symbolic_trace(f, concrete_args={"flag": True})
    assert traced(torch.ones(2), True).tolist() == [2, 2]
    with pytest.raises(AssertionError, match="specialized to have value True"):
        traced(torch.ones(2), False)


def leaf(x, y):
    return x + y if x.sum() > 0 else x


fx.wrap("leaf")


def test_wrapped_functions_are_nodes():
    traced = fx.symbolic_trace(lambda x: leaf(x, 1) * 2)
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert leaf in targets and operator.mul in targets
    assert traced(torch.ones(2)).tolist() == [4, 4]


def test_operators_of_aten_are_nodes():
    traced = fx.symbolic_trace(lambda x: torch.ops.aten.add.Tensor(x, 1))
    (node,) = [n for n in traced.graph.nodes if n.op == "call_function"]
    assert node.target is torch.ops.aten.add.Tensor and node.name == "add_tensor"
    assert "torch.ops.aten.add.Tensor(x, 1)" in traced.code
    assert traced(torch.ones(1)).item() == 2
    assert pickle.loads(pickle.dumps(traced))(torch.ones(1)).item() == 2


def test_submodules_come_and_go():
    traced = fx.symbolic_trace(Branches())
    assert traced.add_submodule("more.deep", nn.Linear(1, 1))
    assert isinstance(traced.get_submodule("more.deep"), nn.Linear)
    traced.delete_all_unused_submodules()
    assert not hasattr(traced, "more") and hasattr(traced, "linear")
    assert traced.delete_submodule("linear") and not traced.delete_submodule("linear")


def test_a_pass_changes_what_is_computed():
    traced = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    for node in traced.graph.nodes:
        if node.target is torch.relu:
            node.target = torch.neg
    traced.recompile()
    assert traced(torch.ones(1)).item() == 0


def test_arguments_normalized():
    from tritorch.fx.operator_schemas import normalize_function

    def f(a, b=2, *, c=3):
        return a

    assert normalize_function(f, (1,), {"c": 4}) == ((1,), {"b": 2, "c": 4})
    found = normalize_function(f, (1, 5), {}, normalize_to_only_use_kwargs=True)
    assert found == ((), {"a": 1, "b": 5, "c": 3})
    with pytest.raises(TypeError, match="missing a required argument"):
        normalize_function(f, (), {"d": 1})
    traced = fx.symbolic_trace(Branches())
    node = next(n for n in traced.graph.nodes if n.op == "call_module")
    assert node.normalized_arguments(traced).args == node.args


def test_to_folder(tmp_path):
    traced = fx.symbolic_trace(Branches())
    traced.to_folder(tmp_path / "made", "Made")
    space = {}
    exec((tmp_path / "made" / "module.py").read_text(), space)
    x = torch.randn(2, 3)
    assert space["Made"]()(x)["out"].equal(traced(x)["out"])


def test_draws_are_not_dead_code():
    """A draw that nobody uses still moves the generator."""
    traced = fx.symbolic_trace(
        lambda x: (torch.rand_like(x), torch.bernoulli(x), F.dropout(x), torch.neg(x), x)[-1]
    )
    assert traced.graph.eliminate_dead_code()
    names = [n.name for n in traced.graph.nodes]
    assert names == ["x", "rand_like", "bernoulli", "dropout", "output"]


def test_names_in_code_are_those_of_nodes():
    """Also where a numbered name is read before the plain one."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(torch.neg, (x,))
    b = graph.call_function(torch.neg, (a,))
    with graph.inserting_before(a):
        c = graph.call_function(torch.neg, (x,))
    graph.output((b, a, c))
    module = fx.GraphModule({}, graph)
    assert [n.name for n in (a, b, c)] == ["neg", "neg_1", "neg_2"]
    assert "return (neg_1, neg, neg_2)" in module.code
    assert [v.item() for v in module(torch.tensor(1))] == [1, -1, -1]
