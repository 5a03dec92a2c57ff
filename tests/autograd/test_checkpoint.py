"""Checkpointing: what a recomputation finds, where it stops, what it says."""

import contextlib
import functools

import pytest

import tritorch as torch
from tritorch.nn import functional as F
from tritorch.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    DefaultDeviceType,
    GraphExecGroup,
    check_backward_validity,
    checkpoint,
    create_selective_checkpoint_contexts,
    get_device_states,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    set_device_states,
)


def grads(run, reentrant, dropout=0.5):
    torch.manual_seed(0)
    w1, w2 = (torch.randn(8, 8).requires_grad_() for _ in "ab")
    x = torch.randn(4, 8).requires_grad_()

    def block(x):
        return F.dropout(F.gelu(x @ w1), dropout, True) @ w2

    with torch.autocast("cpu", torch.bfloat16):
        out = block(x) if reentrant is None else checkpoint(block, x, use_reentrant=reentrant)
    run(out)
    return out.dtype, x.grad, w1.grad, w2.grad


@pytest.mark.parametrize("reentrant", [True, False])
def test_autocast_and_random_numbers_are_as_they_were(reentrant):
    back = lambda out: out.float().square().sum().backward()
    dtype, *expected = grads(back, None)
    found_dtype, *found = grads(back, reentrant)
    assert dtype == found_dtype == torch.bfloat16
    assert all(torch.equal(a, b) for a, b in zip(found, expected))


def counted():
    calls = []

    def block(x):
        y = (x * 2).exp()
        calls.append(1)
        z = y.sin()
        calls.append(2)
        return z + 1  # needs nothing that is saved

    return block, calls


def test_it_stops_when_all_is_there():
    x = torch.ones(3, requires_grad=True)
    block, calls = counted()
    checkpoint(block, x, use_reentrant=False).sum().backward()
    assert calls == [1, 2, 1]
    for setting, option in ((False, True), (True, False)):
        block, calls = counted()
        with set_checkpoint_early_stop(setting):
            out = checkpoint(block, x, use_reentrant=False, early_stop=option)
        out.sum().backward()
        assert calls == [1, 2, 1, 2]


def test_several_backward_passes_compute_again_once():
    x = torch.ones(3, requires_grad=True)
    block, calls = counted()
    out = checkpoint(block, x, use_reentrant=False)
    with GraphExecGroup():
        with pytest.raises(RuntimeError, match="cannot be nested"), GraphExecGroup():
            pass
        out.sum().backward(retain_graph=True)
        out.sum().backward()
    assert calls == [1, 2, 1]


def test_what_differs_is_told():
    state = {"calls": 0}

    def unsteady(x):
        state["calls"] += 1
        return (x.exp() if state["calls"] == 1 else x * 1).sin()

    x = torch.ones(3, requires_grad=True)
    out = checkpoint(unsteady, x, use_reentrant=False, debug=True)
    with pytest.raises(CheckpointError, match=r"different number[\s\S]*! exp +mul"):
        out.sum().backward()

    def larger(x):
        state["calls"] += 1
        return (x if state["calls"] == 1 else x[:2]).exp().sum()

    for check, expected in (("default", pytest.raises(CheckpointError, match="metadata")),
                            ("none", contextlib.nullcontext())):  # fmt: skip
        state["calls"] = 0
        with set_checkpoint_debug_enabled(False):
            out = checkpoint(
                larger, x, use_reentrant=False, determinism_check=check, early_stop=False
            )
        with expected as told, contextlib.suppress(RuntimeError if check == "none" else ()):
            out.backward()
        assert check == "none" or "functions that were called" not in str(told.value)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(larger, x, use_reentrant=False, determinism_check="maybe")
    with pytest.raises(ValueError, match="debug=True is incompatible"):
        contexts = lambda: noop_context_fn()
        checkpoint(larger, x, use_reentrant=False, debug=True, context_fn=contexts)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(larger, x, use_reentrant=True, debug=True)


