"""Rules of the graph that PyTorch's own tests look at, beside what torch 2.13 does."""

import gc
import math
import warnings

import numpy as np
import pytest

import tritorch as torch
from tritorch.autograd import Function, forward_ad, functional
from tritorch.autograd.graph import GradientEdge, get_gradient_edge, saved_tensors_hooks


def leaf(*shape):
    return torch.rand(*shape, requires_grad=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.long(), lambda x: x.bool(), lambda x: x.to(torch.int32),
        lambda x: x.sum(dtype=torch.int64), lambda x: x.cumsum(0, dtype=torch.int64),
        lambda x: x.prod(dtype=torch.int64), lambda x: x.sort()[1], lambda x: x.argmax(0),
    ],
)  # fmt: skip
def test_integers_have_no_history(call):
    for _ in range(8):  # the later calls come from plans
        out = call(leaf(4, 4))
        assert not out.requires_grad
        assert out.grad_fn is None


def test_gradients_do_not_pass_integers():
    for _ in range(8):
        x = leaf(4)
        y = x.long().float().requires_grad_().clone()
        assert torch.autograd.grad(y.sum(), x, allow_unused=True) == (None,)


def test_relu_of_a_batch_of_gradients():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    seeds = torch.eye(2)
    (found,) = torch.autograd.grad(x.relu(), x, seeds, is_grads_batched=True)
    assert found.tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_batches_of_gradients_pass_none_and_check_shapes():
    x, unused = leaf(2), leaf(3)
    found = torch.autograd.grad(
        x * 2, (x, unused), torch.eye(2), is_grads_batched=True, allow_unused=True
    )
    assert found[0].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert found[1] is None
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first"):
        torch.autograd.grad(x * 2, x, torch.ones(2), is_grads_batched=True)


# ---- functional ----------------------------------------------------------------------------------

PRODUCTS = {"vjp": functional.vjp, "jvp": functional.jvp, "vhp": functional.vhp,
            "hvp": functional.hvp}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_say_what_is_wrong(name):
    function = PRODUCTS[name]
    with pytest.raises(TypeError, match=f"The inputs given to {name} must be either a Tensor"):
        function(torch.sum, (torch.rand(2), 1))
    with pytest.raises(RuntimeError, match="The given v should contain a single Tensor"):
        function(torch.sum, torch.rand(2), (torch.rand(2), torch.rand(2)))
    with pytest.raises(RuntimeError, match="v has invalid size: should be"):
        function(torch.sum, torch.rand(1) if name == "vjp" else torch.rand(2), torch.rand(3))
    with pytest.raises(RuntimeError, match="Output 0 of the user-provided function does not req"):
        function(lambda x: x.detach().sum(), torch.rand(1), torch.rand(1), strict=True)


def test_strict_hessian_of_a_linear_function():
    with pytest.raises(RuntimeError, match="jacobian of the user-provided function with respect"):
        functional.hessian(lambda x: x.sum(), torch.rand(2), strict=True)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_derivatives_are_the_same(strategy):
    def function(x, y):
        return (x * y).exp().sum(), y.detach() * 2

    def scalar(x, y):
        return (x * y).exp().sum()

    inputs = (torch.rand(3), torch.rand(3))
    options = {"vectorize": True, "strategy": strategy}
    for one, other in zip(
        functional.jacobian(function, inputs), functional.jacobian(function, inputs, **options)
    ):
        for want, have in zip(one, other):
            np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-6)
    expected = functional.hessian(scalar, inputs)
    found = functional.hessian(scalar, inputs, vectorize=True, outer_jacobian_strategy=strategy)
    for one, other in zip(expected, found):
        for want, have in zip(one, other):
            np.testing.assert_allclose(have.numpy(), want.numpy(), rtol=1e-5)


# ---- passes --------------------------------------------------------------------------------------


def test_anomaly_mode_looks_at_nodes_made_before():
    x = torch.zeros(1, requires_grad=True)
    y = x.sqrt() * 0
    with (
        warnings.catch_warnings(record=True) as caught,
        torch.autograd.detect_anomaly(),
        pytest.raises(RuntimeError, match="returned nan values in its 0th output"),
    ):
        y.backward()
    assert any("No forward pass information" in str(each.message) for each in caught)


def test_grad_needs_inputs():
    with pytest.raises(RuntimeError, match="cannot be empty"):
        torch.autograd.grad(leaf(1) * 2, [])


@pytest.mark.parametrize("create_graph", [False, True])
def test_materialized_gradients_require_grad_with_a_graph(create_graph):
    x, unused = leaf(1), leaf(1)
    (zeros,) = torch.autograd.grad(x * 2, unused, materialize_grads=True, create_graph=create_graph)
    assert zeros.requires_grad is create_graph
    edge = get_gradient_edge(unused.clone())
    with pytest.raises(RuntimeError, match="cannot be used when the given input is a Gradient"):
        torch.autograd.grad(x * 2, edge, materialize_grads=True)


def test_edges_as_inputs_and_roots():
    x = leaf(2)
    y = x * 2
    edge = GradientEdge(y.grad_fn, y.output_nr)
    torch.autograd.backward(y.sum(), inputs=(edge, x))
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        torch.autograd.grad(get_gradient_edge(x * 2), x)


def test_prehooks_come_after_what_is_captured():
    x = leaf(1)
    y = x * 1
    y.grad_fn.register_prehook(lambda gradients: (gradients[0] * 5,))
    y.register_hook(lambda gradient: gradient * 3)
    (y * 1).backward(inputs=(y,), retain_graph=True)
    assert y.grad.item() == 3.0
    assert torch.autograd.grad((y * 1).sum(), y)[0].item() == 3.0


