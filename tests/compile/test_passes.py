"""Passes over a program's calls: each is switched off by name; the bisector names a wrong one."""

import pytest

import tritorch as torch
from tritorch.compilation.passes.pipeline import PASSES


def model(x):
    y = torch.relu(x - 1) * 2
    return y.exp() + torch.relu(x - 1)


def wrong_relu(calls, of):
    """A pass that computes relu otherwise."""
    return [
        call._replace(function=lambda x, right=call.function: right(x) + 1)
        if call.note.op.name == "relu"
        else call
        for call in calls
    ]


def refuses(calls, of):
    raise AssertionError("this pass is switched off")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", PASSES)
def test_each_pass_is_switched_off(name, device, monkeypatch):
    monkeypatch.setitem(PASSES, name, refuses)
    x = torch.linspace(-3, 3, 4096, device=device)
    options = {"disabled_passes": f"{name}, a pass of others", "emulate_precision_casts": True}
    fast = torch.compile(model, options=options)
    for _ in range(4):
        assert fast(x).equal(model(x))
    x.requires_grad_()
    for _ in range(4):
        torch.testing.assert_close(
            torch.autograd.grad(fast(x).sum(), x), torch.autograd.grad(model(x).sum(), x)
        )


def test_a_setting_switches_passes_off(monkeypatch):
    monkeypatch.setitem(PASSES, "cse", refuses)
    x = torch.ones(5)
    with torch._inductor.config.patch(disabled_passes="cse"):
        fast = torch.compile(model)
        for _ in range(4):
            assert fast(x).equal(model(x))


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("once", "cse"), ("joining", "concat"), ("chains", "fused_loops"), ("beside", "inter_op"),
        ("fusing", "fusion"), ("norms", "norms"),
    ],
)  # fmt: skip
def test_former_names_switch_passes_off(former, name, monkeypatch):
    monkeypatch.setitem(PASSES, name, refuses)
    x = torch.linspace(-3, 3, 64)
    fast = torch.compile(model, options={"disabled_passes": former})
    for _ in range(4):
        assert fast(x).equal(model(x))


@pytest.mark.parametrize("name", ["cse", "fused_loops"])
def test_bisect_names_a_wrong_pass(name, monkeypatch):
    x = torch.linspace(-3, 3, 64)
    assert torch.compiler.bisect(model, x) is None
    monkeypatch.setitem(PASSES, name, wrong_relu)
    found = torch.compiler.bisect(model, x)
    assert found.operator == "torch.relu" and found.without == name
    assert str(found).endswith(f"; without the pass {name!r} it is right")
    assert torch.compiler.bisect(model, x, options={"disabled_passes": name}) is None
