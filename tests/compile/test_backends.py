"""Backends get a region's graphs: what they are called, what the graphs say, and what runs."""

import operator
from importlib.metadata import EntryPoint
from unittest import mock

import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tritorch import nn
from tritorch._dynamo import exc
from tritorch._dynamo.backends import common, registry
from tritorch._dynamo.testing import (
    AotEagerAndRecordGraphs,
    CompileCounter,
    CompileCounterWithBackend,
    EagerAndRecordGraphs,
)
from tritorch._functorch import config as functorch_config
from tritorch._functorch.aot_autograd import (
    aot_function,
    aot_module,
    aot_module_simplified,
    make_boxed_compiler,
    make_boxed_func,
)
from tritorch._functorch.partitioners import (
    default_partition,
    min_cut_rematerialization_partition,
)
from tritorch.compilation.follow.calls import Call, Segment, Slot, Spec
from tritorch.compilation.tools.graphs import graph_module


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def graph_of(function, *args):
    recorder = EagerAndRecordGraphs()
    torch.compile(function, backend=recorder, fullgraph=True)(*args)
    (found,) = recorder.graphs
    return found


# ---- graphs --------------------------------------------------------------------------------------


def test_nodes_are_as_symbolic_tracing_writes_them():
    def whole(x, y):
        z = 2 - x @ y
        z += 1
        z[0] = 3
        a, b = z.split(1)
        values, places = torch.cat([a, b]).max(dim=1)
        return F.relu(values[None, :2], inplace=False), -places, abs(z).to(torch.float64)

    made = graph_of(whole, torch.randn(2, 3), torch.randn(3, 4))
    called = [node.target for node in made.graph.nodes if node.op.startswith("call")]
    assert called[:4] == [operator.matmul, operator.sub, operator.iadd, operator.setitem]
    assert called[4] == "split" and called[7] is torch.cat and "max" in called
    assert F.relu in called and operator.neg in called and "to" in called
    for line in ("arg0 @ arg1", "2 - matmul", "sub += 1", "[0] = 3", ".max(dim = 1)"):
        assert line in made.code
    (split,) = (node for node in made.graph.nodes if node.target == "split")
    assert [tuple(x.shape) for x in split.meta["val"]] == [(1, 4), (1, 4)]
    assert "a, b = z.split(1)" in split.stack_trace and __file__ in split.stack_trace
    first = next(iter(made.graph.nodes))
    example = first.meta["example_value"]
    assert example.shape == (2, 3) and example.stride() == (3, 1) and example.dtype == torch.float32
    made.graph.lint()
    made.graph.eliminate_dead_code()  # writes stay
    assert "[0] = 3" in made.recompile().src


def test_a_graph_has_what_no_code_can_write():
    generator = torch.Generator().manual_seed(3)

    def whole(x):
        return x + torch.rand(4, generator=generator)

    made = graph_of(whole, torch.zeros(4))
    assert made._constant0 is generator
    generator.manual_seed(3)
    same = torch.rand(4, generator=torch.Generator().manual_seed(3))
    assert made(torch.zeros(4))[-1].equal(same)


def test_graphs_know_where_gradients_were_off():
    def whole(x):
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale

    x = torch.randn(4, requires_grad=True)
    made = graph_of(whole, x)
    assert made.code.count("torch._C._set_grad_enabled(False)") == 1
    assert made.code.count("torch._C._set_grad_enabled(True)") == 1
    scale, quotient = made(x)[-2:]
    assert quotient.requires_grad and not scale.requires_grad and torch.is_grad_enabled()


def test_segments_with_what_gates_there_are():
    spec = Spec((2,), torch.float32, (1,), torch.device("cpu"), False)
    methods = torch.Tensor.__rsub__, torch.Tensor.__invert__, torch.Tensor.clamp
    calls = [
        Call(methods[0], (Slot(0), 5), {}, Slot(1), None),
        Call(methods[2], (Slot(1),), {"min": Slot(0), "max": None}, Slot(2), None),
        Call(torch.stack, ([Slot(1), Slot(2)],), {"dim": 0}, Slot(3), None),
        Call(torch.Tensor.__getitem__, (Slot(3), (slice(0, 1), ...)), {}, Slot(4), None),
    ]
    segment = Segment(0, calls, [0], [4, 2], dict.fromkeys(range(5), spec), "end", None)
    made = graph_module(segment, {0: "weight"})
    taken, clamped = made(torch.tensor([1.0, 2.0]))
    assert taken.tolist() == [[4, 3]] and clamped.tolist() == [4, 3]
    assert "5 - weight" in made.code and "clamp(min = weight, max = None)" in made.code


