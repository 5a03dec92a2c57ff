"""Programs as CUDA graphs: what is computed, what is changed of a graph, and when there is none."""

import gc
import re
import threading

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch.compilation.plan import plans
from tritorch.compilation.tools import showing
from tritorch.gpu.arrays import from_numpy

from . import graph_kernels

pytestmark = pytest.mark.device
F, nn = torch.nn.functional, torch.nn
RUNS = 5  # until there is a graph: followed, noted, drafted, recorded twice


EXACT = {"triton.cudagraphs": True, "emulate_precision_casts": True}


def compiled(function, **how):
    return torch.compile(function, **(how or {"options": EXACT}))


@pytest.fixture
def counted():
    """The counts since it was last asked."""
    before = _C.replay_counts()

    def counts():
        nonlocal before
        now = _C.replay_counts()
        found = {name: now[name] - before[name] for name in now}
        before = now
        return found

    return counts


@pytest.fixture
def reasons(monkeypatch):
    """Why programs have no graph."""
    found = []
    monkeypatch.setattr(
        showing, "graphed", lambda what, text: found.append(text) if what == "none" else None
    )
    return found


class Program:
    """A native program of functions of arrays, each of which gets the inputs, or what the last one
    gave."""

    def __init__(self, *functions, inputs=1, most=0.75):
        self.told = {}
        rows = []
        for i, function in enumerate(functions):
            given = tuple(range(inputs)) if i == 0 or inputs > 1 else (i,)
            rows.append((function, (None,) * inputs, given, (i + inputs,), ()))
        self.program = _C.Program(len(functions) + inputs, (), tuple(rows), (), (), None, ())
        self.program.as_graph(self.told.__setitem__, most)

    def __call__(self, *given):
        result = self.program.run((), *(x._array for x in given))[-1]
        return _C.wrap(result) if type(result) is _C.Array else result

    @property
    def graph(self):
        (found,) = self.program.graphs
        return found


def pointwise(name, x, y):
    from tritorch.gpu.pointwise import pointwise

    return pointwise.call(name, (x, y), torch.float32, torch.float32)


def normal(*shape, **how):
    return torch.randn(*shape, device="cuda", **how)


def layers(x, w, b):
    return torch.softmax(torch.relu(x @ w + b) @ w, -1)


def weights():
    return normal(8, 8), normal(8)


# ---- what is computed ----------------------------------------------------------------------------