def test_small_helpers():
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
            check_backward_validity([torch.ones(1), 3])
    finally:
        torch.set_warn_always(False)
    assert get_device_states(torch.ones(1), 2) == ([], [])
    before = DefaultDeviceType.get_device_type()
    DefaultDeviceType.set_device_type("meta")
    assert DefaultDeviceType.get_device_type() == "meta"
    set_device_states([0], [None])  # nothing there
    DefaultDeviceType.set_device_type(before)
    with noop_context_fn()[0]:
        pass


@pytest.mark.device
def test_states_of_gpus():
    x = torch.ones(2, device="cuda")
    indices, (state,) = get_device_states([x, x], {"y": x})
    first = torch.rand(3, device="cuda")
    set_device_states(indices, [state], device_type="cuda")
    assert indices == [0] and torch.equal(torch.rand(3, device="cuda"), first)


# ---- selective -----------------------------------------------------------------------------------


def attention(x, w):
    """Several functions, two of them heavy."""
    scores = (x @ w).softmax(-1)
    return torch.nn.functional.linear(scores, w).relu() * x.sin()


def selective(policy, **options):
    return functools.partial(create_selective_checkpoint_contexts, policy, **options)


def run_selective(policy, **options):
    torch.manual_seed(1)
    x, w = torch.randn(4, 4).requires_grad_(), torch.randn(4, 4).requires_grad_()
    if policy is None:
        out = attention(x, w)
    else:
        out = checkpoint(
            attention, x, w, use_reentrant=False, context_fn=selective(policy, **options)
        )
    out.sum().backward()
    return x.grad, w.grad


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize(
    "policy",
    [
        [torch.matmul, torch.nn.functional.linear],
        [torch.softmax],
        [],
        lambda ctx, f, *a, **k: CheckpointPolicy.MUST_SAVE,
        lambda ctx, f, *a, **k: CheckpointPolicy.MUST_RECOMPUTE,
        lambda ctx, f, *a, **k: CheckpointPolicy.MUST_CPU_OFFLOAD,
    ],
)
def test_selective_gives_the_same_gradients(policy, early_stop):
    expected = run_selective(None)
    with set_checkpoint_early_stop(early_stop):
        for got, want in zip(run_selective(policy), expected):
            assert torch.equal(got, want)


@contextlib.contextmanager
def outside(outer, inner):
    with outer, inner:
        yield


def test_what_is_kept_is_not_called_again():
    seen = {False: [], True: []}

    class Calls(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen[again[0]].append(func.__name__)
            return func(*args, **(kwargs or {}))

    again = [False]
    x, w = torch.randn(4, 4).requires_grad_(), torch.randn(4, 4).requires_grad_()

    def contexts():
        modes = create_selective_checkpoint_contexts([torch.matmul, torch.nn.functional.linear])
        return tuple(outside(Calls(), mode) for mode in modes)

    out = checkpoint(attention, x, w, use_reentrant=False, context_fn=contexts)
    again[0] = True
    out.sum().backward()
    assert {"matmul", "linear"} <= set(seen[False])
    assert not {"matmul", "linear"} & set(seen[True])
    assert {"softmax", "relu"} <= set(seen[True])


def test_selective_refuses_what_it_cannot_keep():
    with pytest.raises(TypeError, match="must be either a function or a list"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="Expected op in `op_list`"):
        create_selective_checkpoint_contexts(["mm"])

    def mutating(x):
        y = x.exp()
        y.add_(1)
        return y.sin()

    policy = lambda ctx, f, *a, **k: f.__name__ == "exp"
    x = torch.ones(3, requires_grad=True)
    out = checkpoint(mutating, x, use_reentrant=False, context_fn=selective(policy))
    with pytest.raises(RuntimeError, match="has been mutated"):
        out.sum().backward()
    seen = []
    watching = lambda ctx, f, *a, **k: seen.append(ctx.is_recompute)
    square = torch.ones(3, 3, requires_grad=True)
    out = checkpoint(attention, square, square, use_reentrant=False, context_fn=selective(watching))
    out.sum().backward()
    assert set(seen) == {False, True}
