"""torch.compile around a function: what it takes and gives, and what says how it runs."""

import asyncio
import copy
import functools
import logging
import pickle
import re
import subprocess
import sys
from unittest import mock

import pytest

import tritorch as torch
from tritorch import nn
from tritorch._dynamo import exc
from tritorch._dynamo.eval_frame import OptimizedModule
from tritorch._dynamo.testing import CompileCounter, EagerAndRecordGraphs
from tritorch._dynamo.utils import counters
from tritorch.compilation.follow.tape import Unfit
from tritorch.compilation.plan import plans
from tritorch.compiler import set_stance


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    set_stance("default")
    torch._logging.set_logs()


def line(x, w):
    return (x @ w + 1).relu()


def two(*shape):
    return torch.randn(*shape), torch.randn(*shape)


# ---- what is compiled ----------------------------------------------------------------------------


def test_functions_of_every_kind():
    class Home:
        @torch.compile
        def method(self, x):
            return x + 1

        @torch.compile
        @staticmethod
        def inner(x):
            return x + 2

        @staticmethod
        @torch.compile
        def outer(x):
            return x + 3

        @classmethod
        @torch.compile(mode="reduce-overhead")
        def of_class(cls, x):
            return x + 4

    @torch.compile
    class Callable:
        def __call__(self, x):
            return x + 5

    x, home = torch.zeros(1), Home()
    several = [home.method, home.inner, Home.outer, home.of_class, Callable()]
    several += [torch.compile(home.method), torch.compile(functools.partial(torch.add, other=7))]
    for _ in range(3):
        assert [each(x).item() for each in several] == [1, 2, 3, 4, 5, 1, 7]
    assert torch.compile(torch.sin)(x).item() == 0


def test_what_runs_later_runs_as_it_is():
    @torch.compile
    async def later(x):
        await asyncio.sleep(0)
        assert not torch.compiler.is_compiling()
        return x + 1

    @torch.compile
    def steps(x):
        assert not torch.compiler.is_compiling()
        yield x
        yield x + 1

    x = torch.zeros(1)
    assert asyncio.run(later(x)).item() == 1 and [y.item() for y in steps(x)] == [0, 1]


def test_attributes_of_a_compiled_function():
    def plain(x):
        """Adds one."""
        return x + 1

    plain.extra = 3
    made = torch.compile(plain, backend="eager")
    assert made.__wrapped__ is plain and made._torchdynamo_orig_callable is plain
    assert (made.__name__, made.__doc__, made.extra) == ("plain", "Adds one.", 3)
    assert made._torchdynamo_inline is plain and made.get_compiler_config() is None
    again = torch.compile(made)  # the innermost is compiled
    assert again._torchdynamo_orig_callable is plain
    config = torch.compile(plain, mode="max-autotune").get_compiler_config()
    assert config["max_autotune"] is config["triton.cudagraphs"] is True
    assert torch.compile(plain).get_compiler_config()["max_autotune"] is False


def test_compile_refuses():
    with pytest.raises(exc.InvalidBackend, match="Invalid backend: 'nonsense'"):
        torch.compile(line, backend="nonsense")
    with pytest.raises(RuntimeError, match="Unexpected optimization option nosuch, known options"):
        torch.compile(line, options={"nosuch": 1})
    with pytest.raises(RuntimeError, match="Unexpected type of attr max_autotune, got int should"):
        torch.compile(line, options={"max_autotune": 1})
    with pytest.raises(ValueError, match="`dynamic` and `shapes_spec` cannot both be set"):
        torch.compile(line, dynamic=True, shapes_spec={})
    with pytest.raises(RuntimeError, match="Model can't be None"):
        torch.compile(dynamic=False)(None)
    assert torch.compile(line, disable=True) is line
    with torch._dynamo.config.patch(disable=True):
        assert torch.compile(line) is line


def test_a_region_inside_of_another_is_part_of_it():
    inner, outer = CompileCounter(), CompileCounter()
    add = torch.compile(lambda x: x + 1, backend=inner)
    both = torch.compile(lambda x: add(x) * 2, backend=outer)
    x = torch.ones(2)
    assert both(x).tolist() == [4, 4] and both(x).tolist() == [4, 4]
    assert (inner.frame_count, outer.frame_count, outer.op_count) == (0, 1, 2)
    assert "x + 1" in torch.fx.symbolic_trace(add).code and inner.frame_count == 0


