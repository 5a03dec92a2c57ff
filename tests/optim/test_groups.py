"""Groups of many parameters: blocks and gathering on the CPU, tables of addresses on the GPU."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tritorch
from tests.optim import cases
from tritorch import amp, optim
from tritorch.gpu.lists import multi_tensor, optim as on_gpu
from tritorch.host import optim as on_cpu
from tritorch.host.chains.program import NAMES, compiled
from tritorch.nn import utils

ELEMENTWISE = [name for name in cases.CLASSES if name not in ("Adafactor", "Muon")]
SIZES = [(), (0,), (1,), (3, 5), (2047,), (1024,), (1025,), (2, 1500)]
OPTIONS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
    "Adam": {"lr": 0.1, "amsgrad": True, "maximize": True},
    "AdamW": {"lr": 0.1, "weight_decay": 0.1},
    "RMSprop": {"momentum": 0.5, "centered": True},
}


def parameters(dtypes: list[str], device: str, sizes: Any = SIZES) -> list[Any]:
    """Leaves of all dtypes and sizes, of which some are no rows of memory."""
    params = []
    for dtype in dtypes:
        kind = getattr(tritorch, dtype)
        for i, size in enumerate(sizes):
            values = tritorch.tensor(cases.array(size, 1.0 + i, "float32")).to(device, kind)
            if len(size) == 2 and i % 2:
                values = values.T.contiguous().T
            params.append(values.requires_grad_())
    return params


def give_gradients(params: list[Any], number: int) -> None:
    for i, p in enumerate(params):
        values = cases.array(tuple(p.shape), 0.7 * i + number, "float32")
        p.grad = tritorch.tensor(values).to(p.device, p.dtype)
        if p.ndim == 2 and i % 3:
            p.grad = p.grad.T.contiguous().T


def same(found: list[Any], expected: list[Any], rtol: float = 1e-6) -> None:
    for p, q in zip(found, expected):
        digits = {2: 2e-2, 4: rtol, 8: 1e-12}[p.element_size()]
        a, b = (x.detach().cpu().double().numpy() for x in (p, q))
        np.testing.assert_allclose(a, b, rtol=digits, atol=digits)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_group_is_its_parameters(name: str) -> None:
    dtypes = ["float32", "float64", "bfloat16"]
    together, apart = parameters(dtypes, "cpu"), parameters(dtypes, "cpu")
    options = OPTIONS.get(name, {})
    whole = getattr(optim, name)(together, **options)
    single = [getattr(optim, name)([p], **options) for p in apart]
    for number in range(3):
        give_gradients(together, number)
        give_gradients(apart, number)
        whole.step()
        for each in single:
            each.step()
    same(together, apart, 1e-7)
    assert not any(np.array_equal(p.detach().float().numpy(),
                                  cases.array(tuple(p.shape), 1.0 + i, "float32"))
                   for i, p in enumerate(together[: len(SIZES)]) if p.numel() > 1)  # fmt: skip


@pytest.mark.device
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_the_gpu_gives_what_the_cpu_gives(name: str) -> None:
    dtypes = ["float32", "bfloat16"] if name != "Adam" else ["float32", "float64", "float16"]
    host, device = parameters(dtypes, "cpu"), parameters(dtypes, "cuda")
    options = OPTIONS.get(name, {})
    pair = [getattr(optim, name)(params, **options) for params in (host, device)]
    for number in range(2):
        for params, optimizer in zip((host, device), pair):
            give_gradients(params, number)
            optimizer.step()
            if number == 0:  # float32 state of narrow parameters
                for state in optimizer.state.values():
                    for key, value in state.items():
                        if value is not None and value.dtype is tritorch.bfloat16:
                            state[key] = value.float()
    same(device, host, 5e-6)


def count_launches(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    counts: Counter[str] = Counter()
    kernel = on_gpu.kernel

    def counting(family: str, name: str) -> Any:
        counts[name] += 1
        return kernel(family, name)

    monkeypatch.setattr(on_gpu, "kernel", counting)
    return counts


@pytest.mark.device
@pytest.mark.parametrize("options", [{}, {"fused": True}, {"capturable": True}])
def test_one_launch_a_step(options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters(["float32"], "cuda", [(3,), (4, 2), (2,)])
    optimizer = optim.Adam(params, **options)
    give_gradients(params, 0)
    optimizer.step()
    uploads = []
    counts = count_launches(monkeypatch)
    copy = multi_tensor._C.copy_from_host
    monkeypatch.setattr(
        multi_tensor._C, "copy_from_host", lambda *args: uploads.append(copy(*args))
    )
    optimizer.step()
    assert counts == ({"step": 1, "advance": 1} if options else {"step": 1}) and not uploads


@pytest.mark.device
def test_steps_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters of other step counts have other numbers: a launch for each."""
    results = []
    for device in ("cpu", "cuda"):
        for options in ({}, {"fused": True}):
            params = parameters(["float32"], device, [(3,), (2, 2)])
            optimizer = optim.Adam(params, lr=0.1, **options)
            for number in range(3):
                give_gradients(params, number)
                if number == 1:
                    params[0].grad = None
                optimizer.step()
            assert [state["step"].item() for state in optimizer.state.values()] == [2, 3]
            results.append(params)
    for found in results[1:]:
        same(found, results[0], 5e-6)


