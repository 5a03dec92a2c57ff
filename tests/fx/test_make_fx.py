"""make_fx: a training step as a graph of ATen's operators, the same bits when it runs."""

import pytest

import tritorch as torch
from tritorch import fx, nn
from tritorch.fx.experimental.proxy_tensor import (
    get_isolated_graphmodule,
    get_proxy_mode,
    make_fx,
)
from tritorch.nn import functional as F


def mlp(p, x):
    return F.linear(F.gelu(F.linear(x, p[0], p[1])), p[2], p[3])


def convolutional(p, x):
    x = F.max_pool2d(F.relu(F.conv2d(x.reshape(-1, 1, 4, 4), p[0], p[1])), 2)
    return F.linear(x.flatten(1), p[2], p[3])


def attending(p, x):
    x = F.layer_norm(x.reshape(-1, 4, 4), (4,), p[1])
    x = F.scaled_dot_product_attention(x @ p[0], x, x)
    return F.linear(x.mean(1), p[2], p[3])


MODELS = {
    "mlp": (mlp, [(8, 16), (8,), (3, 8), (3,)]),
    "convolutional": (convolutional, [(2, 1, 3, 3), (2,), (3, 2), (3,)]),
    "attending": (attending, [(4, 4), (4,), (3, 4), (3,)]),
}


@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_step(name, tracing_mode):
    forward, shapes = MODELS[name]
    torch.manual_seed(0)
    params = [torch.randn(shape, requires_grad=True) for shape in shapes]
    moments = [torch.rand(shape) for shape in shapes]
    x, y = torch.randn(5, 16), torch.tensor([0, 1, 2, 0, 1])

    def step(params, moments, x, y):
        loss = F.cross_entropy(forward(params, x), y)
        grads = torch.autograd.grad(loss, params)
        moments = [0.9 * m + g for m, g in zip(moments, grads)]
        with torch.no_grad():
            return [p - 0.1 * m for p, m in zip(params, moments)], moments, loss

    want = step(params, moments, x, y)
    traced = make_fx(step, tracing_mode=tracing_mode)(params, moments, x, y)
    traced.graph.lint()
    assert all(
        str(n.target).startswith(("aten.", "tritorch.")) or "getitem" in str(n.target)
        for n in traced.graph.nodes
        if n.op == "call_function"
    )
    given = (params, moments, x, y)
    for found in (traced(*given), fx.Interpreter(traced).run(*given)):
        for a, b in zip([*found[0], *found[1], found[2]], [*want[0], *want[1], want[2]]):
            assert a.detach().equal(b.detach())