def test_hooks_entered_in_a_pass_end_with_it():
    x = leaf(1)
    inner = saved_tensors_hooks(lambda t: t, lambda t: t)

    def unpack(t):
        inner.__enter__()
        return t

    with saved_tensors_hooks(lambda t: t, unpack):
        x.sin().sum().backward()
    y = leaf(1).exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)  # none are entered


def test_first_gradient_of_a_graph_is_a_copy():
    x = leaf(2)
    g = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * 1).backward(g, create_graph=True)
    assert x.grad.grad_fn.name() == "torch::autograd::CopyBackwards"
    assert x.grad.requires_grad
    assert x.grad.data_ptr() != g.data_ptr()


def test_power_of_zero():
    for base in (torch.zeros(3), 0):
        b = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
        (base**b).sum().backward()
        assert b.grad.tolist() == [-math.inf, 0.0, 0.0]


def test_view_tracking():
    for replay, name in ((False, "AsStridedBackward0"), (True, "ViewBackward0")):
        with torch.autograd._force_original_view_tracking(replay):
            x = leaf(4).clone()
            view = x.view(2, 2)
            x.add_(1)
            assert view.grad_fn.name() == name


def test_data_of_another_kind():
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.ones(1, 2).to_sparse()
    with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
        x.data = torch.ones(1, 2, dtype=torch.int64)
    with pytest.raises(TypeError, match="Variable data has to be a tensor"):
        x.data = None
    for name in ("data", "requires_grad", "_grad_fn", "_backward_hooks"):
        with pytest.raises(RuntimeError):
            delattr(x, name)


# ---- functions -----------------------------------------------------------------------------------


class Both(Function):
    """Saves one tensor for the gradient, another for the tangent."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x * 2)
        ctx.save_for_forward(x * 3)
        return x * x

    @staticmethod
    def jvp(ctx, t):
        (triple,) = ctx.saved_tensors
        return t * triple * 2 / 3

    @staticmethod
    def backward(ctx, g):
        (double,) = ctx.saved_tensors
        return g * double


def test_saved_for_one_way_only():
    x = torch.tensor(2.0, requires_grad=True)
    with forward_ad.dual_level():
        out = Both.apply(forward_ad.make_dual(x, torch.tensor(1.0)))
        assert forward_ad.unpack_dual(out).tangent.item() == 4.0
        out.backward()
    assert x.grad.item() == 4.0


def test_function_without_a_tangent():
    class NoTangent(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="must implement the j"):
        NoTangent.apply(forward_ad.make_dual(torch.rand(1), torch.rand(1)))


def test_in_place_functions_write_the_tangent():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="gradients inplace"):
        Twice.apply(forward_ad.make_dual(torch.rand(2), torch.rand(2)))


def test_only_inputs_are_marked_dirty():
    class Marks(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.clone()
            ctx.mark_dirty(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.warns(UserWarning, match="Only input Tensors should be given to ctx.mark_dirty"):
        Marks.apply(leaf(2))


def test_views_that_forward_has_written():
    class Local(Function):
        @staticmethod
        def forward(ctx, x):
            view = x.clone()[:2]
            view += 1
            return view

        @staticmethod
        def backward(ctx, g):
            return torch.cat((g, g))

    assert type(Local.apply(leaf(4)).grad_fn).__name__ == "LocalBackward"


# ---- forward mode --------------------------------------------------------------------------------


def test_tangents_end_with_their_level():
    x = torch.rand(2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(2))
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(dual).tangent is None


def test_tangents_can_be_off():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.rand(2), torch.ones(2))
        with forward_ad._set_fwd_grad_enabled(False):
            assert not forward_ad._is_fwd_grad_enabled()
            out = dual * 2
        assert forward_ad.unpack_dual(out).tangent is None
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same"):
            forward_ad.make_dual(dual, torch.ones(2))


# ---- what is private -----------------------------------------------------------------------------


def test_nodes_that_programs_make():
    from tritorch.compat.native.modules import _autograd, _functions

    x = leaf(2)
    refused = _functions.DelayedError("no further", 1)(x)
    with pytest.raises(RuntimeError, match="no further"):
        torch.autograd.grad(refused.sum(), x)
    y = _functions.UndefinedGrad()(x)
    assert torch.autograd.grad(y.sum(), x, allow_unused=True) == (None,)
    assert issubclass(_functions.DelayedError, torch.autograd.graph.Node)
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python"):
        torch.autograd.SavedTensor()
    z = leaf(2).clone()
    z.add_(1)
    _autograd._unsafe_set_version_counter((z,), (0,))
    assert z._version == 0
    with pytest.raises(RuntimeError, match="Cannot set a version_counter to a value below 0"):
        _autograd._unsafe_set_version_counter((z,), (-1,))


def test_order_of_a_pass():
    from tritorch.compat.native import names

    order = []
    x = leaf(1)
    y = x.sin() * x.cos()
    y.register_hook(lambda g: order.extend(names._current_graph_task_execution_order()))
    with torch.autograd.set_multithreading_enabled(False):
        y.backward()
    assert [node.name().rpartition("::")[2] for node in order] == [
        "MulBackward0", "CosBackward0", "SinBackward0", "AccumulateGrad",
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="only be called during the backward pass"):
        names._current_graph_task_execution_order()
    reference = names._WeakTensorRef(x)
    assert not reference.expired()
    order.clear()
    del x, y
    gc.collect()
    assert reference.expired()
