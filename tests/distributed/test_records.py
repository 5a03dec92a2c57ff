"""Collectives as records: in real processes, and as traces and tensors without memory see them."""

import pytest

import tritorch as torch
import tritorch.distributed as dist
from tests.distributed.processes import Ranks
from tests.tiers import first_quick
from tritorch._subclasses.fake_tensor import FakeTensorMode
from tritorch.arrays.meta import MetaArray
from tritorch.distributed import _functional_collectives as funcol
from tritorch.fx.experimental.proxy_tensor import make_fx
from tritorch.fx.passes.dialect.common.cse_pass import CSEPass
from tritorch.ops.record.operator import OPERATORS
from tritorch.schema import table

SIZE = 4


@pytest.mark.parametrize("size", first_quick([1, 2, 4], 2))
def test_collectives_in_compiled_functions(size):
    Ranks("records_program.py", size, "cpu").succeed()


@pytest.mark.parametrize(("size", "seed"), first_quick([(1, 0), (2, 5), (4, 2)]))
def test_collectives_of_gpus_in_compiled_functions(size, seed):
    Ranks("records_program.py", size, "cuda", TRITORCH_SIMULATE_CUDA=f"seed={seed}").succeed()


@pytest.fixture
def world():
    dist.init_process_group("fake", rank=1, world_size=SIZE, store=dist.HashStore())
    yield dist.group.WORLD
    dist.destroy_process_group()


def both_ways(call):
    """The operators of a call and of its gradient."""

    def run(x):
        return torch.autograd.grad(call(x).sum(), x)[0]

    graph = make_fx(run)(torch.randn(8, 4, requires_grad=True)).graph
    names = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    return [n.split(".")[1] for n in names if "c10d" in n and "wait_tensor" not in n]


# What torch 2.13 traces, but for broadcast: there it has no gradient.
TRACED = {
    "all_reduce": (
        lambda x, w: funcol.all_reduce(x, "SUM", w),
        ["all_reduce", "all_reduce"],
    ),
    "all_gather": (
        lambda x, w: funcol.all_gather_single(x, 1, w),
        ["all_gather_into_tensor", "reduce_scatter_tensor"],
    ),
    "reduce_scatter": (
        lambda x, w: funcol.reduce_scatter_single(x, "sum", 0, w),
        ["reduce_scatter_tensor", "all_gather_into_tensor"],
    ),
    "all_to_all": (
        lambda x, w: funcol.all_to_all_single(x, [1, 2, 3, 2], [2] * 4, w),
        ["all_to_all_single", "all_to_all_single"],
    ),
    "broadcast": (lambda x, w: funcol.broadcast(x, 1, w), ["broadcast", "all_reduce"]),
}


@pytest.mark.parametrize("name", TRACED)
def test_traces_have_collectives_and_their_gradients(world, name):
    call, wanted = TRACED[name]
    assert both_ways(lambda x: call(x, world)) == wanted


def test_only_sums_and_means_have_gradients(world):
    for word, name in (("max", "all_reduce"), ("product", "reduce_scatter_single")):
        args = (word, world) if name == "all_reduce" else (word, 0, world)
        out = getattr(funcol, name)(torch.ones(4, 2, requires_grad=True), *args)
        with pytest.raises(RuntimeError, match=f"backward only supports 'sum' reduction.*'{word}'"):
            out.sum().backward()


