"""Clipping, undoing a scale, the step and zeroing in one pass, against one after the other."""

import pytest

import tritorch as torch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]
OPTIMIZERS = {
    "AdamW": lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.1),
    "fused AdamW": lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.1, fused=True),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, 0.1, amsgrad=True),
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.1, centered=True),
}


def parameters(device, kind=torch.float32):
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(*s, generator=generator).to(device, kind) for s in ((5, 7), (300,), (1,))]
    for p in made:
        p.requires_grad_()
        p.grad = (3 * torch.randn(p.shape, generator=generator)).to(device, kind)
    return made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("max_norm", [1.0, 1e3])
def test_as_one_after_the_other(device, name, zero, max_norm):
    ours, theirs = parameters(device), parameters(device)
    grads = [p.grad for p in ours]
    together, apart = OPTIMIZERS[name](ours), OPTIMIZERS[name](theirs)
    for _ in range(2):  # without a state, and with one
        for p, q, grad in zip(ours, theirs, grads):
            p.grad = grad
            with torch.no_grad():
                grad.copy_(q.grad if zero is False else torch.full_like(grad, 2.0))
            q.grad = grad.clone()
        norm = together.step_clipped(max_norm, zero_grad=zero)
        want = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
        apart.step()
        torch.testing.assert_close(norm, want)
        for p, q in zip(ours, theirs):
            torch.testing.assert_close(p.detach(), q.detach())
            after = torch.zeros_like(q.grad) if zero else q.grad
            torch.testing.assert_close(p.grad, after)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [False, True])
def test_with_a_scale(device, bad):
    """What GradScaler leaves to fused optimizers: the scale, and whether to step at all."""
    ours, theirs = parameters(device), parameters(device)
    together = OPTIMIZERS["fused AdamW"](ours)
    apart = OPTIMIZERS["fused AdamW"](theirs)
    together.grad_scale = torch.tensor(8.0, device=device)
    together.found_inf = torch.tensor(float(bad), device=device)
    before = [p.detach().clone() for p in ours]
    norm = together.step_clipped(1.0)
    for p in theirs:
        p.grad /= 8
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(theirs, 1.0))
    apart.step()
    for p, q, old in zip(ours, theirs, before):
        torch.testing.assert_close(p.detach(), old if bad else q.detach())
        assert not p.grad.any()
    assert together.grad_scale.item() == 8


def test_complex_parameters_too():
    p = torch.ones(4, dtype=torch.complex64, requires_grad=True)
    p.grad = torch.full((4,), 3 + 4j)
    optimizer = torch.optim.SGD([p], 0.5)
    assert optimizer.step_clipped(1.0).item() == pytest.approx(10)
    torch.testing.assert_close(p.detach(), torch.full((4,), 1 - 0.5 * (0.3 + 0.4j)))
    assert not p.grad.any()


@pytest.mark.parametrize("bad", [-1.0, float("nan"), "1", None])
def test_bad_norms_are_refused_before_anything_changes(bad):
    (p, *_) = parameters("cpu")
    before = p.detach().clone()
    with pytest.raises(ValueError, match=r"step_clipped\(\) needs a max_norm of 0 or more, got"):
        torch.optim.SGD([p], 0.1).step_clipped(bad)
    assert torch.equal(p.detach(), before) and p.grad.any()
