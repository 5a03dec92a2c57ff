"""torch._lazy: steps, what is counted of them, and their graphs as text."""

import os
from unittest import mock

import pytest

import tritorch as torch
from tritorch import _lazy, nn
from tritorch._lazy import (
    config,
    debug,
    ir_cache,
    metrics,
    steps,
    tensor_factory_functions,
)
from tritorch._lazy.closure import AsyncClosureHandler
from tritorch._lazy.ts_backend import init


@pytest.fixture
def lazy():
    init()
    metrics.reset()
    yield
    steps.stop()
    metrics.reset()


def test_steps_train_as_the_plain_program(lazy):
    def train(device, mark):
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
        opt = torch.optim.Adam(net.parameters(), lr=0.1)
        x = torch.randn(8, 3, device=device)
        losses = []
        for _ in range(4):
            loss = net(x).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            mark(losses, loss)
        return losses

    def mark(losses, loss):
        _lazy.add_step_closure(lambda x: losses.append(x.item()), (loss,))
        assert len(losses) == metrics.counter_value("MarkStep") if losses else True
        _lazy.mark_step()

    found = train("lazy", mark)
    assert metrics.counter_value("MarkStep") == 4 and not torch.compiler.is_compiling()
    assert metrics.counter_value("lazy::linear") >= 2
    assert metrics.counter_value("UncachedCompile") >= 1
    steps.stop()
    plain = train("cpu", lambda losses, loss: losses.append(loss.item()))
    assert found == pytest.approx(plain, rel=1e-5)


def test_the_device_is_the_one_that_computes(lazy):
    assert torch.ones(2, device="lazy").device.type == "cpu"
    with mock.patch.dict(os.environ, LTC_TS_CUDA="1"):
        assert steps.where() == "cuda"
    steps.stop()
    with pytest.raises(NotImplementedError, match="'Lazy' backend"):
        torch.ones(2, device="lazy")
    with pytest.raises(RuntimeError, match="Lazy tensor backend not registered"):
        _lazy.mark_step()


def test_graphs_as_text(lazy, tmp_path):
    x = torch.ones(2, 3)
    _lazy.mark_step()
    y = (x + 1).relu()
    assert debug.dump_ir([y], "text").splitlines()[:4] == [
        "IR {",
        "  %0 = [float32[2,3]] lazy_tensors::device_data()",
        "  %1 = [float32[2,3]] aten::add(%0)",
        "  %2 = [float32[2,3]] aten::relu(%1)",
    ]
    assert "relu()" in debug.dump_ir([y], "backend")
    dot = debug.render_ir_graph([y])
    assert dot.startswith("digraph G {\n") and '  node1 -> node2 [label="i=0"]\n' in dot
    ir_cache.dump(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == dot
    ir_cache.reset()
    with pytest.raises(RuntimeError, match="Unrecognized IR format: xml"):
        debug.dump_ir([y], "xml")


def test_what_is_counted(lazy):
    for _ in range(3):
        x = torch.full((2,), 3.0)
        assert _lazy.to_cpu({"y": x + 1})["y"].tolist() == [4, 4]
        _lazy.mark_step(wait=True)
    assert metrics.counter_value("nosuch") is None
    names = metrics.counter_names()
    assert names == sorted(names) and {"MarkStep", "lazy::full", "lazy::add"} <= set(names)
    report = metrics.metrics_report()
    assert "Counter: MarkStep\n  Value: 3\n" in report and "TotalSamples: " in report
    metrics.reset()
    assert metrics.counter_names() == []


def test_closures_run_in_order_and_in_a_thread(lazy):
    seen, handler = [], AsyncClosureHandler()
    _lazy.add_step_closure(seen.append, (1,))
    _lazy.add_step_closure(seen.append, (2,))
    assert seen == []
    _lazy.mark_step()
    assert seen == [1, 2]
    handler([lambda: seen.append(3), lambda: seen.append(4)])
    handler._closure_queue.join()
    assert seen == [1, 2, 3, 4]
    handler([lambda: 1 / 0])
    handler._closure_queue.join()
    with pytest.raises(RuntimeError, match="previously raised exception"):
        handler([lambda: None])


def test_numbers_and_names():
    x, y = torch.ones(2), torch.ones(2)
    assert _lazy.get_tensor_id(x) == _lazy.get_tensor_id(x) < _lazy.get_tensor_id(y)
    config.set_force_fallback("add")
    assert config.get_force_fallback() == "add"
    config.set_force_fallback("")
    assert torch.eye in tensor_factory_functions.tensor_factory_functions
