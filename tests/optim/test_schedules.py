"""Learning rate schedules and averages beside what PyTorch does."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import pytest

import tritorch
from tests.optim import cases
from tests.optim.test_optimizers import RECORDED, close, leaf
from tritorch import nn, optim
from tritorch.optim import lr_scheduler as s, swa_utils


@pytest.mark.parametrize("text, expected", RECORDED["schedulers"], ids=lambda x: str(x)[:60])
def test_sequence(text: str, expected: Any) -> None:
    found = cases.run_scheduler(tritorch, text)
    close(found["seen"], expected["seen"], rtol=1e-9)
    internal = {"anneal_func", "_scale_fn_ref"}
    assert set(found["keys"]) - internal == set(expected["keys"]) - internal


@pytest.mark.parametrize("text, expected", RECORDED["epochs"], ids=lambda x: str(x)[:60])
def test_closed_form(text: str, expected: Any) -> None:
    close(cases.run_epochs(tritorch, text), expected, rtol=1e-9)


@pytest.mark.parametrize("text", cases.SCHEDULERS)
def test_goes_on_from_a_state_dict(text: str) -> None:
    first = cases.make_scheduler(tritorch, text, cases.two_groups(tritorch))
    for i in range(5):
        cases.advance(first, i)
    second = cases.make_scheduler(tritorch, text, cases.two_groups(tritorch))
    second.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for i in range(5, 10):
        cases.advance(first, i)
        cases.advance(second, i)
        assert cases.look(first) == cases.look(second)


@pytest.mark.parametrize("text, expected", RECORDED["resumed_schedules"], ids=lambda x: str(x)[:60])
def test_goes_on_from_last_epoch(text: str, expected: Any) -> None:
    close(cases.run_resumed(tritorch, text), expected, rtol=1e-9)


def test_resuming_needs_initial_lr() -> None:
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified"):
        s.StepLR(cases.two_groups(tritorch), 3, last_epoch=2)


def test_order_of_calls() -> None:
    opt = cases.two_groups(tritorch)
    scheduler = s.StepLR(opt, 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before"):
        scheduler.step()
    opt = cases.two_groups(tritorch)
    scheduler = s.StepLR(opt, 3)
    opt.step = lambda: None
    with pytest.warns(UserWarning, match=r"`optimizer.step\(\)` has been overridden"):
        scheduler.step()
    opt = cases.two_groups(tritorch)
    scheduler = s.StepLR(opt, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.step()
        scheduler.step()


def test_warnings_about_uses() -> None:
    scheduler = s.StepLR(cases.two_groups(tritorch), 3)
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        scheduler.get_lr()
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter in"):
        scheduler.step(5)


def test_tensors_as_learning_rates_change_in_place() -> None:
    lr = tritorch.tensor(1.0)
    opt = optim.SGD([leaf()], lr=lr)
    scheduler = s.ExponentialLR(opt, 0.5)
    opt.step()
    scheduler.step()
    assert opt.param_groups[0]["lr"] is lr and lr.item() == 0.5
    assert scheduler.get_last_lr()[0] is not lr and scheduler.base_lrs[0].item() == 1.0


def test_callable_objects_are_saved() -> None:
    class Decay:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def __call__(self, epoch: int) -> float:
            return self.rate**epoch

    scheduler = s.LambdaLR(optim.SGD([leaf()], lr=1.0), Decay(0.5))
    saved = scheduler.state_dict()
    assert saved["lr_lambdas"] == [{"rate": 0.5}]
    other = s.LambdaLR(optim.SGD([leaf()], lr=1.0), Decay(0.25))
    other.load_state_dict(saved)
    assert other.lr_lambdas[0].rate == 0.5 and "lr_lambdas" in saved
    assert scheduler.state_dict().keys() == saved.keys()


def test_cycles_move_beta1() -> None:
    opt = optim.Adam([leaf()], lr=0.1)
    scheduler = s.OneCycleLR(opt, 0.1, 10)
    assert opt.param_groups[0]["betas"] == (0.95, 0.999)
    for _ in range(2):
        opt.step()
        scheduler.step()
    assert opt.param_groups[0]["betas"][0] == pytest.approx(0.85)


def test_one_cycle_ends() -> None:
    opt = cases.two_groups(tritorch)
    scheduler = s.OneCycleLR(opt, 0.1, 2)
    for _ in range(2):
        opt.step()
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        scheduler.step()


def test_plateau_with_new_groups() -> None:
    opt = optim.SGD([leaf()], lr=1.0)
    fixed = s.ReduceLROnPlateau(opt, patience=0, min_lr=[0.1])
    shared = s.ReduceLROnPlateau(opt, patience=0, min_lr=0.1, factor=0.5)
    opt.add_param_group({"params": [leaf()]})
    for scheduler in (fixed, shared):
        scheduler.step(1.0)
    shared.step(tritorch.tensor(2.0))
    assert [g["lr"] for g in opt.param_groups] == [0.5, 0.5]
    with pytest.raises(RuntimeError, match="number of param groups"):
        fixed.step(2.0)


def test_schedules_of_users() -> None:
    class Inverse(s.LRScheduler):
        def get_lr(self) -> Any:
            return [lr / (1 + self.last_epoch) for lr in self.base_lrs]

    opt = optim.SGD([leaf()], lr=1.0)
    scheduler = Inverse(opt)
    opt.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.5]
    assert issubclass(s._LRScheduler, s.LRScheduler)


# ---- swa_utils -----------------------------------------------------------------------------------


def models(n: int) -> list[Any]:
    found = []
    for i in range(n):
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        with tritorch.no_grad():
            for p in model.parameters():
                p.fill_(float(i * i))
            model[1].running_mean.fill_(float(i))
        found.append(model)
    return found


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize(
    "how", [{}, {"avg_fn": swa_utils.get_swa_avg_fn()},
            {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}],
    ids=["default", "avg_fn", "multi_avg_fn"],
)  # fmt: skip
def test_equal_averages(how: Any, use_buffers: bool) -> None:
    steps = models(4)
    average = swa_utils.AveragedModel(steps[0], use_buffers=use_buffers, **how)
    for model in steps:
        average.update_parameters(model)
    assert average.n_averaged.item() == 4
    assert average.module[0].weight.detach().mean().item() == pytest.approx((0 + 1 + 4 + 9) / 4)
    mean = average.module[1].running_mean[0].item()
    assert mean == pytest.approx(1.5 if use_buffers else 3.0)
    assert "n_averaged" in average.state_dict() and "module.0.weight" in average.state_dict()
    x = tritorch.ones(2, 2)
    assert (average.eval()(x) == average.module(x)).all()


@pytest.mark.parametrize("kind", ["avg_fn", "multi_avg_fn"])
def test_exponential_averages(kind: str) -> None:
    make = {"avg_fn": swa_utils.get_ema_avg_fn, "multi_avg_fn": swa_utils.get_ema_multi_avg_fn}
    steps = models(3)
    average = swa_utils.AveragedModel(steps[0], **{kind: make[kind](0.75)})
    expected = 0.0
    for i, model in enumerate(steps):
        average.update_parameters(model)
        expected = expected * 0.75 + i * i * 0.25
    weight = average.module[0].weight.detach()
    assert weight.tolist() == [[pytest.approx(expected)] * 2] * 3
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(steps[0], avg_fn=math.fsum, multi_avg_fn=math.fsum)


def test_update_bn() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2))
    model[0].momentum = 0.3
    model.eval()
    batches = [tritorch.tensor([[0.0, 1.0], [2.0, 5.0]]), tritorch.tensor([[4.0, 1.0], [6.0, 1.0]])]
    swa_utils.update_bn([(batch, 1) for batch in batches], model)
    assert model[0].running_mean.tolist() == pytest.approx([3.0, 2.0])
    assert model[0].momentum == 0.3 and not model.training
    swa_utils.update_bn(batches, nn.Linear(2, 2))
