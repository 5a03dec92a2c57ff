"""The engine: order, accumulation, hooks, in-place history, memory."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import tritorch as torch
from tritorch.autograd import forward_ad, graph


def ones(*shape, **options):
    return torch.ones(*shape, requires_grad=True, **options)


def test_names_and_edges():
    a, b = ones(3), ones(3)
    y = (a * b + 2).sum()
    assert type(y.grad_fn).__name__ == "SumBackward0"
    add = y.grad_fn.next_functions[0][0]
    assert add.name() == "AddBackward0"
    mul = add.next_functions[0][0]
    assert [node.variable is x for (node, _), x in zip(mul.next_functions, (a, b))] == [True, True]


def test_any_graph_accumulates_in_order():
    x = ones(2)
    y = x * 3
    z = y + y * y  # y is used twice
    (z + x).sum().backward()
    assert x.grad.tolist() == [3 + 2 * 3 * 3 + 1] * 2


def test_a_chain_of_100000_nodes():
    x = ones(2)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    del y  # dropping the chain must not recurse either
    gc.collect()


def test_gradients_of_two_uses_do_not_share_memory():
    a, b = ones(3), ones(3)
    (a + b).sum().backward()
    a.grad.mul_(5)
    assert b.grad.tolist() == [1, 1, 1]


def test_a_second_pass_needs_retain_graph():
    x = ones(3)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 4, 4]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_in_place_changes_of_saved_tensors_are_noticed():
    x = ones(3)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*is at version 1"):
        y.sum().backward()
    w = torch.ones(3)
    z = (x * w).sum()
    w.add_(1)
    with pytest.raises(RuntimeError, match="expected version 0"):
        z.backward()


def test_in_place_on_a_view_changes_the_base():
    x = ones(4)
    y = x * 2
    other = y[2:]  # a view made before
    y[1:3].mul_(3)
    assert y.grad_fn.name() == "torch::autograd::CopySlices"
    (y.sum() + other.sum()).backward()
    assert x.grad.tolist() == [2, 6, 12, 4]


def test_in_place_needs_self_as_it_was():
    x, w = ones(3), torch.full((3,), 2.0, requires_grad=True)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    assert (w.grad.tolist(), x.grad.tolist()) == ([1, 1, 1], [2, 2, 2])


@pytest.mark.parametrize(
    "write", [lambda x: x.add_(1), lambda x: x[0].mul_(2), lambda x: x.zero_()]
)
def test_leaves_must_not_be_written(write):
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        write(ones(3, 3))


def test_hooks_run_in_order_and_may_replace():
    x = ones(3)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append("tensor") or g * 10)
    y.grad_fn.register_prehook(lambda gs: seen.append("pre"))
    y.grad_fn.register_hook(lambda ins, outs: seen.append("post"))
    y.retain_grad()
    x.register_hook(lambda g: seen.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    handle = x.register_hook(lambda g: seen.append("never"))
    handle.remove()
    y.sum().backward()
    assert seen == ["tensor", "pre", "post", "leaf", [20.0] * 3]
    assert y.grad.tolist() == [10, 10, 10]


@pytest.mark.parametrize("rows", [(), (4,), (2, 4)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_hook_of_a_layer_sees_all_its_gradients(rows, biased):
    x, w, b = ones(*rows, 3), ones(2, 3), ones(2) if biased else None
    out = torch.nn.functional.linear(x, w, b)
    leaves = {id(node.variable) for node, _ in out.grad_fn.next_functions}
    assert leaves == {id(each) for each in (x, w, b) if each is not None}
    out.grad_fn.register_hook(lambda grads, _: tuple(grad * 2 for grad in grads))
    out.sum().backward()
    count = torch.Size(rows).numel()
    assert x.grad.eq(2 * 2).all() and w.grad.eq(2 * count).all()
    assert b is None or b.grad.eq(2 * count).all()


def test_multi_grad_hook():
    a, b = ones(2), ones(2)
    seen = []
    graph.register_multi_grad_hook((a, b), lambda grads: seen.append([g.tolist() for g in grads]))
    (a * 2 + b * 3).sum().backward()
    assert seen == [[[2, 2], [3, 3]]]


def test_grad_in_all_forms():
    x, unused = ones(3), ones(3)
    y = x * x
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    assert gg.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        torch.autograd.grad((x * 2).sum(), [x, unused])
    assert torch.autograd.grad((x * 2).sum(), [x, unused], allow_unused=True)[1] is None
    zeros = torch.autograd.grad((x * 2).sum(), [x, unused], materialize_grads=True)[1]
    assert zeros.tolist() == [0, 0, 0]
    batched = torch.autograd.grad(x * 3, x, torch.eye(3), is_grads_batched=True)[0]
    assert batched.tolist() == (torch.eye(3) * 3).tolist()


def test_backward_with_inputs_leaves_others_alone():
    a, b = ones(2), ones(2)
    (a * b).sum().backward(inputs=[a])
    assert a.grad is not None and b.grad is None


@pytest.mark.parametrize(
    ("outputs", "match"),
    [
        (lambda x: x * 2, "implicitly created only for scalar"),
        (lambda x: torch.ones(()), "does not require grad"),
    ],
)
def test_errors_of_backward(outputs, match):
    with pytest.raises(RuntimeError, match=match):
        outputs(ones(3)).backward()


def test_graphs_are_freed_without_the_collector():
    gc.disable()
    try:
        x = ones(3)
        y = (x.exp() * x).cumsum(0).sum()
        reference = weakref.ref(y)
        node = weakref.ref(y.grad_fn)
        y.backward()
        del y
        assert reference() is None and node() is None
    finally:
        gc.enable()


def test_grad_modes_nest_and_decorate():
    x = ones(2)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad

    @torch.no_grad()
    def frozen():
        return x * 2

    assert not frozen().requires_grad and torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    with torch.inference_mode():
        z = torch.ones(2)
        assert z.is_inference() and not (x * z).requires_grad
    with pytest.raises(RuntimeError, match="inference tensor"):
        z.requires_grad_()


def test_saved_tensor_hooks():
    x = ones(3)
    packed = []
    with graph.saved_tensors_hooks(
        lambda t: packed.append(t) or len(packed) - 1, lambda i: packed[i]
    ):
        y = (x.exp() * x).sum()
    assert len(packed) >= 2
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828] * 3)


def test_anomaly_names_the_forward_call():
    x = torch.zeros(1, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = (x / x).sum()  # the line to be found
        with (
            pytest.warns(UserWarning, match="the line to be found"),
            pytest.raises(RuntimeError, match="returned nan values"),
        ):
            y.backward()


def test_threads_accumulate_without_losing_gradients():
    x = ones(8)

    def work():
        for _ in range(50):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad.tolist() == [400] * 8


@pytest.mark.device
def test_a_failed_pass_keeps_no_gpu_memory():
    x = torch.ones(1024, device="cuda", requires_grad=True)
    gc.collect()
    before = torch.cuda.memory_allocated()

    def fail(g):
        raise ValueError("on purpose")

    try:
        y = x * 2
        y.register_hook(fail)
        (y * y).sum().backward()
    except ValueError as error:
        kept = error  # as a notebook keeps the last traceback
        del y
        assert torch.cuda.memory_allocated() <= before + 2 * 4096
        del kept


@pytest.mark.device
def test_gradients_run_on_the_streams_of_their_forward():
    stream = torch.cuda.Stream()
    x = torch.ones(64, device="cuda", requires_grad=True)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = (x * 3).exp()
    torch.cuda.current_stream().wait_stream(stream)
    y.sum().backward()
    torch.cuda.synchronize()
    assert x.grad.cpu().tolist() == pytest.approx([3 * 20.0855369] * 64, rel=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
def test_gradients_lie_in_memory_as_their_leaves(device):
    made = lambda: torch.ones(2, 3, 4, device=device).permute(2, 0, 1).requires_grad_()
    for run in (
        lambda p: (p * 2).sum().backward(),
        lambda p: p.backward(torch.ones(4, 2, 3, device=device)),
        lambda p: p.transpose(0, 2).clone().backward(torch.ones(3, 2, 4, device=device)),
    ):
        p = made()
        run(p)
        assert p.grad.stride() == p.stride() == (1, 12, 4)
    p = torch.ones(4, 3, device=device).requires_grad_()
    (p.t() @ torch.ones(4, 2, device=device)).sum().backward()
    assert p.grad.stride() == (3, 1) and p.grad.tolist() == [[2.0] * 3] * 4
    strided = torch.ones(4, 6, device=device)[:, ::2].requires_grad_()  # has gaps
    strided.t().clone().backward(torch.ones(3, 4, device=device))
    assert strided.grad.stride() == (3, 1)


def test_layout_policy_can_be_relaxed():
    with torch.autograd.enforce_grad_layout_policy(False):
        p = torch.ones(4, 3).requires_grad_()
        p.t().clone().backward(torch.ones(3, 4))
        assert p.grad.stride() == (1, 4)

    @torch.autograd.enforce_grad_layout_policy(False)
    def relaxed():
        p = torch.ones(4, 3).requires_grad_()
        p.t().clone().backward(torch.ones(3, 4))
        return p.grad.stride()

    p = torch.ones(4, 3).requires_grad_()
    p.t().clone().backward(torch.ones(3, 4))
    assert p.grad.stride() == (3, 1) and relaxed() == (1, 4)
    with pytest.raises(RuntimeError, match="is deprecated, use torch.tensor"):
        torch.autograd.variable(1)


# ---- gradients of parts --------------------------------------------------------------------------


def _as_wholes(x, parts):
    """The gradient of the sum of squares of parts, each weighed, without views."""
    total = np.zeros(x.shape, np.float32)
    for i, part in enumerate(parts):
        place = np.zeros(x.shape, np.float32)
        place[part] = 2 * (i + 1) * x.detach().numpy()[part]
        total += place
    return total


_PARTS = {
    "apart": (np.s_[:2], np.s_[2:5], np.s_[5:]),
    "over each other": (np.s_[1:5], np.s_[:, 2:4], np.s_[3], np.s_[..., ::2], np.s_[1:5]),
    "one": (np.s_[4],),
    "one by one": tuple(range(7)),
}


@pytest.mark.parametrize("parts", _PARTS.values(), ids=list(_PARTS))
@pytest.mark.parametrize("whole", ["computed", "leaf", "used whole too", "asked for"])
def test_gradients_of_parts_are_those_of_wholes(parts, whole):
    leaf = torch.randn(7, 6, requires_grad=True)
    x = leaf if whole == "leaf" else leaf * 1
    loss = sum(((x[part] ** 2).sum() * (i + 1) for i, part in enumerate(parts)), torch.zeros(()))
    expected = _as_wholes(x, parts)
    if whole == "used whole too":
        loss, expected = loss + x.sum(), expected + 1
    if whole == "asked for":
        seen, g = torch.autograd.grad(loss, (x, leaf), retain_graph=True)
        np.testing.assert_allclose(seen.numpy(), expected, rtol=1e-6)
        again = torch.autograd.grad(loss, leaf)[0]
        assert again.equal(g) and seen is not g
    else:
        loss.backward()
        g = leaf.grad
    np.testing.assert_allclose(g.numpy(), expected, rtol=1e-6)


def test_gradients_of_parts_can_be_differentiated_hooked_and_retained():
    leaf = torch.randn(4, 6, requires_grad=True)
    x = leaf * 1
    x.retain_grad()
    seen = []
    x.register_hook(lambda g: seen.append(g.clone()))
    a, b, c = x.split(2, 1)
    b.register_hook(lambda g: g * 2)
    loss = (a**2).sum() + (b**2).sum() + (c**3).sum()
    (g,) = torch.autograd.grad(loss, leaf, create_graph=True)
    g.sum().backward()
    y = leaf.detach()
    wanted = torch.cat([2 * y[:, :2], 4 * y[:, 2:4], 3 * y[:, 4:] ** 2], 1)
    assert seen[0].allclose(wanted)
    # The hook sees this pass, too.
    second = torch.cat([2 + 0 * y[:, :2], 8 + 0 * y[:, 2:4], 6 * y[:, 4:]], 1)
    assert leaf.grad.allclose(second) and x.grad is not None


def test_gradients_of_parts_keep_tangents():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.arange(6.0).reshape(2, 3).requires_grad_(), torch.ones(2, 3))
        a, b, c = (x * 1).unbind(1)
        (g,) = torch.autograd.grad((a**3).sum() + (b**3).sum() + (c**2).sum(), x)
        assert forward_ad.unpack_dual(g).tangent.tolist() == [[0, 6, 2], [18, 24, 2]]


def test_a_loop_over_parts_makes_no_whole_for_each(monkeypatch):
    from tritorch.arrays import arrays

    made, zeros = [], arrays.zeros
    monkeypatch.setattr(arrays, "zeros", lambda *given: made.append(given) or zeros(*given))
    x = torch.randn(50, 8, requires_grad=True) * 1
    sum((x[i].exp() for i in range(50)), torch.zeros(8)).sum().backward()
    assert len(made) == 1