# ---- modules -------------------------------------------------------------------------------------


def test_a_module_shares_its_state():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    counter = CompileCounter()
    made = torch.compile(net, backend=counter)
    assert type(made) is OptimizedModule and made._orig_mod is net and len(made) == 2
    assert [*made.state_dict()] == [f"_orig_mod.{name}" for name in net.state_dict()]
    x = torch.randn(4, 2)
    want = copy.deepcopy(net)(x)
    torch.testing.assert_close(made(x), want)
    assert net[1].num_batches_tracked.item() == 1 and counter.frame_count == 1
    made.eval()
    assert not net[0].training
    seen = []
    made.register_forward_hook(lambda *_: seen.append("outside"))
    net.register_forward_hook(lambda *_: seen.append("inside"))
    made(x)
    assert seen == ["inside", "outside"]
    with pytest.raises(TypeError, match="Linear does not support len"):
        len(torch.compile(nn.Linear(1, 1)))
    assert torch.compile(made, backend=counter) is made  # as it is
    other = torch.compile(made, backend="eager")
    assert other is not made and other._orig_mod is net
    net.load_state_dict(copy.deepcopy(net).state_dict())
    made.load_state_dict(made.state_dict())


def test_a_module_compiled_in_place():
    net = nn.Linear(2, 2)
    counter = CompileCounter()
    net.compile(backend=counter)
    seen = []
    net.register_forward_pre_hook(lambda *_: seen.append(torch.compiler.is_compiling()))
    x = torch.randn(3, 2)
    for _ in range(2):
        torch.testing.assert_close(net(x), x @ net.weight.T + net.bias)
    assert counter.frame_count == 1 and seen == [True, True] and type(net) is nn.Linear
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(nn.Linear(2, 2)))):
        other(x)
    assert counter.frame_count == 1  # copies are as the module was


def test_global_hooks_and_compiled_modules():
    made = torch.compile(nn.Linear(2, 2))
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        with pytest.warns(UserWarning, match="when there are global hooks on modules"):
            made(torch.ones(1, 2))
    finally:
        handle.remove()


def test_training_with_a_compiled_module():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    made = torch.compile(copy.deepcopy(plain))
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    losses = []
    for net in (plain, made):
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            loss = (net(x) - y).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
    assert losses[:4] == pytest.approx(losses[4:], rel=1e-5) and losses[3] < losses[0]


# ---- stances and marks ---------------------------------------------------------------------------


def test_stances():
    counter = CompileCounter()
    made = torch.compile(line, backend=counter)
    x, w = two(3, 3)
    with set_stance("force_eager"):
        made(x, w)
    assert counter.frame_count == 0
    made(x, w)
    with set_stance("eager_on_recompile"):
        assert made(*two(4, 4)).shape == (4, 4)
    assert counter.frame_count == 1
    with set_stance("fail_on_recompile"):
        made(x, w)
        with pytest.raises(RuntimeError, match="fail_on_recompile'. filename: '.*test_api.py', fu"):
            torch.compile(lambda x: x + 1)(x)
    forced = EagerAndRecordGraphs()
    with set_stance(force_backend=forced):
        made(x, w)
        made(x, w)
    assert len(forced.graphs) == 1 and counter.frame_count == 1
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend"):
        set_stance("force_eager", force_backend="eager")
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        set_stance("lie down")

    @set_stance("force_eager")
    def decorated():
        return torch.compile(lambda: torch.compiler.is_compiling())()

    assert decorated() is False and torch.compile(lambda: torch.compiler.is_compiling())() is True
    with pytest.raises(RuntimeError, match="attempted to set_stance in a torch.compile region"):
        torch.compile(lambda: set_stance("default"))()


