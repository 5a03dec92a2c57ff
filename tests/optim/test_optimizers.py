"""Optimizers beside what tools/record/optim.py recorded from PyTorch."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tritorch
from tests.optim import cases
from tritorch import optim

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
DIFFERENTIABLE = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.5)}),
    ("AdamW", {"lr": 0.1}),
    ("Adadelta", {"eps": 0.1}),
    ("Adagrad", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 0}),
    ("NAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.9, 0.99), "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
    ("RMSprop", {"lr": 0.1, "centered": True, "maximize": True}),
]


def close(
    found: Any, expected: Any, where: str = "", rtol: float = 1e-6, size: float = 0.5
) -> None:
    """Compares lists by their largest numbers; keys and their order exactly."""
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            close(found[key], expected[key], f"{where}.{key}", rtol)
    elif isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), where
        size = max([size, *(abs(x) for x in expected if isinstance(x, float))])
        for i, (a, b) in enumerate(zip(found, expected)):
            close(a, b, f"{where}[{i}]", rtol, size)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rtol, abs=rtol * size), where
    else:
        assert found == expected, where


def tolerance(name: str) -> float:
    return 2e-2 if name == "Muon" else 1e-6  # Muon's products are of bfloat16


def label(value: Any) -> str | None:
    if isinstance(value, dict) and "params" not in value:
        return ",".join(f"{k}={v}" for k, v in value.items()) or "default"
    return value if isinstance(value, str) else "" if isinstance(value, dict) else None


@pytest.mark.parametrize("name, options, dtype, expected", RECORDED["optimizers"], ids=label)
def test_five_steps(name: str, options: Any, dtype: str, expected: Any) -> None:
    close(cases.run(tritorch, name, options, dtype), expected, rtol=tolerance(name))


@pytest.mark.device
@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize("name", cases.CLASSES)
def test_on_the_gpu(name: str, capturable: bool) -> None:
    options, expected = next(
        (options, expected)
        for n, options, dtype, expected in RECORDED["optimizers"]
        if n == name and dtype == "float32"
    )
    if capturable:
        if "capturable" not in expected["groups"][0]:
            pytest.skip("has no such option")
        options = {**options, "capturable": True}
    found = cases.run(tritorch, name, options, "float32", "cuda")
    rtol = max(tolerance(name), 5e-6)
    close(found["params"], expected["params"], rtol=rtol)
    close(found["state"], expected["state"], rtol=rtol)


@pytest.mark.device
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_on_the_gpu(name: str) -> None:
    def run(**options: Any) -> Any:
        return cases.run(tritorch, name, {"lr": 0.1, **options}, "float32", "cuda")

    fused, plain = run(fused=True), run()
    close(fused["params"], plain["params"], rtol=5e-6)
    close(fused["state"], plain["state"], rtol=5e-6)


@pytest.mark.parametrize("name, params, state_dict", RECORDED["resumed"], ids=label)
def test_goes_on_from_pytorch(name: str, params: Any, state_dict: Any) -> None:
    """A state dict of PyTorch after three steps, and two more here."""
    options = next(o for n, o in cases.OPTIMIZERS if n == name)
    expected = next(e for n, o, d, e in RECORDED["optimizers"] if n == name and d == "float32")
    own, optimizer = cases.make(tritorch, name, options, "float32")
    with tritorch.no_grad():
        for p, value in zip(own, params):
            p.copy_(tritorch.tensor(value))
    state = {
        int(number): {key: value if value is None else tritorch.tensor(value)
                      for key, value in entries.items()}
        for number, entries in state_dict["state"].items()
    }  # fmt: skip
    optimizer.load_state_dict({"state": state, "param_groups": state_dict["param_groups"]})
    for number in range(cases.RESUME_AT, cases.STEPS):
        cases.step(tritorch, own, optimizer, number)
    close(cases.plain(own), expected["params"], rtol=tolerance(name))


@pytest.mark.parametrize("how", ["state_dict", "pickle", "deepcopy"])
@pytest.mark.parametrize("name", cases.CLASSES)
def test_round_trips(name: str, how: str) -> None:
    options = next(o for n, o in cases.OPTIMIZERS if n == name)
    params, optimizer = cases.make(tritorch, name, options, "float32")
    for number in range(2):
        cases.step(tritorch, params, optimizer, number)
    if how == "state_dict":
        others, other = cases.make(tritorch, name, options, "float32")
        with tritorch.no_grad():
            for p, q in zip(params, others):
                q.copy_(p)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    else:
        other = (
            pickle.loads(pickle.dumps(optimizer)) if how == "pickle" else copy.deepcopy(optimizer)
        )
        others = other.param_groups[0]["params"]
    cases.step(tritorch, params, optimizer, 2)
    cases.step(tritorch, others, other, 2)
    assert cases.plain(params) == cases.plain(others)
    assert cases.plain(optimizer.state_dict()) == cases.plain(other.state_dict())


@pytest.mark.parametrize("options, expected", RECORDED["lbfgs"], ids=label)
def test_lbfgs(options: Any, expected: Any) -> None:
    close(cases.run_lbfgs(tritorch, options), expected)


def test_lbfgs_round_trip() -> None:
    def run(reload: bool) -> Any:
        x = tritorch.tensor([2.0, -1.0], dtype=tritorch.float64, requires_grad=True)
        optimizer = optim.LBFGS([x], lr=0.1, max_iter=3)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (x**4).sum() + x.prod()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
            if reload:
                saved = pickle.loads(pickle.dumps(optimizer.state_dict()))
                optimizer = optim.LBFGS([x], lr=0.1, max_iter=3)
                optimizer.load_state_dict(saved)
        return x.tolist()

    assert run(True) == run(False)


@pytest.mark.parametrize("options, expected", RECORDED["sparse_adam"], ids=label)
def test_sparse_adam(options: Any, expected: Any) -> None:
    """The formula, on rows and their gradients; see update_entries."""
    p = tritorch.tensor(cases.array((3, 3), 1.0, "float32"))
    optimizer = optim.SparseAdam([p], **options)
    state = optimizer.state[p]
    state.update(step=0, exp_avg=tritorch.zeros_like(p), exp_avg_sq=tritorch.zeros_like(p))
    for number in range(5):
        rows, grad = cases.sparse_step(number)
        at = (tritorch.tensor(rows, dtype=tritorch.int64),)
        sign = -1 if options.get("maximize") else 1
        optimizer.update_entries(
            p, at, tritorch.tensor(sign * grad), state, optimizer.param_groups[0]
        )
    close(cases.plain([p]), expected["params"])
    close(cases.plain(optimizer.state_dict()["state"]), expected["state"])


@pytest.mark.parametrize("name, options", DIFFERENTIABLE, ids=label)
def test_differentiable(name: str, options: Any) -> None:
    """Gradients through three steps, beside differences."""

    def loss(values: list[Any]) -> Any:
        p = values[0].clone()
        optimizer = getattr(optim, name)([p], differentiable=True, **options)
        for grad in values[1:]:
            p.grad = grad
            optimizer.step()
        return p.square().sum()

    values = [cases.array((3,), phase, "float64") for phase in (1.0, 0.4, 1.9, 4.0)]
    leaves = [tritorch.tensor(value, requires_grad=True) for value in values]
    loss(leaves).backward()
    for k, leaf in enumerate(leaves):
        for i in range(3):
            ends = []
            for h in (1e-5, -1e-5):
                moved = [value.copy() for value in values]
                moved[k][i] += h
                ends.append(loss([tritorch.tensor(value) for value in moved]).item())
            slope = (ends[0] - ends[1]) / 2e-5
            assert leaf.grad is not None
            assert leaf.grad[i].item() == pytest.approx(slope, rel=1e-4, abs=1e-7), (k, i)


def test_capturable_needs_a_gpu() -> None:
    params, optimizer = cases.make(tritorch, "Adam", {"capturable": True}, "float32")
    with pytest.raises(AssertionError, match="If capturable=True, params and state_steps"):
        cases.step(tritorch, params, optimizer, 0)


def test_fused_needs_floats() -> None:
    params, optimizer = cases.make(tritorch, "Adam", {"fused": True}, "complex64")
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params"):
        cases.step(tritorch, params, optimizer, 0)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adadelta", "Rprop", "NAdam"])
def test_tensors_as_options(name: str) -> None:
    plain = cases.run(tritorch, name, {"lr": 0.125}, "float32")
    lr = cases.run(tritorch, name, {"lr": tritorch.tensor(0.125)}, "float32")
    assert lr["params"] == plain["params"]


def test_betas_as_tensors() -> None:
    betas = (tritorch.tensor(0.5), tritorch.tensor([0.75]))
    found = cases.run(tritorch, "Adam", {"betas": betas}, "float32")
    plain = cases.run(tritorch, "Adam", {"betas": (0.5, 0.75)}, "float32")
    assert found["params"] == plain["params"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["SGD", "Adam", "Adafactor", "RMSprop", "Muon"])
def test_half_precision(name: str, dtype: str) -> None:
    p = tritorch.ones(4, 4, dtype=getattr(tritorch, dtype), requires_grad=True)
    optimizer = getattr(optim, name)([p], lr=0.125)
    p.grad = tritorch.ones_like(p)
    optimizer.step()
    assert p.dtype is getattr(tritorch, dtype)
    assert (p < 1).all() and p.isfinite().all()


# ---- the base class ------------------------------------------------------------------------------


@pytest.mark.parametrize("text, expected", RECORDED["errors"], ids=label)
def test_errors(text: str, expected: Any) -> None:
    found = cases.run_error(tritorch, text)
    assert found is not None and found[0] == expected[0]
    # Names and the tail of long messages are this package's own.
    same = expected[1].replace("torch.", "tritorch.")[:60]
    if "initial_lr" not in same:
        assert found[1].startswith(same.split("PyTorch")[0]), found[1]


def test_repr() -> None:
    _, optimizer = cases.make(tritorch, "Adam", {"lr": 0.5}, "float32", named=True)
    assert repr(optimizer) == RECORDED["repr"]


def leaf(n: int = 2) -> Any:
    p = tritorch.ones(n, requires_grad=True)
    p.grad = tritorch.ones(n)
    return p


def test_closures_get_gradients() -> None:
    p = leaf()
    optimizer = optim.SGD([p], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with tritorch.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert p.tolist() == [0.0, 0.0]


def test_zero_grad() -> None:
    p = leaf()
    optimizer = optim.SGD([p])
    grad = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad and grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_step_hooks() -> None:
    calls: list[Any] = []
    p = leaf()
    optimizer = optim.Adam([p])
    note = lambda name: lambda opt, args, kwargs: calls.append((name, opt is optimizer, len(args)))
    handles = [
        optim.optimizer.register_optimizer_step_pre_hook(note("global pre")),
        optim.optimizer.register_optimizer_step_post_hook(note("global post")),
        optimizer.register_step_pre_hook(note("pre")),
        optimizer.register_step_post_hook(note("post")),
    ]
    optimizer.step()
    assert [name for name, own, n in calls] == ["global pre", "pre", "post", "global post"]
    assert all(own and n == 1 for _, own, n in calls)
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 4
    handle = optimizer.register_step_pre_hook(lambda opt, args, kwargs: ((opt, lambda: 7), {}))
    assert optimizer.step() == 7
    handle.remove()
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_hooks_run_once_around_an_override() -> None:
    class Mine(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step()
            return super().step(closure)

    calls = []
    optimizer = Mine([leaf()])
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert calls == [1]


def test_state_dict_hooks() -> None:
    optimizer = optim.SGD([leaf()], lr=0.5, momentum=0.9)
    order: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda opt: order.append("second"))
    optimizer.register_state_dict_pre_hook(lambda opt: order.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda opt, found: {**found, "more": 1})
    saved = optimizer.state_dict()
    assert order == ["first", "second"] and saved["more"] == 1

    def halve(opt: Any, given: Any) -> Any:
        groups = [{**g, "lr": g["lr"] / 2} for g in given["param_groups"]]
        return {**given, "param_groups": groups}

    optimizer.register_load_state_dict_pre_hook(halve)
    optimizer.register_load_state_dict_post_hook(lambda opt: order.append("loaded"))
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.25 and order[-1] == "loaded"


def test_groups_and_names() -> None:
    p, q = leaf(), leaf()
    optimizer = optim.SGD([("a", p)], lr=0.5)
    optimizer.add_param_group({"params": [("b", q)], "lr": 0.25})
    saved = optimizer.state_dict()
    assert [g["param_names"] for g in saved["param_groups"]] == [["a"], ["b"]]
    assert [g["params"] for g in saved["param_groups"]] == [[0], [1]]
    optimizer.step()
    assert p.tolist() == [0.5, 0.5] and q.tolist() == [0.75, 0.75]
    unnamed = optim.SGD([{"params": [p]}, {"params": [q]}])
    unnamed.load_state_dict(saved)
    assert unnamed.param_groups[1]["lr"] == 0.25
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p])


def test_state_follows_the_parameter() -> None:
    p = tritorch.ones(2, dtype=tritorch.float64, requires_grad=True)
    optimizer = optim.Adam([p])
    saved = optimizer.state_dict()
    saved["state"] = {
        0: {
            "step": tritorch.tensor(3.0),
            "exp_avg": tritorch.ones(2),
            "exp_avg_sq": tritorch.ones(2),
        },
        "other": 5,
    }
    optimizer.load_state_dict(saved)
    assert optimizer.state[p]["exp_avg"].dtype is tritorch.float64
    assert optimizer.state[p]["step"].dtype is tritorch.float32
    assert optimizer.state["other"] == 5


def test_old_checkpoints() -> None:
    p = leaf()
    optimizer = optim.AdamW([p])
    group = {"params": [0], "lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
    state = {"step": 3, "exp_avg": tritorch.ones(2), "exp_avg_sq": tritorch.ones(2)}
    optimizer.load_state_dict({"state": {0: state}, "param_groups": [group]})
    assert optimizer.param_groups[0]["amsgrad"] is False
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 4.0


def test_user_defined_optimizers() -> None:
    """The customary way of writing one."""

    class SignSGD(optim.Optimizer):
        def __init__(self, params: Any, lr: Any = optim.optimizer.required) -> None:
            super().__init__(params, {"lr": lr})

        @tritorch.no_grad()
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["count"] = state.get("count", 0) + 1
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    p = leaf()
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        SignSGD([p])
    optimizer = SignSGD([{"params": [p], "lr": 0.25}])
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    optimizer.step()
    assert p.tolist() == [0.75, 0.75] and calls == [1]
    assert optimizer.state_dict()["state"] == {0: {"count": 1}}


def test_swapped_in() -> None:
    p = leaf()
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.step()
    before, other = p.tolist(), leaf()
    saved = copy.deepcopy(optimizer.state_dict())
    saved["param_groups"][0]["lr"] = 0.5
    own = optimizer.param_groups[0]["params"]
    with optim.swap_in_optimizer_params_and_state(optimizer, {"p": other}, saved):
        optimizer.step()
    assert p.tolist() == before and optimizer.param_groups[0]["params"] is own
    assert optimizer.param_groups[0]["lr"] == 0.1 and optimizer.state[p]["step"].item() == 1.0
    assert other.tolist() == pytest.approx([0.5, 0.5]) and saved["state"][0]["step"].item() == 2.0
    for broken, why in [
        ({"state": []}, "to be a dict mapping"),
        ({"state": {0: 1}}, "to be dictionaries"),
        ({"state": {5: {}}}, "got extra keys"),
        ({"param_groups": []}, "different number of parameter groups"),
        ({"param_groups": [{"params": [0]}]}, "to exactly match the live"),
    ]:
        with (
            pytest.raises(RuntimeError, match=why),
            optim.swap_in_optimizer_params_and_state(optimizer, {"p": other}, {**saved, **broken}),
        ):
            pass


def test_parameters_without_gradients_stay() -> None:
    p, q = leaf(), tritorch.ones(2, requires_grad=True)
    optimizer = optim.Adam([p, q])
    optimizer.step()
    assert q.tolist() == [1.0, 1.0] and list(optimizer.state_dict()["state"]) == [0]


def test_adagrad_has_state_from_the_start() -> None:
    optimizer = optim.Adagrad([leaf()], initial_accumulator_value=0.5)
    assert optimizer.state_dict()["state"][0]["sum"].tolist() == [0.5, 0.5]


def test_leaves_no_trace_in_the_graph() -> None:
    p = leaf()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optim.NAdam([p]).step()
    assert p.is_leaf and p.requires_grad and p.grad_fn is None
    assert np.isfinite(p.detach().numpy()).all()


@pytest.mark.parametrize("name", [n for n in cases.CLASSES if n not in ("Adafactor", "Muon")])
def test_large_parameters(name: str) -> None:
    """Those go in blocks if they are contiguous: the result is that of many small ones."""
    options = next(o for n, o in cases.OPTIMIZERS if n == name)
    values = cases.array((3, 32768), 1.0, "float32")
    grads = [cases.array((3, 32768), 2.0 + i, "float32") for i in range(3)]
    whole = tritorch.tensor(values, requires_grad=True)
    rows = [tritorch.tensor(row, requires_grad=True) for row in values]
    transposed = tritorch.tensor(values.T.copy()).T.requires_grad_()
    first, second, third = (
        getattr(optim, name)(p, **options) for p in ([whole], rows, [transposed])
    )
    for grad in grads:
        whole.grad = tritorch.tensor(grad)
        transposed.grad = tritorch.tensor(grad)
        for row, g in zip(rows, grad):
            row.grad = tritorch.tensor(g)
        for optimizer in (first, second, third):
            optimizer.step()
    expected = np.stack([row.detach().numpy() for row in rows])
    np.testing.assert_allclose(whole.detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(transposed.detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert whole._version >= 3


def test_an_optimizer_around_another_needs_nothing_of_the_base_class():
    class Around(tritorch.optim.Optimizer):
        def __init__(self, inner):  # never calls that of Optimizer
            self.inner = inner

        @property
        def param_groups(self):
            return self.inner.param_groups

        def step(self, closure=None):
            return self.inner.step(closure)

    p = tritorch.nn.Parameter(tritorch.ones(2))
    around = Around(tritorch.optim.SGD([p], lr=1.0))
    schedule = tritorch.optim.lr_scheduler.StepLR(around, 1)
    p.sum().backward()
    around.step()
    schedule.step()
    assert p.tolist() == [0, 0] and around.param_groups[0]["lr"] == pytest.approx(0.1)
    around.zero_grad()
    assert p.grad is None