def test_inputs_are_called_as_the_module_calls_them():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    recorder = EagerAndRecordGraphs()
    torch.compile(net, backend=recorder)(torch.randn(3, 2))
    code = recorder.graphs[0].code
    assert "l_self_modules_0_parameters_weight_" in code
    assert "l_self_modules_1_buffers_running_mean_" in code
    bound = EagerAndRecordGraphs()
    net[0].compile(backend=bound)
    net(torch.randn(3, 2))
    assert "l_self_parameters_bias_" in bound.graphs[0].code


# ---- names ---------------------------------------------------------------------------------------


def test_names_of_backends():
    shown = torch.compiler.list_backends()
    assert shown == ["cudagraphs", "inductor", "openxla", "tvm"]
    known = torch._dynamo.list_backends(None)
    assert {"eager", "aot_eager", "ts", *shown} < set(known) and known == sorted(known)

    @torch._dynamo.register_backend(name="mine", tags=("debug",))
    def whatever(gm, example_inputs):
        return gm.forward

    try:
        assert torch._dynamo.lookup_backend("mine") is whatever
        assert "mine" not in torch._dynamo.list_backends()
        assert "mine" in torch._dynamo.list_backends(exclude_tags=None)
        assert torch.compile(lambda x: x + 1, backend="mine")(torch.ones(1)).item() == 2
        with pytest.raises(AssertionError, match="duplicate name: mine"):
            registry.register_backend(whatever, name="mine")
    finally:
        del registry._BACKENDS["mine"], registry._COMPILER_FNS["mine"]
    with pytest.raises(AssertionError, match="compiler_fn must be callable"):
        registry.register_backend(3)
    with pytest.raises(exc.InvalidBackend):
        torch._dynamo.lookup_backend("mine")


def test_backends_of_packages():
    point = EntryPoint(
        "theirs",
        "tritorch._dynamo.backends.common:dtype_from_inputs",
        "torch_dynamo_backends",
    )
    with mock.patch.object(registry, "entry_points", lambda group: [point]):
        registry._discover_entrypoint_backends.__wrapped__()
    try:
        assert "theirs" in torch._dynamo.list_backends()
        assert torch._dynamo.lookup_backend("theirs") is common.dtype_from_inputs
    finally:
        del registry._BACKENDS["theirs"]
        registry._COMPILER_FNS.pop("theirs", None)


def test_the_default_backend():
    counter = CompileCounter()
    torch.compiler.set_default_backend(counter)
    try:
        assert torch.compiler.get_default_backend() is counter
        torch.compile(lambda x: x + 1)(torch.ones(1))
    finally:
        torch.compiler.set_default_backend(None)
    assert counter.frame_count == 1 and torch.compiler.get_default_backend() == "inductor"


# ---- what they are told, and give ----------------------------------------------------------------


def test_a_backend_is_told_options_and_asked_once():
    asked = []

    def backend(gm, example_inputs, **kwargs):
        asked.append((kwargs, [tuple(x.shape) for x in example_inputs]))
        return lambda x: (gm(x)[0] * 10,)

    x = torch.ones(2)
    made = torch.compile(lambda x: x + 1, backend=backend, options={"level": 3})
    made(x)
    for _ in range(2):
        assert made(x).tolist() == [20, 20]  # what the backend computes
    assert asked == [({"options": {"level": 3}}, [(2,)])]
    torch.compile(lambda x: x + 1, backend=backend, mode="default")(x)
    torch.compile(lambda x: x + 1, backend=backend, mode="reduce-overhead")(x)
    assert [kwargs for kwargs, _ in asked[1:]] == [{}, {"mode": "reduce-overhead"}]


def test_boxed_functions_and_single_tensors():
    def boxed(gm, example_inputs):
        def run(args):
            found = gm(*args)
            args.clear()
            return list(found)

        run._boxed_call = True
        return run

    x = torch.ones(2)
    for backend in (boxed, lambda gm, _: lambda *args: gm(*args)[0]):
        made = torch.compile(lambda x: x + 1, backend=backend)
        assert [made(x).tolist() for _ in range(3)] == [[2, 2]] * 3


