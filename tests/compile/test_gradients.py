"""What the node of a compiled segment gives when it is asked for gradients."""

from __future__ import annotations

import contextlib

import tritorch as torch
from tritorch.utils._python_dispatch import TorchDispatchMode

EXACT = [[-0.03305785357952118, -0.04958677664399147], [-0.04958678036928177, -0.07438016682863235]]
ROUGH = [[-0.033447265625, -0.050048828125], [-0.0498046875, -0.07470703125]]
EXACT_TWICE = [
    [-0.001937274937517941, -0.004681747406721115],
    [-0.004681746941059828, -0.009686373174190521],
]
ROUGH_TWICE = [
    [-0.0019989013671875, -0.0047607421875],
    [-0.004730224609375, -0.00970458984375],
]


def _gradients(
    compiled: object, autocast: tuple[bool, bool], twice: bool
) -> tuple[list[list[float]], ...]:
    """The gradient of an inverse, whose formula has products, and the gradient of its square;
    autocast: in the forward pass, in the backward pass."""
    modes = [torch.autocast("cpu", torch.bfloat16, enabled=each) for each in autocast]
    w = torch.tensor([[4.0, 1.0], [1.0, 3.0]], requires_grad=True)
    with modes[0]:
        y = compiled(w)  # type: ignore[operator]
    with modes[1]:
        (once,) = torch.autograd.grad(y.sum(), w, create_graph=twice)
        if twice:
            once.square().sum().backward()
    return once.tolist(), *([w.grad.tolist()] if twice else [])


def test_autocast_is_that_of_the_backward_pass() -> None:
    """PyTorch 2.13's numbers: whether the forward pass ran under autocast, which inv is no matter
    of, says nothing of a backward pass, and a later pass may run otherwise than the first."""
    for twice in (True, False):
        fast = torch.compile(torch.linalg.inv)
        for forward, backward in sorted([(True, False), (False, True), (False, False)] * 4):
            found = _gradients(fast, (forward, backward), twice)
            expected = (ROUGH, ROUGH_TWICE) if backward else (EXACT, EXACT_TWICE)
            assert found == expected[: len(found)], (twice, forward, backward)


def test_a_failed_gradient_of_gradients_leaves_modes_and_generators() -> None:
    fails = [False]

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x * 2, 0.5).square().sum()

    class Failing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if fails[0] and "mul" in str(func):
                raise ValueError("a mode refuses this")
            return func(*args, **(kwargs or {}))

    fast = torch.compile(function)
    for _ in range(5):
        x = torch.ones(8, requires_grad=True)
        loss = fast(x)
        state = torch.get_rng_state()
        fails[0] = True
        with Failing(), contextlib.suppress(ValueError):
            torch.autograd.grad(loss, x, create_graph=True)
        fails[0] = False
        assert torch.equal(torch.get_rng_state(), state) and torch.is_grad_enabled()