def test_names_constants_and_values():
    weight = nn.Parameter(torch.ones(2))

    def f(x, y):
        assert get_proxy_mode() is not None
        return (x + y) * weight + torch.zeros(2)

    traced = make_fx(f)(torch.ones(2), torch.ones(2))
    assert [n.name for n in traced.graph.nodes][:2] == ["x_1", "y_1"]
    assert "torch.ops.aten.add.Tensor(x_1, y_1)" in traced.code
    assert traced._param_constant0 is weight
    assert traced(torch.ones(2), torch.zeros(2)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(lambda x: x * 2 if x.sum() > 0 else x)(torch.ones(2))


def test_sizes_left_open():
    def f(x, n):
        return x.reshape(x.shape[0] * x.shape[1]).repeat(n), x.shape[0] + n

    traced = make_fx(f, tracing_mode="symbolic")(torch.ones(2, 3), 4)
    assert "torch.ops.aten.sym_size.int(x_1, 0)" in traced.code
    for shape, n in (((2, 3), 4), ((5, 7), 2)):
        x = torch.randn(shape)
        out, total = traced(x, n)
        assert out.equal(x.flatten().repeat(n)) and total == shape[0] + n


def test_values_left_open():
    """What depends on values is a number that nobody knows; nodes make it again in each run."""

    def f(x):
        n = x[0].item()
        torch._check(n >= 0)
        rows = x.nonzero()
        assert isinstance(rows.shape[0], torch.SymInt)
        return torch.ones(n, 2), rows * 2, n / 4

    traced = make_fx(f, tracing_mode="symbolic")(torch.tensor([3, 0, 1]))
    for given in ([3, 0, 1], [5, 6]):
        ones, rows, part = traced(torch.tensor(given))
        assert ones.equal(torch.ones(given[0], 2)) and part == given[0] / 4
        assert rows.flatten().tolist() == [2 * i for i, x in enumerate(given) if x]
    with pytest.raises(torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode):
        make_fx(lambda x: x if x.sum() > 0 else -x, tracing_mode="symbolic")(torch.ones(2))


def test_what_a_size_was_asked_for_is_a_guard():
    traced = make_fx(lambda x: x * 2 if x.shape[0] > 3 else x, tracing_mode="symbolic")
    assert traced(torch.ones(5)).shape_env.guards == ["s0 > 3"]


def test_a_class_that_wraps_tensors_is_traced_inside():
    class Pair(torch.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a, b):
            self.a, self.b = a, b

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            first = [x.a if isinstance(x, Pair) else x for x in args]
            second = [x.b if isinstance(x, Pair) else x for x in args]
            return Pair(func(*first), func(*second))

    def f(a, b, y):
        out = Pair(a, b) * y
        return out.a, out.b

    code = make_fx(f, tracing_mode="fake")(torch.ones(2), torch.zeros(2), torch.ones(2)).code
    assert code.count("torch.ops.aten.mul.Tensor") == 2 and "b_1, y_1" in code


def test_writes_and_decompositions():
    def f(x):
        y = x.clone()
        y.add_(1)
        return y.relu()

    table = {torch.ops.aten.relu.default: lambda x: torch.clamp(x, min=0)}
    traced = make_fx(f, table)(torch.randn(3))
    assert "aten.add_.Tensor" in traced.code and "relu" not in traced.code.replace("def", "")
    x = torch.randn(3)
    assert traced(x).equal((x + 1).relu())


def test_an_optimizers_step():
    """The graph writes parameters and moments in place: running it is one step more."""

    def trained(steps, trace):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        x, y = torch.randn(5, 4), torch.tensor([0, 1, 1, 0, 1])

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        for _ in range(steps - 2 * trace):
            step(x, y)
        if trace:  # which is a step, and then the graph's
            traced = make_fx(step)(x, y)
            with torch.no_grad():  # parameters are leaves
                traced(x, y)
        return [p.detach() for p in model.parameters()]

    for got, want in zip(trained(4, True), trained(4, False)):
        assert got.equal(want)


@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
def test_nested_inputs_and_descriptions(tracing_mode):
    """The graph takes what the function takes; nodes say what their values were when made."""

    def f(x, params):
        params = dict(params)
        y = x.clone()
        y.unsqueeze_(0)
        return {"out": y * params.pop("w"), "rest": params}

    params = {"w": torch.full((3,), 2.0), "b": torch.ones(1)}
    traced = make_fx(f, tracing_mode=tracing_mode)(torch.ones(3), params)
    shapes = [tuple(n.meta["val"].shape) for n in traced.graph.nodes if "val" in n.meta]
    assert shapes == [(3,), (3,), (1,), (3,), (1, 3), (1, 3)]
    found = traced(torch.arange(3.0), params)
    assert found["out"].tolist() == [[0, 2, 4]] and found["rest"]["b"] is params["b"]


@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
def test_values_that_are_known(tracing_mode):
    """Numbers that the program writes are known in a trace; drawn ones are not, nor outer fakes.

    What a fake would have is left open: a node gives it."""

    def known():
        value = torch.tensor(1.0)
        value.add_(2)
        return torch.full((2,), value.item()) + torch.tensor([1.0, 2.0])

    def drawn():
        return torch.tensor([2.0]).normal_().item()

    traced = make_fx(known, tracing_mode=tracing_mode)()
    for _ in range(2):
        assert traced().tolist() == [4, 5]
    if tracing_mode == "real":
        with pytest.raises(RuntimeError, match="data-dependent"):
            make_fx(drawn)()
    else:
        traced = make_fx(drawn, tracing_mode="fake")()
        assert len({traced() for _ in range(4)}) > 1
    outer = torch.ones(2)
    if tracing_mode == "fake":
        with pytest.raises(AssertionError, match="Please convert all Tensors"):
            make_fx(lambda: outer + 1, tracing_mode="fake")()
    given = {"_allow_non_fake_inputs": True, "tracing_mode": tracing_mode}
    traced = make_fx(lambda x: x + outer, **given)(torch.ones(2))
    assert traced._tensor_constant0 is outer and traced(torch.ones(2)).tolist() == [2, 2]


def test_a_graph_inside_of_a_trace():
    inner = []

    def f(x):
        inner.append(get_isolated_graphmodule(lambda y, *, by: y.sum() * by, (x,), {"by": 2}))
        return x + 1

    outer = make_fx(f)(torch.ones(3))
    assert "sum" not in outer.code and "add" in outer.code
    assert "sum" in inner[0].code and inner[0]([torch.ones(3), 2]).item() == 6


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_lists_as_indices_are_constants(mode):
    def whole(x):
        y = x.clone()
        y[[1, 2]] = 0
        return y[[0, 1], [1, 0]] + x[1, [2, 0]]

    x = torch.randn(3, 3)
    made = make_fx(whole, tracing_mode=mode)(x)
    for given in (x, torch.randn(3, 3)):
        assert made(given).equal(whole(given))