def test_a_backend_that_fails():
    def failing(gm, example_inputs):
        raise ValueError("oh")

    x = torch.ones(1)
    with pytest.raises(
        exc.BackendCompilerFailed, match="backend='failing' raised:\nValueError: oh"
    ):
        torch.compile(lambda x: x + 1, backend=failing)(x)
    with torch._dynamo.config.patch(suppress_errors=True):
        made = torch.compile(lambda x: x + 1, backend=failing)
        assert made(x).item() == made(x).item() == 2
    with pytest.raises(TypeError, match="compiler_fn did not return callable"):
        torch.compile(lambda x: x + 1, backend=lambda gm, _: None)(x)


def test_counters_of_tests():
    counter = CompileCounterWithBackend("aot_eager")
    made = torch.compile(lambda x: (x + 1).relu() * 2, backend=counter)
    x = torch.randn(3)
    made(x)
    assert (counter.frame_count, counter.op_count, len(counter.graphs)) == (1, 3, 1)
    made(x)
    assert counter.frame_count == 1
    made(torch.randn(3, 2, dtype=torch.float64))
    assert counter.frame_count == 2
    counter.clear()
    assert (counter.frame_count, counter.op_count, counter.graphs) == (0, 0, [])


RUNS = [None, "eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "cudagraphs",
        "ts"]  # fmt: skip


@pytest.mark.parametrize("backend", RUNS)
def test_each_gives_what_the_module_gives(backend):
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.GELU(), nn.Flatten(), nn.LayerNorm(16), nn.Linear(16, 3)
    )
    made = torch.compile(net, backend=backend)
    for x in (torch.randn(5, 2, 6), torch.randn(5, 2, 6), torch.randn(2, 2, 6)):
        wanted = net(x)
        gradients = torch.autograd.grad(wanted.square().sum(), [*net.parameters()])
        found = made(x)
        torch.testing.assert_close(found, wanted)
        again = torch.autograd.grad(found.square().sum(), [*net.parameters()])
        torch.testing.assert_close(again, gradients)
        with torch.no_grad():
            torch.testing.assert_close(made(x), wanted.detach())


# ---- ATen's graphs -------------------------------------------------------------------------------


def test_graphs_of_both_passes():
    recorder = AotEagerAndRecordGraphs()
    made = torch.compile(lambda x, w: (x @ w).relu(), backend=recorder)
    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    for _ in range(2):
        w.grad = None
        made(x, w).sum().backward()
        torch.testing.assert_close(w.grad, x.T @ ((x @ w) > 0).float())
    (forward,), (backward,) = recorder.fw_graphs, recorder.bw_graphs
    aten = torch.ops.aten
    assert [n.target for n in forward.graph.nodes if n.op == "call_function"][:2] == [
        aten.mm.default, aten.relu.default,
    ]  # fmt: skip
    targets = [n.target for n in backward.graph.nodes if n.op == "call_function"]
    assert aten.threshold_backward.default in targets and aten.mm.default in targets
    names = [n.name for n in backward.graph.nodes if n.op == "placeholder"]
    assert names[-1].startswith("tangents") and not names[0].startswith("tangents")


def test_compilers_of_aten():
    seen = []

    def compiler(gm, example_inputs):
        seen.append([tuple(x.shape) for x in example_inputs])
        return make_boxed_func(gm.forward)

    def sigmoid(x):
        return 1 / (1 + (-x).exp())

    table = {torch.ops.aten.sigmoid.default: sigmoid}
    backend = common.aot_autograd(fw_compiler=compiler, decompositions=table)
    x = torch.randn(2, 3)
    made = torch.compile(lambda x: x.sigmoid(), backend=backend)
    torch.testing.assert_close((made(x), made(x)[:1]), (x.sigmoid(), x.sigmoid()[:1]))
    assert seen == [[(2, 3)]]

    graphs = []
    boxed = make_boxed_compiler(lambda gm, _: graphs.append(gm) or gm.forward)
    run = aot_function(lambda a, b: {"sum": a + b["y"], "n": a.detach()}, boxed)
    a, b = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    found = run(a, {"y": b})
    assert found["sum"].requires_grad and not found["n"].requires_grad
    found["sum"].backward(torch.ones(3))
    assert a.grad.tolist() == b.grad.tolist() == [1, 1, 1] and len(graphs) == 2

    net = nn.Linear(3, 2)
    torch.testing.assert_close(aot_module(net, boxed)(x), net(x))
    (y,) = aot_module_simplified(net, [x], boxed)(x)
    y.sum().backward()
    assert net.bias.grad.tolist() == [2, 2]