def test_disabled_functions_are_not_followed():
    seen = []

    @torch.compiler.disable(reason="it is odd")
    def odd(x):
        seen.append(torch.compiler.is_compiling())
        return x * 3

    def whole(x):
        seen.append(torch.compiler.is_compiling())
        return odd(x + 1) + 1

    recorder = EagerAndRecordGraphs()
    made = torch.compile(whole, backend=recorder)
    x = torch.ones(2)
    assert made(x).tolist() == made(x).tolist() == [7, 7] and seen == [True, False] * 2
    assert not any("3" in graph.code for graph in recorder.graphs)
    assert odd._torchdynamo_disable and odd._torchdynamo_disable_msg == "it is odd"
    with pytest.raises(exc.Unsupported, match=r"disable\(\)`d function[^$]*return odd\(x \+ 1\)"):
        torch.compile(whole, fullgraph=True)(x)
    module = torch.compiler.disable(nn.Linear(2, 2))
    assert isinstance(module, OptimizedModule) and module(torch.ones(1, 2)).shape == (1, 2)
    assert torch._disable_dynamo(lambda: torch.compiler.is_compiling())() is False


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda x: bool(x.sum() > 0), "truth"),
        (lambda x: torch._dynamo.graph_break("here"), "graph_break.*here"),
        (lambda x: x.tolist(), "tolist"),
    ],
)
def test_breaks(read, reason):
    def whole(x):
        y = x + 1
        read(y)
        return y * 2

    x = torch.ones(2)
    assert torch.compile(whole)(x).tolist() == [4, 4]
    with pytest.raises(exc.Unsupported, match=f"(?s){reason}.*from user code:.*test_api.py"):
        torch.compile(whole, fullgraph=True)(x)
    with pytest.raises(exc.Unsupported):
        torch.compile(torch._dynamo.error_on_graph_break(True)(whole))(x)
    with torch._dynamo.error_on_graph_break(True), torch._dynamo.error_on_graph_break(False):
        torch.compile(whole)(x)
    found = torch._dynamo.explain(whole)(x)
    assert found.graph_break_count == 1 and found.graph_count == 2
    (broken,) = found.break_reasons
    assert broken.user_stack[0].filename == __file__


def test_what_pytorch_captures_is_no_error():
    def whole(x):
        y = x * 2
        return y[y > 1] + y.sum().item() + y.nonzero().shape[0]

    x = torch.ones(2)
    made = torch.compile(whole, fullgraph=True)
    assert made(x).tolist() == made(x).tolist() == [8, 8]
    assert torch._dynamo.explain(whole)(x).graph_break_count == 3


# ---- recordings ----------------------------------------------------------------------------------


def test_recompilation_has_limits(caplog):
    counter = CompileCounter()
    made = torch.compile(line, backend=counter, dynamic=False, recompile_limit=2)
    torch._logging.set_logs(dynamo=logging.WARNING)
    logger = logging.getLogger("torch._dynamo.convert_frame")
    with mock.patch.object(logger, "warning") as warned:
        for n in (2, 3, 4, 5):
            torch.testing.assert_close(made(*(same := two(n, n))), line(*same))
    assert counter.frame_count == 2 and warned.call_count == 1
    assert "config.recompile_limit" in warned.call_args.args[0]
    strict = torch.compile(line, backend="eager", dynamic=False, fullgraph=True, recompile_limit=1)
    strict(*two(2, 2))
    with pytest.raises(exc.FailOnRecompileLimitHit, match="Hard failure due to fullgraph=True"):
        strict(*two(3, 3))
    torch._dynamo.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        made(*two(2, 2))
        with pytest.raises(exc.RecompileError, match="Recompiling function line in .*test_api.py"):
            made(*two(3, 3))
    torch._dynamo.reset()
    made(*two(2, 2))
    assert counter.frame_count == 4


