"""Passes over graphs: parts as modules, patterns, drawings, operators that write in place."""

import collections
import operator

import pytest

import tritorch as torch
from tests.fx.architectures import MODELS
from tritorch import fx, nn
from tritorch._subclasses import FakeTensorMode
from tritorch.fx.experimental import const_fold, optimization
from tritorch.fx.experimental.accelerator_partitioner import Partitioner
from tritorch.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from tritorch.fx.experimental.partitioner_utils import (
    Device,
    NodeLatency,
    PartitionerConfig,
    PartitionMode,
    get_extra_size_of,
)
from tritorch.fx.experimental.proxy_tensor import make_fx
from tritorch.fx.experimental.rewriter import RewritingTracer
from tritorch.fx.passes.dialect.common.cse_pass import CSEPass
from tritorch.fx.passes.fake_tensor_prop import FakeTensorProp
from tritorch.fx.passes.graph_drawer import FxGraphDrawer
from tritorch.fx.passes.graph_manipulation import get_size_of_all_nodes
from tritorch.fx.passes.graph_transform_observer import GraphTransformObserver
from tritorch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from tritorch.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from tritorch.fx.passes.net_min_base import _MinimizerBase, _MinimizerSettingBase
from tritorch.fx.passes.operator_support import create_op_support
from tritorch.fx.passes.reinplace import reinplace
from tritorch.fx.passes.shape_prop import ShapeProp
from tritorch.fx.passes.split_module import split_module
from tritorch.fx.passes.split_utils import split_by_tags
from tritorch.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase
from tritorch.fx.passes.utils.matcher_utils import SubgraphMatcher


@pytest.mark.parametrize("model", MODELS[:4], ids=lambda m: m.__name__)
def test_parts_compute_the_whole(model):
    """The same bits: split in three, split by tags, fused where a backend can run it, folded."""
    torch.manual_seed(0)
    module, x = model().eval(), torch.randn(2, 3, 16, 16)
    traced = fx.symbolic_trace(module)
    want = module(x)
    calls = [n for n in traced.graph.nodes if n.op.startswith("call")]
    part = {node: 3 * place // len(calls) for place, node in enumerate(calls)}
    names = {}
    split = split_module(traced, module, part.__getitem__, names, keep_original_order=True)
    split.graph.lint()
    assert [n for n, _ in split.named_children()] == ["submod_0", "submod_1", "submod_2"]
    assert split(x).equal(want) and {v.partition(".")[0] for v in names.values()} >= {
        n for n, _ in traced.named_children()
    }
    for node in calls:
        node.tag = f"part{part[node]}"
    tagged, moved = split_by_tags(traced, ["part0", "part1", "part2"], return_fqn_mapping=True)
    assert tagged(x).equal(want) and all(k in v for k, v in moved.items())
    support = create_op_support(lambda modules, node: node.op == "call_module")
    fused = CapabilityBasedPartitioner(traced, support, allows_single_node_partition=True)
    whole = fused.partition_and_fuse()
    called = {n.target for n in whole.graph.nodes if n.op == "call_module"}
    assert called and all(name.startswith("fused_") for name in called)
    assert whole(x).equal(want)


def test_a_partition_has_no_way_back():
    """a and c are supported, b between them is not: they are no group; a and d are."""

    def f(x):
        a = torch.relu(x)
        b = torch.neg(a)
        c = torch.relu(b)
        d = torch.relu(a)
        return c + d

    traced = fx.symbolic_trace(f)
    support = create_op_support(
        lambda modules, node: node.op == "call_function" and node.target is torch.relu
    )
    found = CapabilityBasedPartitioner(traced, support, allows_single_node_partition=True)
    groups = {frozenset(n.name for n in p.nodes) for p in found.propose_partitions()}
    assert groups == {frozenset({"relu", "relu_2"}), frozenset({"relu_1"})} or groups == {
        frozenset({"relu"}), frozenset({"relu_1", "relu_2"})
    }  # fmt: skip
    fused = found.partition_and_fuse()
    x = torch.randn(4)
    assert fused(x).equal(f(x))


def test_splitting_for_an_accelerator(capsys):
    def f(x):
        return torch.relu((x + 1) * 2).abs() - 3

    traced = fx.symbolic_trace(f)
    support = create_op_support(lambda modules, node: node.op == "call_function")
    splitter = _SplitterBase(traced, (torch.ones(2),), support, _SplitterSettingBase())
    made = splitter.generate_split_results()
    names = [name for name, _ in made.split_module.named_children()]
    assert names == ["_run_on_acc_0", "_run_on_cpu_1", "_run_on_acc_2"]
    assert made.split_module(torch.ones(2)).equal(f(torch.ones(2)))
    assert made.submodule_inputs["_run_on_cpu_1"][0].tolist() == [4, 4]
    assert "Got 2 acc subgraphs and 1 non-acc subgraphs" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["sequential", "binary", "accumulate", "block"])