def test_results_are_eagers_and_stay_what_they_are(counted):
    w, b = weights()
    fast = compiled(layers)
    rows = normal(12, 4, 8)
    given = [rows[i // 2] if i % 2 else normal(4, 8) for i in range(24)]  # elsewhere each time
    results = [fast(x, w, b) for x in given]
    for x, y in zip(given, results):
        assert y.equal(layers(x, w, b))
    counts = counted()  # views are compared as such: they go a way of their own
    assert counts["built"] == 2 and counts["replayed"] == 2 * (12 - RUNS)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.norm = nn.BatchNorm1d(8)
        self.inner = nn.Linear(8, 16)
        self.dropout = nn.Dropout(0.3)
        self.outer = nn.Linear(16, 7)

    def forward(self, numbers, targets):
        x = self.norm(self.embedding(numbers).transpose(1, 2)).transpose(1, 2)
        x = x + F.scaled_dot_product_attention(
            *(z[:, None] for z in (x, x, x)), dropout_p=0.2 if self.training else 0.0
        ).squeeze(1)
        x = self.outer(self.dropout(F.gelu(self.inner(x))))
        return F.cross_entropy(x.flatten(0, 1), targets.flatten())


def trained(compiler, steps=10):
    """What is left of a training: losses, parameters and buffers, where the generator is."""
    torch.manual_seed(5)
    model = Network().cuda()
    step = compiler(model)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        numbers = torch.randint(0, 7, (3, 5), device="cuda")
        optimizer.zero_grad()
        loss = step(numbers, numbers)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    offset = torch.cuda.default_generators[0].get_offset()
    return [x.item() for x in losses], [*model.state_dict().values()], offset


def test_training_is_eagers(counted):
    losses, state, offset = trained(compiled)
    counts = counted()
    assert counts["built"] >= 2 and counts["replayed"] == counts["built"] * (10 - RUNS)
    losses_2, state_2, offset_2 = trained(lambda model: model)
    assert losses == losses_2 and offset == offset_2
    assert all(a.equal(b) for a, b in zip(state, state_2))


def test_numbers_are_drawn_anew_and_as_in_eager(counted):
    def noisy(x):
        picked = torch.multinomial(x.abs(), 8, True) + torch.multinomial(x.abs(), 8)
        order = torch.randperm(8, device="cuda")
        wide = torch.randint(2**40, (8,), device="cuda")
        return (F.dropout(x, 0.5) + torch.rand_like(x) * torch.randn(8, device="cuda")
                + picked + order + wide)  # fmt: skip

    fast = compiled(noisy)
    x = normal(4, 8)
    for seed in (0, 0, 0, 0, 0, 0, 1, 2, 2**40, 2**63 + 1, 3):
        torch.manual_seed(seed)
        one, two = fast(x), fast(x)
        torch.manual_seed(seed)
        assert one.equal(noisy(x)) and two.equal(noisy(x)) and not one.equal(two)
    # The numbers of a graph are 32 or 64 bits wide: others are drawn by the program, then recorded.
    generator = torch.cuda.default_generators[0]
    for start in (2**31 - 96, 2**33, 2**33 + 64):
        for _ in range(5):
            generator.set_offset(start)
            found = fast(x)
            after = generator.get_offset()
            generator.set_offset(start)
            assert found.equal(noisy(x)) and generator.get_offset() == after
    assert counted()["replayed"] > 10


def test_writes_reach_the_inputs(counted):
    def count(x, total, kept):
        total += x
        kept[1].copy_(x * 2)
        return total.sum() + kept.sum()

    fast = compiled(count)
    one, other = ([torch.zeros(4, device="cuda"), torch.ones(3, 4, device="cuda")] for _ in "ab")
    for i in range(9):
        x = normal(4)
        if i == 7:  # elsewhere
            one[0] = one[0].clone()
        assert fast(x, *one).equal(count(x, *other))
        assert all(a.equal(b) for a, b in zip(one, other)) and one[1]._version == i + 1
    assert counted()["replayed"] == 9 - RUNS


def test_views_and_the_same_object_are_given(counted):
    def views(x, y):
        z = (x + y).t()
        y.mul_(2)
        return z, z[1:], x[0], y, z.sum()

    fast = compiled(views)
    for _ in range(8):
        x, y = normal(3, 4), normal(3, 4)
        expected = views(x, y.clone())
        z, part, row, same, total = fast(x, y)
        assert part._base is z._base and row._base is x and same is y
        assert part.data_ptr() == z[1:].data_ptr() and row.data_ptr() == x.data_ptr()
        for a, b in zip((z, part, row, same, total), expected):
            assert a.equal(b) and a.stride() == b.stride()
    assert counted()["replayed"] == 8 - RUNS


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_what_goes_through_the_copy_engine(dtype, counted):
    def product(a, b):
        return torch.relu(a @ b) @ b

    fast = compiled(product)
    b = normal(64, 64, dtype=dtype)
    kept = []
    for _ in range(8):
        a = normal(32, 64, dtype=dtype)
        kept.append((fast(a, b), product(a, b)))
    assert all(x.equal(y) for x, y in kept) and counted()["replayed"] == 8 - RUNS


@pytest.mark.parametrize(
    "options", [{}, {"num_ctas": 2, "launch_pdl": True}, {"launch_cooperative_grid": True}]
)
def test_kernels_with_attributes(options, counted):
    def doubled(x):
        out = _C.empty(x.shape, torch.float32, 0)
        graph_kernels.doubled[(4,)](x, out, x.numel(), BLOCK=64, **options)
        return out

    fast = Program(doubled, lambda x: x.clone().fill_(1.0), doubled, doubled)
    for _ in range(5):
        assert (fast(normal(256)) == 4).all()
    assert counted()["replayed"] == 3 and fast.graph["nodes"] == 5


def test_constants_are_copied_once(counted):
    def with_constants(x):
        return torch.quantile(x, 0.25, dim=-1) + x[:, [0, 2]].sum(-1)

    fast = compiled(with_constants)
    for _ in range(8):
        x = normal(3, 5)
        assert fast(x).equal(with_constants(x))
    counted()


# ---- what is changed of a graph ------------------------------------------------------------------


def test_only_nodes_whose_memory_is_elsewhere_are_changed(counted):
    def chain(x, y):
        return (((x + 1) * 2).exp() - 1).relu() * y  # six kernels

    fast = compiled(chain, options=EXACT | {"max_fusion_size": 1})
    x, y = normal(4, 8), normal(4, 8)
    for _ in range(RUNS + 1):
        fast(x, y)
    counted()
    fast(x, y)  # the result before is gone, and its memory used again
    assert counted()["changed"] == 0
    kept = fast(x, y)
    assert counted()["changed"] == 0
    fast(x, y)  # the last kernel gives it other memory
    assert counted()["changed"] == 1
    fast(normal(4, 8), y)  # the first one reads elsewhere
    assert counted()["changed"] == 1
    fast(x, kept)
    assert counted()["changed"] == 2
    again = fast(x, y)
    counts = counted()
    assert counts["replayed"] == 1 and counts["one_by_one"] == 0 and again.equal(chain(x, y))


def test_where_much_has_changed_nodes_are_launched_one_by_one(counted, monkeypatch):
    monkeypatch.setattr(plans, "MOST_CHANGED", 0.0)

    def many(*xs):
        return [x * 2 + 1 for x in xs]

    fast = compiled(many)
    xs = [normal(4) for _ in range(6)]
    for i in range(12):
        if i % 3 == 2:
            xs = [x.clone() for x in xs]
        assert all(a.equal(b) for a, b in zip(fast(*xs), many(*xs)))
    counts = counted()
    assert 1 <= counts["one_by_one"] < counts["replayed"] == 12 - RUNS


def test_inputs_that_lie_otherwise_run_the_program_and_are_recorded_anew(counted):
    fast = Program(lambda x, y: y.copy_(x), lambda x, y: pointwise("add", x, y), inputs=2)

    def check(x, y):
        expected = x.clone() * 2
        return fast(x, y).equal(expected) and y.equal(x)

    for _ in range(4):
        assert check(normal(4), normal(4))
    assert counted()["replayed"] == 2
    one = normal(8)
    assert check(one[1:5], normal(4))  # aligned otherwise
    assert counted()["plain"] == 1
    assert check(normal(4), normal(4)) and counted()["replayed"] == 1
    assert check(one[:4], one[4:])  # of one memory
    assert counted()["plain"] == 1
    assert check(one[4:], one[:4])  # the second in a row: it is recorded anew
    assert counted()["plain"] == 1
    for k in range(5):
        one = normal(32)
        assert check(one[4 * k : 4 * k + 4], one[4 * k + 4 : 4 * k + 8])
    counts = counted()
    assert counts["built"] == 1 and counts["replayed"] == 3


def test_one_memory_for_all_graphs_of_a_stream():
    def wide(x):
        return ((x * 2).exp() + 1).log().sum()

    def used():
        gc.collect()
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    x = normal(256, 256)
    expected = wide(x)
    before = used()
    several = [compiled(lambda x, n=n: wide(x) + n) for n in range(4)]
    for fast in several:
        for _ in range(RUNS + 2):
            fast(x)
    assert used() - before < 2.5 * 4 * 256 * 256  # two arrays at a time, for all of them
    for n, fast in enumerate(several):
        assert fast(x).equal(expected + n)
    torch.compiler.reset()
    assert used() == before
    fast = compiled(wide)
    for _ in range(RUNS + 2):
        fast(x)
    del fast, several
    torch._dynamo.reset()
    assert used() == before


# ---- when there is none --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "graphs"),
    [
        ({"mode": "default"}, 0), ({}, 0), ({"mode": "max-autotune-no-cudagraphs"}, 0),
        ({"mode": "reduce-overhead"}, 1), ({"mode": "max-autotune"}, 1),
        ({"backend": "cudagraphs"}, 1), ({"options": {"triton.cudagraphs": True}}, 1),
        ({"options": {"triton.cudagraphs": False}}, 0),
    ],
)  # fmt: skip
def test_who_gets_graphs(how, graphs, counted):
    fast = torch.compile(layers, **how)
    w, b = weights()
    for _ in range(RUNS + 1):
        torch.compiler.cudagraph_mark_step_begin()
        fast(normal(4, 8), w, b)
    assert counted()["built"] == graphs


def test_the_setting_of_all_programs(counted):
    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        fast = torch.compile(layers)
    w, b = weights()
    for _ in range(RUNS + 1):
        fast(normal(4, 8), w, b)
    assert counted()["built"] == 1


def test_what_can_be_no_graph_says_why():
    from tritorch.gpu.lists import multi_tensor

    kept, numbers = [], iter(range(100))

    def to_host(x):
        x.numpy()
        return x

    def tabled(x):  # a table is found again by its content
        multi_tensor.table([(x,)])
        return x.clone()

    def uploaded(x):
        return from_numpy(np.array([x.clone().data_ptr()]), 0)

    def waiting(x):
        event = _C.Event(0)
        event.record(0, _C.current_stream(0))
        return x.clone()

    def another_stream(x):
        with torch.cuda.stream(side):
            return x.clone()

    def other_numbers(x):
        return pointwise("add", x, float(next(numbers)))

    def other_memory(x):
        kept.append(x.clone())
        return pointwise("add", x, kept[max(0, len(kept) - 2)])

    def more_and_more(x):
        kept.append(None)
        for _ in kept:
            x = x.clone()
        return x

    side = torch.cuda.Stream()
    for function, why in {
        to_host: "its functions call cuMemcpyDtoHAsync",
        tabled: "a kernel gets addresses in a table",
        uploaded: "an address is copied to the device",
        waiting: "its functions call cuEventRecord",
        another_stream: "it uses several streams",
        other_numbers: r"a parameter of a kernel \(number 0\) differs from call to call",
        other_memory: "a parameter of a kernel|kernels get other memory",
        more_and_more: "the number of launches differs",
        (lambda x: x): "it launches nothing",
        (lambda x: [x]): "a function gives what is no array|it launches nothing",
    }.items():
        kept.clear()
        fast = Program(function)
        for _ in range(6):
            fast(normal(3))
        assert re.match(why, fast.graph["gave_up"]) and fast.graph["replays"] == 0, function
        assert [*fast.told] == ["none"]
    fast = Program(lambda x, y: x.clone(), inputs=2)
    fast(normal(3), torch.ones(3))
    assert fast.graph["gave_up"] == "not all inputs are on a GPU"


def test_in_a_region_that_is_captured(counted):
    w, b = weights()
    fast = compiled(layers)
    x = normal(4, 8)
    for _ in range(RUNS + 1):
        fast(x, w, b)
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(RUNS + 1):
            fast(x, w, b)
    counted()
    with torch.cuda.graph(graph, stream=side):
        found = fast(x, w, b)
    assert counted()["replayed"] == 0
    x.copy_(normal(4, 8))
    graph.replay()
    torch.cuda.synchronize()
    assert found.equal(layers(x, w, b)) and graph.node_count() >= 2


def test_bad_indices_are_reported_from_a_graph(counted):
    table = normal(5, 3)
    fast = compiled(lambda i: F.embedding(i, table) * 2)
    for _ in range(RUNS + 2):
        fast(torch.tensor([1, 4], device="cuda"))
    assert counted()["replayed"] == 2
    from tritorch.gpu import errors

    for _ in range(errors._SLOTS + 1):  # all slots have been used again
        errors.mark(0, "another")
    bad = torch.tensor([1, 9], device="cuda")
    torch.cuda.synchronize()
    fast(bad)
    with pytest.raises(IndexError, match=r"(?s)index\(\): .*9.*\n  at .*test_cuda_graphs.py"):
        torch.cuda.synchronize()
    assert counted()["replayed"] == 1


# ---- streams, threads, faults --------------------------------------------------------------------


@pytest.mark.simulated
@pytest.mark.parametrize("seed", range(6))
def test_results_that_other_streams_use_are_not_written(seed):
    _C.simulator.set_seed(seed)
    w, b = weights()
    fast = compiled(layers)
    side = torch.cuda.Stream()
    seen = []
    for _ in range(RUNS + 4):
        x = normal(4, 8)
        y = fast(x, w, b)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            seen.append((y * 1, layers(x, w, b)))
            y.record_stream(side)
            x.record_stream(side)
        del x, y
    torch.cuda.synchronize()
    _C.simulator.set_seed(0)
    assert all(a.equal(c) for a, c in seen)


def test_threads_share_a_function_and_its_memory(counted):
    w, b = weights()
    fast, other = compiled(layers), compiled(lambda x: (x * 2).exp().sum(-1))
    wrong = []

    def work(n):
        for _ in range(12):
            x = normal(4 if n < 3 else 5, 8)
            for found, expected in (
                (fast(x, w, b), layers(x, w, b)),
                (other(x), (x * 2).exp().sum(-1)),
            ):
                if not found.equal(expected):
                    wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and counted()["replayed"] > 10


@pytest.mark.simulated
def test_where_graphs_cannot_be_built_nodes_are_launched_one_by_one(counted):
    _C.simulator.configure("graph_nodes=0")
    try:
        w, b = weights()
        fast = compiled(layers)
        for _ in range(RUNS + 3):
            x = normal(4, 8)
            assert fast(x, w, b).equal(layers(x, w, b))
        counts = counted()
        assert counts["replayed"] == counts["one_by_one"] == 3
    finally:
        _C.simulator.configure("graph_nodes=1")


@pytest.mark.simulated
@pytest.mark.parametrize("nth", [1, 2, 3, 5, 6, 7, 8, 9])
def test_a_graph_that_fails_leaves_the_program(nth, counted, reasons):
    """The nth call about graphs fails, of building, changing and launching one."""

    def noisy(x):
        return F.dropout(x * 2 + 1, 0.5).exp()

    fast = compiled(noisy)
    x = normal(4, 8)
    torch.manual_seed(1)
    results = []
    for run in range(RUNS + 4):
        if run == RUNS - 1:  # the one that builds it
            torch.cuda.synchronize()
            torch.cuda.simulator.fail("graph", nth)
        results.append(fast(x))
    torch.cuda.simulator.fail("graph", 0)
    torch.manual_seed(1)
    assert all(found.equal(noisy(x)) for found in results)
    assert len(reasons) == 1 and "CUDA_ERROR_UNKNOWN" in reasons[0]


@pytest.mark.simulated
def test_a_launch_that_fails_in_the_middle_is_an_error():
    _C.simulator.configure("graph_nodes=0")
    try:
        total = torch.zeros(4, device="cuda")

        def count(x):
            return total.add_(x).cumsum(0)  # two launches

        fast = compiled(count)
        x = normal(4)
        for _ in range(RUNS + 1):
            fast(x)
        torch.cuda.synchronize()
        before = total.clone()
        torch.cuda.simulator.fail("launch", 2)
        with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
            fast(x)
        assert total.equal(before + x)  # once, not twice
        assert fast(x).equal((before + x + x).cumsum(0))
    finally:
        _C.simulator.configure("graph_nodes=1")