def test_explain():
    def whole(x):
        y = x.sin()
        if y.sum() > 0:
            y = y + 1
        return y.cos()

    found = torch._dynamo.explain(whole)(torch.ones(3))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (2, 1, 5)
    assert [len(ops) for ops in found.ops_per_graph] == [3, 2]
    text = str(found)
    assert text.startswith("Graph Count: 2\nGraph Break Count: 1\nOp Count: 5\nBreak Reasons:\n")
    assert "    User Stack:\n      <FrameSummary file " in text and "Ops per Graph:\n" in text
    assert "Name: 'arg0'" in text and "arg0.shape == (3,)" in text
    with pytest.warns(FutureWarning, match=r"use explain\(f\)\(\*args, \*\*kwargs\) instead"):
        assert torch._dynamo.explain(line, *two(2, 2)).graph_count == 1
    print_is_no_break = torch._dynamo.explain(lambda x: [print("", end=""), x + 1])(torch.ones(1))
    assert print_is_no_break.graph_break_count == 0


def test_explain_calls_inputs_as_the_program_does():
    net = nn.Sequential(nn.Linear(3, 4))

    def whole(x, *, scale):
        return net(x) * scale

    found = torch._dynamo.explain(whole)(torch.randn(2, 3), scale=torch.randn(4))
    assert [guard.name for guard in found.out_guards] == ["l_x_", "arg1", "arg2", "l_scale_"]
    found = torch._dynamo.explain(net)(torch.randn(2, 3))
    names = [guard.name for guard in found.out_guards]
    assert names[1:] == [f"l_self_modules_0_parameters_{each}_" for each in ("weight", "bias")]