def _divided(partition, part=1.0):
    """What a forward graph gives behind its result, and what the function and its gradients are."""
    graphs = []
    boxed = make_boxed_compiler(lambda gm, _: graphs.append(gm) or gm.forward)

    def function(x, w, b):
        y = nn.functional.gelu(x @ w + b).sigmoid().cos()
        return (torch.softmax(nn.functional.dropout(y) @ w, -1) * y.exp()).sum()

    torch.manual_seed(0)
    args = [torch.randn(8, 8, requires_grad=True) for _ in range(3)]
    with functorch_config.patch(activation_memory_budget=part):
        found = aot_function(function, boxed, partition_fn=partition)(*args)
        gradients = torch.autograd.grad(found, args)
    (output,) = (node for node in graphs[0].graph.nodes if node.op == "output")
    return {str(node.target) for node in output.args[0][1:]}, [found, *gradients]


def test_a_cut_through_a_graph_of_both_passes():
    """Of a chain of pointwise calls one array is saved; what was drawn and, unless the budget says
    so, what products and softmax gave is saved, and all gives the same bits."""
    every, expected = _divided(default_partition)
    assert {"aten.gelu.default", "aten.exp.default"} <= every
    counts = []
    for part in (1.0, 0.0):
        saved, found = _divided(min_cut_rematerialization_partition, part)
        assert all(a.equal(b) for a, b in zip(found, expected, strict=True))
        assert not saved & {"aten.gelu.default", "aten.exp.default", "aten.sin.default"}
        counts.append(len(saved))
        assert ("aten.softmax.int" in saved) == (part == 1)
    assert counts[1] < counts[0] < len(every)


def test_what_writes_into_its_arguments():
    def whole(x, y):
        x.add_(1)
        return x * y

    recorder = AotEagerAndRecordGraphs()
    made = torch.compile(whole, backend=recorder)
    y = torch.randn(3, requires_grad=True)
    for n in (1, 2):
        x = torch.zeros(3)
        found = made(x, y)
        assert x.tolist() == [1, 1, 1], n
        torch.testing.assert_close(found, y)
        (gradient,) = torch.autograd.grad(found.sum(), y)
        assert gradient.tolist() == [1, 1, 1]
    assert not recorder.bw_graphs


# ---- which operator is wrong ---------------------------------------------------------------------


def model(x, w):
    y = torch.tanh(x @ w) * 3
    if y.sum() > -1e9:
        y = y - y.mean(-1, keepdim=True)
    z = torch.relu(y)
    return (z.sum(-1) + 1).sqrt()