def test_a_parameter_twice() -> None:
    p = tritorch.ones(3, requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate"):
        optimizer = optim.SGD([p, p], lr=0.25, momentum=0.5)
    p.grad = tritorch.ones(3)
    optimizer.step()
    assert p.tolist() == [1 - 0.25 - 0.25 * 1.5] * 3


def test_state_of_another_shape() -> None:
    p = tritorch.ones(2, requires_grad=True)
    optimizer = optim.Adam([p])
    p.grad = tritorch.ones(2)
    optimizer.step()
    optimizer.state[p]["exp_avg"] = tritorch.zeros(3)
    with pytest.raises(RuntimeError, match="must match"):
        optimizer.step()


# ---- gradient scaling ----------------------------------------------------------------------------


@pytest.mark.device
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adagrad"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_fused_steps_unscale(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**OPTIONS.get(name, {}), "fused": True}
    sizes = [(3,), (40, 3)]
    scaled, plain = (parameters(["float32"], device, sizes) for _ in range(2))
    pair = [getattr(optim, name)(params, **options) for params in (scaled, plain)]
    assert all(optimizer._step_supports_amp_scaling for optimizer in pair)
    assert not getattr(optim, name)(plain)._step_supports_amp_scaling
    scale = tritorch.tensor(8.0, device=device)
    for number, found in enumerate([0.0, 1.0, 0.0]):
        for params in (scaled, plain):
            give_gradients(params, number)
        for p in scaled:
            p.grad = p.grad * 8
        pair[0].grad_scale = scale
        pair[0].found_inf = tritorch.tensor(found, device=device)
        before = cases.plain([scaled, pair[0].state_dict()["state"]])
        with monkeypatch.context() as patch:
            if device == "cuda":
                patch.setattr(tritorch.Tensor, "item", None)  # the host does not wait
            pair[0].step()
        if found:
            assert cases.plain([scaled, pair[0].state_dict()["state"]]) == before
            assert scaled[0].grad[0].item() == plain[0].grad[0].item() * 8
        else:
            pair[1].step()
            same([p.grad for p in scaled], [p.grad for p in plain])
    same(scaled, plain)


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_scaler_with_a_fused_optimizer(device: str) -> None:
    p = tritorch.nn.Parameter(tritorch.ones(3, device=device))
    optimizer = optim.SGD([p], 0.5, fused=True)
    scaler = amp.GradScaler(device, init_scale=4.0, growth_interval=1)
    for factor, scale, value in ((1.0, 8.0, 0.5), (math.inf, 4.0, 0.5), (1.0, 8.0, 0.0)):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
        assert p.tolist() == [value] * 3
    assert not hasattr(optimizer, "grad_scale")


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("bad", [None, math.inf, math.nan])
def test_unscaling(device: str, bad: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters(["float32", "bfloat16"], device, [(3,), (0,), (1025,), (40, 3)])
    optimizer = optim.SGD(params)
    give_gradients(params, 0)
    if bad is not None:
        params[-1].grad[5, 1] = bad
    expected = [p.grad / 4 for p in params]
    scaler = amp.GradScaler(device, init_scale=4.0)
    scaler.scale(tritorch.ones((), device=device))
    counts = count_launches(monkeypatch)
    scaler.unscale_(optimizer)
    assert device == "cpu" or counts == {"rescale": 2}
    found = scaler._found_inf_per_device(optimizer)
    assert [x.item() for x in found.values()] == [0.0 if bad is None else 1.0]
    same([p.grad for p in params], expected)


# ---- clipping ------------------------------------------------------------------------------------


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("order", [1.0, 2.0, math.inf, 3.0])
def test_clipping(device: str, order: float, monkeypatch: pytest.MonkeyPatch) -> None:
    params = parameters(["float32", "float64"], device, [(3,), (0,), (2049,), (40, 3)])
    give_gradients(params, 0)
    flat = np.concatenate([p.grad.cpu().double().numpy().ravel() for p in params])
    counts = count_launches(monkeypatch)
    total = utils.clip_grad_norm_(params, 0.5, order)
    assert device == "cpu" or (counts["rescale"] == 2 and counts["norms"] == 2 * (order != 3))
    assert total.dtype is tritorch.float64
    norm = np.linalg.norm(flat, order)
    assert total.item() == pytest.approx(norm, 1e-6)
    clipped = np.concatenate([p.grad.cpu().double().numpy().ravel() for p in params])
    np.testing.assert_allclose(clipped, flat * (0.5 / (norm + 1e-6)), rtol=1e-5)
    params[2].grad[7] = math.nan
    assert math.isnan(utils.get_total_norm([p.grad for p in params], order).item())


def test_norms_of_complex_gradients() -> None:
    grads = [tritorch.tensor([3 + 4j]), tritorch.tensor([12.0])]
    assert utils.get_total_norm(grads).item() == pytest.approx(13.0)


# ---- graphs --------------------------------------------------------------------------------------


@pytest.mark.device
def test_a_captured_step() -> None:
    options = {"lr": tritorch.tensor(0.1, device="cuda"), "capturable": True}
    captured, plain = (parameters(["float32"], "cuda", [(3,), (2, 4)]) for _ in range(2))
    pair = [optim.Adam(params, **options) for params in (captured, plain)]
    for params, optimizer in zip((captured, plain), pair):
        give_gradients(params, 0)
        optimizer.step()
    graph = tritorch.cuda.CUDAGraph()
    with tritorch.cuda.graph(graph):
        pair[0].step()
    give_gradients(plain, 5)
    pair[1].step()  # other tables take the place of those before the capture
    with tritorch.no_grad():
        for p, q in zip(captured, plain):
            p.grad.copy_(q.grad)
    graph.replay()
    for number in (1, 2):
        give_gradients(plain, number)
        for p, q in zip(captured, plain):
            p.grad.copy_(q.grad)
        pair[1].step()
        graph.replay()
    same(captured, plain)
    assert [s["step"].item() for s in pair[0].state.values()] == [4, 4]


def test_a_step_counts_as_a_write() -> None:
    dense = tritorch.ones(3000, requires_grad=True)
    turned = tritorch.ones(60, 50).t().requires_grad_()
    params = [dense, turned]
    optimizer = optim.Adam(params, lr=0.1)
    for count in range(1, 3):
        give_gradients(params, count)
        grads = [(p.grad, p.grad._version) for p in params]
        versions = [p._version for p in params]
        optimizer.step()
        assert all(p._version > before for p, before in zip(params, versions))
        assert all(grad._version == before for grad, before in grads)
        for p in params:
            state = optimizer.state[p]
            assert state["step"].item() == count
            assert all(x._version >= count for x in state.values())
    y = dense * dense
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_state_and_memory_may_be_replaced_between_steps() -> None:
    pair = []
    for replaced in (False, True):
        p = tritorch.linspace(-1, 1, 4000).requires_grad_()
        optimizer = optim.AdamW([p], lr=0.1)
        for count in range(3):
            if replaced and count:
                p.data = p.detach().clone()
                state = optimizer.state[p]
                state["exp_avg"] = state["exp_avg"].view(40, 100).t().clone().t().reshape(4000)
                state["step"] = state["step"].clone()
                optimizer.load_state_dict(optimizer.state_dict())
            p.grad = tritorch.linspace(1, -2, 4000) * (count + 1)
            optimizer.step()
        pair.append(p)
    assert pair[0].equal(pair[1])


# ---- programs ------------------------------------------------------------------------------------


def test_programs_reuse_memory() -> None:
    sqrt, where = NAMES["sqrt"], NAMES["where"]

    def formula(x: Any, y: Any, z: Any, a: Any, b: Any) -> Any:
        t = x * y + y * a
        w = where(t > 0, sqrt(t), -t)
        return t + w, x * b, None

    x, y, z = (cases.array((50,), phase, "float64") for phase in (1.0, 2.0, 3.0))
    t = x * y + y * 0.5
    expected = t + np.where(t > 0, np.sqrt(np.abs(t)), -t), x * 1.0, z.copy()
    program = compiled(formula, (True, True, True), (None, 1.0))
    program.update([[x, y, z]], [0.5, 1.0], x.dtype)
    for found, each in zip((x, y, z), expected):
        np.testing.assert_allclose(found, each)
    assert (len(program.floats), len(program.bools)) == (3, 1), program


@pytest.mark.native("how a chain refuses arrays")
def test_a_program_takes_rows_of_any_length() -> None:
    lengths = (1, 0, 5000, 2048, 3)
    rows = [[cases.array((n,), phase, "float32") for phase in (1.0, 2.0)] for n in lengths]
    expected = [x + y * np.float32(0.5) for x, y in rows]
    chain = compiled(lambda x, y, a: (x + y * a, None), (True, True), (None,))
    chain.update(rows, [0.5], np.dtype("float32"))
    for (x, _), each in zip(rows, expected):
        np.testing.assert_array_equal(x, each)
    for wrong in ([[x, x[:-1]]], [[x[::2], x[::2]]], [[x, None]]):
        with pytest.raises(SystemError, match="lies otherwise"):
            chain.update(wrong, [0.5], np.dtype("float32"))


def test_threads_do_not_change_a_bit() -> None:
    found = []
    for count in (1, 2):
        before = tritorch.get_num_threads()
        tritorch.set_num_threads(count)
        try:
            params = parameters(["float32"], "cpu", [(on_cpu._BYTES,), (7,), (300, 700)])
            optimizer = optim.NAdam(params)
            give_gradients(params, 0)
            optimizer.step()
            found.append([p.detach().numpy() for p in params])
        finally:
            tritorch.set_num_threads(before)
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)


def test_hooks_run_once_around_an_optimizer_that_another_one_holds():
    class Around(optim.Optimizer):  # like accelerate's: no super().__init__()
        def __init__(self, held: Any) -> None:
            self.held = held

        def step(self, closure: Any = None) -> Any:
            return self.held.step(closure)

    ran = []
    held = optim.SGD([tritorch.ones(2, requires_grad=True)], lr=0.1)
    handles = [
        optim.optimizer.register_optimizer_step_pre_hook(lambda *_: ran.append("every pre")),
        optim.optimizer.register_optimizer_step_post_hook(lambda *_: ran.append("every post")),
        held.register_step_pre_hook(lambda *_: ran.append("own pre")),
        held.register_step_post_hook(lambda *_: ran.append("own post")),
    ]
    Around(held).step()
    for handle in handles:
        handle.remove()
    assert ran == ["every pre", "own pre", "own post", "every post"]