SHAPES = {
    "all_gather": (lambda x, w: funcol.all_gather_single(x, 1, w), (8, 12)),
    "reduce_scatter": (lambda x, w: funcol.reduce_scatter_single(x, "sum", 0, w), (2, 3)),
    "all_to_all": (lambda x, w: funcol.all_to_all_single(x, [1, 2, 3, 4], [2] * 4, w), (10, 3)),
    "all_reduce": (lambda x, w: funcol.all_reduce(x, "avg", w), (8, 3)),
    "several": (lambda x, w: funcol.all_gather_single_coalesced([x, x], w)[1], (32, 3)),
    "permute": (lambda x, w: funcol.permute_tensor(x, [1, 2, 3, 0], w), (8, 3)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_tensors_without_memory(world, name, monkeypatch):
    call, shape = SHAPES[name]
    monkeypatch.setattr(dist.ProcessGroup, "_run", None)  # nobody is asked
    assert call(torch.empty(8, 3, device="meta"), world).shape == shape
    with FakeTensorMode():
        found = call(torch.empty(8, 3, device="cuda"), world)
        assert found.shape == shape and found.device.type == "cuda"
    traced = make_fx(lambda x: call(x * 2, world), tracing_mode="symbolic")(torch.ones(8, 3))
    assert traced.graph.find_nodes(op="output")[0].args[0].meta["val"].shape == shape


class Unused(torch.nn.Module):
    def __init__(self, world):
        super().__init__()
        self.world = world

    def forward(self, x):
        funcol.all_reduce(x, "sum", self.world)
        funcol.all_reduce(x, "sum", self.world)
        return funcol.all_gather_single(x * 2, 0, self.world)


def collectives_of(graph):
    return [str(n.target).split(".")[1] for n in graph.nodes if "c10d" in str(n.target)]


def test_none_is_dropped_or_called_once_for_two(world):
    wanted = ["all_reduce", "wait_tensor"] * 2 + ["all_gather_into_tensor", "wait_tensor"]
    made = make_fx(Unused(world))(torch.ones(8, 3))
    made.graph.eliminate_dead_code()
    assert collectives_of(made.graph) == wanted
    shared = CSEPass()(make_fx(Unused(world))(torch.ones(8, 3))).graph_module
    calls = [name for name in collectives_of(shared.graph) if name != "wait_tensor"]
    assert calls == ["all_reduce", "all_reduce", "all_gather_into_tensor"]
    exported = torch.export.export(Unused(world), (torch.ones(8, 3),))
    assert collectives_of(exported.graph) == wanted
    assert collectives_of(exported.run_decompositions().graph) == wanted
    graph = torch._dynamo.explain(Unused(world))(torch.ones(8, 3)).graphs[0].graph
    assert collectives_of(graph) == wanted


def test_exported_programs_call_them(world):
    module = Unused(world)
    n = torch.export.Dim("n", min=2)
    exported = torch.export.export(module, (torch.ones(8, 3),), dynamic_shapes=({0: n},))
    assert exported.module()(torch.ones(5, 3)).shape == (20, 3)


def test_axes_and_costs():
    specs = (MetaArray((8, 3), torch.float32),)
    gather = OPERATORS["all_gather_into_tensor"]
    axes = gather.axes(specs, (SIZE, "0"))
    assert axes.inputs == axes.outputs == (("z", "a"),)
    assert axes.roles == {"z": "windowed", "a": "mapped"}
    assert gather.cost(specs, (SIZE, "0")) == (0, 4 * (24 + 96))
    reduce = OPERATORS["all_reduce"]
    assert set(reduce.axes(specs, ("sum", "0")).roles.values()) == {"mapped"}
    assert reduce.cost(specs, ("sum", "0")) == (24, 4 * 48)
    assert str(reduce.schema) == str(table.find("all_reduce", "", "_c10d_functional"))


def test_a_profile_names_the_record_and_what_moves(world):
    with torch.profiler.profile(record_shapes=True) as profile:
        funcol.all_gather_single(torch.ones(8, 3), 0, world)
    events = {event.name: event for event in profile.events()}
    assert events["_c10d_functional::all_gather_into_tensor"].input_shapes[0] == [8, 3]
    assert {"fake:all_gather", "_c10d_functional::wait_tensor"} <= events.keys()


def test_former_names_warn(world):
    with pytest.warns(FutureWarning, match="all_gather_single` instead"):
        assert funcol.all_gather_tensor(torch.ones(2), 0, world).shape == (8,)