def wrong_sqrt(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target == "sqrt":
            node.op, node.target, node.args = "call_function", torch.mul, (node.args[0], 1.0001)
    gm.recompile()
    return gm.forward


def test_bisect_names_the_first_wrong_operator():
    torch.manual_seed(0)
    x, w = torch.randn(8, 16), torch.randn(16, 16)
    for backend in (None, "eager", "aot_eager"):
        assert torch.compiler.bisect(model, x, w, backend=backend) is None
    found = torch.compiler.bisect(model, x, w, backend="relu_accuracy_error_TESTING_ONLY")
    assert (found.operator, found.segment, found.call) == ("torch.relu", 1, 2)
    assert found.place[0] == __file__ and found.place[2] == "model"
    assert found.error > 0.5 > found.allowed
    assert str(found).startswith(f"torch.relu at {__file__}:{found.place[1]}, call 2 of graph 1:")
    found = torch.compiler.bisect(torch.compile(model), x, w, backend=wrong_sqrt)
    assert found.operator == "torch.Tensor.sqrt"


def test_bisect_names_the_call_at_which_a_backend_fails():
    def model(x):
        return torch.relu(x + 1).sqrt()

    for kind in ("compile", "runtime"):
        found = torch.compiler.bisect(
            model, torch.ones(3), backend=f"relu_{kind}_error_TESTING_ONLY"
        )
        assert found.operator == "torch.relu"
        assert f"Relu{kind.title()}Error" in found.raised in str(found)


def test_bisect_of_modules_with_state_and_chance():
    net = nn.Sequential(
        nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.ReLU(), nn.Linear(8, 2)
    )
    before = net[1].running_mean.clone()
    state = torch.get_rng_state()
    assert torch.compiler.bisect(net, torch.randn(8, 16), backend="eager") is None
    assert not net[1].running_mean.equal(before)  # one run
    torch.set_rng_state(state)
    found = torch.compiler.bisect(
        net, torch.randn(8, 16), backend="relu_accuracy_error_TESTING_ONLY"
    )
    assert found.operator == "torch.nn.functional.relu"


def test_bisect_tells_rounding_from_faults():
    def blurred(gm, example_inputs):  # within rounding of 40 sums of a thousand numbers
        return lambda *args: tuple(x * (1 + 2**-24) for x in gm(*args))

    def biased(gm, example_inputs):
        return lambda *args: tuple(x * (1 + 2**-10) for x in gm(*args))

    def whole(x, w):
        return (x @ w) @ w

    args = torch.randn(4, 64), torch.randn(64, 64)
    assert torch.compiler.bisect(whole, *args, backend=blurred) is None
    found = torch.compiler.bisect(whole, *args, backend=biased)
    assert found.call == 0 and found.operator == "torch.Tensor.__matmul__"

    def written(x):
        y = x.clone()
        y.add_(1)
        y[0] = 7
        return y.relu_()

    def forgets(gm, example_inputs):
        for node in list(gm.graph.nodes):
            if node.target is operator.setitem:
                gm.graph.erase_node(node)
        gm.recompile()
        return gm.forward

    found = torch.compiler.bisect(written, torch.randn(3), backend=forgets)
    assert found.operator == "torch.Tensor.__setitem__"


def without_gradients(x):
    with torch.no_grad():
        y = x * 3
    return x * 2, y


def in_bfloat16(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    return y + 1


PROGRAMS = {
    "a view of an input": lambda x: x.view(-1),
    "a result twice": lambda x: ((y := x * 2), y, y.t()),
    "detached": lambda x: (x * 2).detach() + x,
    "written inside": lambda x: (x * 2).add_(1).mul_(3),
    "drawn": lambda x: F.dropout(x * 1.0, 0.5),
    "no_grad": without_gradients,
    "integers": lambda x: (x * 2).argmax(-1),
    "lists as indices": lambda x: x[[0, 1], [1, 0]] * 2,
    "autocast": in_bfloat16,
}


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wants", [True, False])
def test_programs_of_many_kinds(backend, name, wants):
    function = PROGRAMS[name]
    made = torch.compile(function, backend=backend)
    x = torch.randn(3, 3, requires_grad=wants)
    for seed in range(4):
        both = []
        for run in (function, made):
            torch.manual_seed(seed)
            results = run(x)
            results = [results] if isinstance(results, torch.Tensor) else [*results]
            kinds = [(y.dtype, y.requires_grad) for y in results]
            wanted = [y.float().sum() for y in results if y.requires_grad]
            gradients = torch.autograd.grad(wanted, [x]) if wanted else []
            both.append((kinds, [y.detach() for y in results], gradients))
        (kinds, values, gradients), (kinds_2, values_2, gradients_2) = both
        assert kinds == kinds_2
        torch.testing.assert_close((values, gradients), (values_2, gradients_2))


@pytest.mark.device
@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "cudagraphs"])
def test_on_the_gpu(backend):
    def whole(x, w):
        return torch.relu(x @ w + 1).sum(-1)

    made = torch.compile(whole, backend=backend)
    x = torch.randn(4, 8, device="cuda")
    w = torch.randn(8, 3, device="cuda", requires_grad=True)
    for _ in range(4):
        wanted, found = whole(x, w), made(x, w)
        assert found.is_cuda and found.requires_grad
        torch.testing.assert_close(found, wanted)
        (one,) = torch.autograd.grad(wanted.sum(), w)
        (other,) = torch.autograd.grad(found.sum(), w)
        torch.testing.assert_close(other, one)
    if backend is not None and backend != "cudagraphs":
        assert torch.compiler.bisect(whole, x, w, backend=backend) is None