def test_minimizers_find_the_node(method, capsys):
    class Minimizer(_MinimizerBase):
        def run_a(self, mod, inputs, report_idx=-1):
            return mod(*inputs)

        def run_b(self, mod, inputs, report_idx=-1):
            wrong = any(node.op == "call_method" for node in mod.graph.nodes)
            return mod(*inputs) + int(wrong)

    traced = fx.symbolic_trace(lambda x: (((x + 1) * 2).relu() - 3) * 4)
    settings = _MinimizerSettingBase(traverse_method=method)
    compare = lambda a, b, names: (float((a - b).abs().max()), a.equal(b))
    found = Minimizer(traced, (torch.ones(2),), compare, settings).minimize()
    assert [node.name for node in found] == ["relu"]


def test_common_subexpressions():
    def f(x):
        return x.cos() + x.cos() + (x + 1) * (x + 1.0)

    x = torch.randn(3)
    made = CSEPass()(make_fx(f)(x))
    assert made.modified and made.graph_module(x).equal(f(x))
    names = [n.target.__name__ for n in made.graph_module.graph.nodes if n.op == "call_function"]
    assert names.count("cos.default") == 1
    assert names.count("add.Tensor") == 4  # 1 and 1.0 are not the same argument


def test_operators_write_in_place():
    def f(x):
        a = x.clone()
        b = a.add(1)
        c = b.view(-1).mul(2)
        return c, x.add(3)

    x = torch.randn(2, 3)
    want, rest = f(x)
    made = reinplace(make_fx(f)(x), x)
    names = [n.target.__name__ for n in made.graph.nodes if n.op == "call_function"]
    assert names == ["clone.default", "add_.Tensor", "view.default", "mul_.Tensor", "add.Tensor"]
    kept = x.clone()
    out = made(x)
    assert out[0].equal(want) and out[1].equal(rest) and x.equal(kept)


def test_pass_managers_put_passes_in_order():
    order = []

    def first(gm):
        order.append("first")

    def second(gm):
        order.append("second")

    passes = [pass_result_wrapper(second), pass_result_wrapper(first)]
    manager = PassManager(passes, [this_before_that_pass_constraint(passes[1], passes[0])])
    manager(fx.symbolic_trace(lambda x: x + 1))
    assert order == ["first", "second"]
    manager.add_constraint(this_before_that_pass_constraint(passes[0], passes[1]))
    with pytest.raises(RuntimeError, match="Circular dependency"):
        manager(fx.symbolic_trace(lambda x: x + 1))


def test_patterns_with_literals_and_two_results():
    def f(x, y):
        a = torch.relu(x + 2)
        return a * 3, torch.neg(y).sum()

    traced = fx.symbolic_trace(f)
    pattern = fx.symbolic_trace(lambda x, y: (torch.relu(x), torch.neg(y))).graph
    (match,) = SubgraphMatcher(pattern).match(traced.graph)
    assert [n.name for n in match.returning_nodes] == ["relu", "neg"]
    other = fx.symbolic_trace(lambda x: x + 5).graph
    assert SubgraphMatcher(other).match(traced.graph) == []
    assert len(SubgraphMatcher(other, ignore_literals=True).match(traced.graph)) == 1


def test_drawings(tmp_path):
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    ShapeProp(traced).propagate(torch.ones(1, 2))
    drawing = FxGraphDrawer(traced, "model").get_dot_graph()
    text = drawing.to_string()
    assert text.startswith("digraph model {") and "_0 -> _1;" in text
    assert r"torch.nn.modules.linear.Linear" in text and "shape=(1, 3)" in text
    assert [node.get_name() for node in drawing.get_node_list()][:2] == ["input_1", "_0"]
    drawing.write_svg(tmp_path / "model.svg")
    picture = (tmp_path / "model.svg").read_text()
    assert picture.count("<rect") == 6 and picture.count("<line") == len(drawing.get_edges())


def test_fakes_and_sizes():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten()).eval()
    traced = fx.symbolic_trace(model)
    FakeTensorProp(traced).propagate(torch.ones(2, 3, 8, 8))
    last = traced.graph.output_node().args[0]
    assert last.meta["val"].shape == (2, 144) and "FakeTensor" in repr(last.meta["val"])
    mode = FakeTensorMode()
    ShapeProp(traced, mode).propagate(torch.ones(2, 3, 8, 8))
    assert last.meta["tensor_meta"].shape == (2, 144)
    get_size_of_all_nodes(traced, [torch.ones(2, 3, 8, 8)])
    conv = traced.graph.find_nodes(op="call_module")[0]
    assert conv.size_bytes == (2 * 4 * 36 * 4, 2 * 4 * 36 * 4 + (4 * 27 + 4) * 4)