def test_places_are_the_programs_own_under_torchs_name():
    """The package's modules are called torch's then, and are no lines of the program for that."""
    code = (
        "from tritorch import _as_torch; _as_torch.as_torch()\n"
        "import torch\n"
        "net = torch.nn.Linear(3, 3)\n"
        "def whole(x):\n"
        "    return net(x)\n"
        "found = torch.compiler.bisect(whole, torch.ones(2, 3), backend=lambda gm, _: gm.zero)\n"
        "print(found.operator, found.place.line, found.place.function, 'zero' in str(found))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["torch.nn.functional.linear", "5", "whole", "True"]


def test_counters():
    made = torch.compile(lambda x: (x + 1).item() + x, backend="eager")
    x = torch.ones(1)
    made(x), made(x)
    assert counters["stats"] == {"calls_captured": 2, "unique_graphs": 2}
    assert counters["frames"] == {"total": 1, "ok": 1}
    assert list(counters["graph_break"]) == ["Tensor.item()"]
    assert "OutputGraph.call_user_compiler" in torch._dynamo.compile_times()


@pytest.fixture
def shown(monkeypatch):
    """What the artifacts say, by name."""
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    lines: dict[str, list[str]] = {}

    class Keeps(logging.Handler):
        def emit(self, record):
            name = record.name.rpartition("__")[2]
            lines.setdefault(name, []).append(record.getMessage())

    handler = Keeps()
    logger = logging.getLogger("torch._dynamo")
    torch._logging.set_logs(graph_breaks=True, recompiles=True, graph=True, graph_code=True)
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_logs(shown, backend):
    def whole(x):
        y = x.sin()
        if y.sum() > 0:
            y = y + 1
        return y.cos()

    made = torch.compile(whole, backend=backend, dynamic=False)
    made(torch.ones(3))
    (told,) = shown["graph_breaks"]
    assert told.startswith(f"Graph break in user code at {__file__}:")
    assert "if y.sum() > 0:" in told and "Data-dependent branching" in told
    assert "recompiles" not in shown
    made(torch.ones(3, dtype=torch.float64))
    assert shown["recompiles"][0].startswith(f"Recompiling function whole in {__file__}:")
    code = "".join(shown["graph_code"])
    assert 'sin: "f32[3][1]cpu" = arg0.sin()' in code and "# File: " in code
    assert "call_method    sin" in "".join(shown["graph"]) and " in whole, code: " in code


# ---- what programs take from the compiler --------------------------------------------------------


def test_same_but_for_rounding(caplog):
    same = torch._dynamo.utils.same
    x = torch.randn(100)
    assert same(x, x * (1 + 1e-6)) and not same(x, x + 1e-2) and same(x, x * 3, cos_similarity=True)
    assert not same(x, x.double()) and same(x, x.double(), exact_dtype=False)
    exact = torch.randn(100, dtype=torch.float64)
    coarse, other = exact.bfloat16(), (exact * (1 + 2**-9)).bfloat16()
    assert not same(coarse, other) and same(coarse, other, exact)
    assert not same(coarse, (exact + 1).bfloat16(), exact)
    assert same([x, {"a": 1.5}, 3], (x, {"a": 1.5}, 3)) and not same([x], [x, x])
    assert not same({"a": x}, {"a": x + 1}) and "key name a" in caplog.text
    with pytest.raises(AssertionError, match="keys mismatch"):
        same({"a": x}, {"b": x})
    nan = torch.tensor([float("nan")])
    assert same(nan, nan, equal_nan=True) and not same(nan, nan)
    assert same(torch.tensor(3), torch.tensor(4), ignore_non_fp=True)


def test_indices_without_dims_in_vmap():
    from tritorch._dynamo._trace_wrapped_higher_order_op import (
        TransformGetItemToIndex,
    )

    mask = torch.arange(12).view(3, 4)

    def chosen(i, j):
        return mask[i, j] + mask[0][j]

    rows = torch.vmap(torch.vmap(chosen, in_dims=(None, 0)), in_dims=(0, None))
    with TransformGetItemToIndex():
        assert rows(torch.arange(3), torch.arange(4)).equal(mask + mask[0])
    assert rows(torch.arange(3), torch.arange(4)).equal(mask + mask[0])


def test_what_has_no_plan_is_shown(caplog, monkeypatch):
    def unfit(*given):
        raise Unfit("it is too odd")

    monkeypatch.setattr(plans, "specs_of_held", unfit)
    torch._logging.set_logs(plan=True)
    made = torch.compile(lambda x: x * 2)
    with caplog.at_level(logging.DEBUG, "torch._inductor"), torch.no_grad():
        for _ in range(4):
            assert made(torch.ones(3)).tolist() == [2, 2, 2]
    shown = [r.getMessage() for r in caplog.records if r.name.endswith("__plan")]
    text = "NO PLAN, the calls of a graph are made each time: it is too odd"
    assert shown and set(shown) == {text}


def test_logs_are_there_before_anything_is_compiled():
    code = "import tritorch as torch; torch._logging.set_logs(graph=True)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_plans_are_shown(monkeypatch, caplog):
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    torch._logging.set_logs(plan=True)
    x, w = two(3, 3)
    made = torch.compile(line)
    with caplog.at_level(logging.DEBUG, "torch._inductor"):
        for _ in range(4):
            made(x, w)
    plans = [r.getMessage() for r in caplog.records if r.name.endswith("__plan")]
    assert plans and all(each.startswith("PLAN of ") for each in plans)
    text = "".join(plans)
    assert " = mm(v0, v1)" in text and " = relu(v" in text and " = add(v" in text
    assert re.search(r" = mm\(v0, v1\)  # .*0\.000 MB, 0\.000 MFLOP\n", text)


@pytest.mark.device
def test_plans_show_what_functions_cost(monkeypatch, caplog):
    """A product of 32 x 64 by 64 x 128, and a kernel that is written for all that follows it."""
    monkeypatch.delenv("TORCH_LOGS", raising=False)
    torch._logging.set_logs(plan=True)
    x, w = torch.ones(32, 64, device="cuda"), torch.ones(64, 128, device="cuda")
    made = torch.compile(lambda x, w: ((x @ w) * 2).softmax(1) + 1)
    with caplog.at_level(logging.DEBUG, "torch._inductor"), torch.no_grad():
        for _ in range(4):
            made(x, w)
    (plan,) = {r.getMessage() for r in caplog.records if r.name.endswith("__plan")}
    product, written = 4 * (32 * 64 + 64 * 128 + 32 * 128), 2 * 4 * 32 * 128
    head, *rows = plan.splitlines()
    total = f"{(product + written) / 1e6:.3f} MB"
    assert head.startswith(f"PLAN of 2 functions: 1 kernels written, {total}")
    assert f"{product / 1e6:.3f} MB, {2 * 32 * 64 * 128 / 1e6:.3f} MFLOP" in rows[0]
    assert f"{written / 1e6:.3f} MB, " in rows[1] and rows[1].endswith(" us by memory")