def test_observers_say_what_a_pass_made(tmp_path):
    traced = fx.symbolic_trace(lambda x: torch.relu(x))
    observer = GraphTransformObserver(traced, "swap", log_url=str(tmp_path))

    def swap(graph):
        relu = graph.find_nodes(op="call_function", target=torch.relu)[0]
        with graph.inserting_after(relu):
            other = graph.call_function(torch.sigmoid, relu.args)
        relu.replace_all_uses_with(other)
        graph.erase_node(relu)

    observer.apply_graph_pass(swap)
    assert observer.created_nodes == {"sigmoid"} and observer.erased_nodes == {"relu"}
    new = traced.graph.find_nodes(op="call_function", target=torch.sigmoid)[0]
    assert [source.name for source in new.meta["from_node"]] == ["relu"]
    assert len(list(tmp_path.iterdir())) == 2


def test_constants_are_computed_once():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.ones(3))
            self.b = nn.Parameter(torch.full((3,), 2.0))

        def forward(self, x):
            return x * (self.a + self.b).exp()

    module, x = M(), torch.randn(3)
    folded = const_fold.split_const_subgraphs(module)
    assert not [n for n in folded.graph.nodes if n.target in (operator.add, "exp")]
    assert folded(x).equal(module(x)) and folded.has_folding_been_run


def test_fused_for_inference():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(), nn.Flatten(),
        nn.Linear(144, 5), nn.BatchNorm1d(5),
    )  # fmt: skip
    for _ in range(2):
        model(torch.randn(8, 3, 8, 8))
    model.eval()
    x = torch.randn(2, 3, 8, 8)
    made = optimization.optimize_for_inference(model)
    kinds = [type(made.get_submodule(n.target)).__name__
             for n in made.graph.nodes if n.op == "call_module"]  # fmt: skip
    assert kinds == ["Conv2d", "ReLU", "Flatten", "Linear"]
    assert torch.allclose(made(x), model(x), atol=1e-5)


def test_arguments_by_name_and_operators():
    traced = fx.symbolic_trace(lambda x: torch.add(torch.nn.functional.gelu(x), x))
    ShapeProp(traced).propagate(torch.ones(2))
    plain = NormalizeOperators(traced).transform()
    assert "gelu + x" in plain.code
    named = NormalizeArgs(traced).transform()
    assert "gelu(input = x, approximate = 'none')" in named.code.replace("input_1", "input")
    assert named(torch.ones(2)).equal(traced(torch.ones(2)))


def test_asserts_are_rewritten():
    class M(nn.Module):
        def forward(self, x):
            assert x.shape[0] > 2, "too short"
            return x + 1

    module = M()
    traced = fx.GraphModule(module, RewritingTracer().trace(module))
    assert traced(torch.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(AssertionError, match="too short"):
        traced(torch.ones(1))


def sized(module, *inputs):
    """The module as a graph whose nodes know their sizes."""
    traced = fx.symbolic_trace(module)
    get_size_of_all_nodes(traced, list(inputs))
    return traced


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, a):
        first = a + torch.ones(4)
        second = first + torch.ones(4)
        third = self.linear(first)
        return second + (second + third)


@pytest.mark.parametrize("mode", ["size_based", "cost_aware", "kl_based"])
def test_a_module_too_large_for_a_device(mode):
    """Each part fits its device, and the parts compute what the module does."""
    module, x = Branches(), torch.randn(4)
    traced = sized(module, x)
    seconds = {
        node: NodeLatency(node.size_bytes.total_size, 2.0)
        for node in traced.graph.nodes
        if node.op.startswith("call")
    }
    devices = [Device(f"dev_{n}", 150, n) for n in range(4)]
    config = PartitionerConfig(devices, PartitionMode[mode], 2.0, seconds)
    partitioner = Partitioner()
    dag, divided = partitioner.partition_graph(traced, module, config)
    assert len(partitioner.partitions) > 1 and divided(x).equal(module(x))
    assert [str(each) for each in dag.nodes] == [
        n.name for n in divided.graph.nodes if n.op == "call_module"
    ]
    held = collections.defaultdict(set)
    for each in partitioner.partitions:
        (number,) = each.logical_device_ids
        held[number] |= each.nodes
    for nodes in held.values():  # what parts share is there once
        assert sum(get_extra_size_of(node, nodes) for node in nodes) <= 150


def test_idle_devices_hold_copies():
    module, x = Branches(), torch.randn(4)
    sizes = (200, 200, 100, 100, 200, 100)
    devices = [Device(f"dev_{n}", size, n) for n, size in enumerate(sizes)]
    partitioner = Partitioner()
    config = PartitionerConfig(devices, saturate_host=True)
    partitioner.partition_graph(sized(module, x), module, config)
    assert [p.logical_device_ids for p in partitioner.partitions] == [[0, 4], [1, 2]]
    with pytest.raises(RuntimeError, match="enough memory"):
        Partitioner().partition_graph(
            sized(module, x), module, PartitionerConfig([Device("dev_0", 10, 0)])
        )
