"""autograd.Function, gradcheck, functional derivatives, checkpointing."""

from __future__ import annotations

import pytest

import tritorch as torch
from tritorch import _C
from tritorch.autograd import Function, functional, gradcheck, gradgradcheck, once_differentiable
from tritorch.utils.checkpoint import checkpoint, checkpoint_sequential


class Square(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.scale, None


class Intermediates(Function):
    """Saves what are not its arguments, and more of them."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.reshape(-1), x + 1, x * 2)
        return x * x

    @staticmethod
    def backward(ctx, g):
        flat, more, twice = ctx.saved_tensors
        assert flat.shape == (6,) and (more == twice / 2 + 1).all()
        return g * twice


def test_a_function_may_save_what_are_not_its_arguments():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    Intermediates.apply(x * 1).sum().backward()
    assert (x.grad == 2 * x).all()


class Exp(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


def leaf(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("function", [lambda x: Square.apply(x, 3.0), Exp.apply])
def test_functions_differentiate_twice(function):
    assert gradcheck(function, (leaf(3),))
    assert gradgradcheck(function, (leaf(3),))


def test_names_and_needs():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, a, b):
            seen.append(ctx.needs_input_grad)
            return a + b, a * 2

        @staticmethod
        def backward(ctx, ga, gb):
            return ga + 2 * gb, ga

    a = leaf(2)
    first, second = Two.apply(a, torch.ones(2, dtype=torch.float64))
    assert type(first.grad_fn).__name__ == "TwoBackward"
    assert seen == [(True, False)]
    second.sum().backward()  # the other output's gradient arrives as zeros
    assert a.grad.tolist() == [2, 2]


def test_mark_dirty_and_non_differentiable():
    class Add(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            sign = x.detach().sign()
            ctx.mark_non_differentiable(sign)
            return x.add_(1), sign

        @staticmethod
        def backward(ctx, g, _):
            return g * 5

    a = leaf(3)
    b = a * 1
    c, sign = Add.apply(b)
    assert c is b and not sign.requires_grad
    c.sum().backward()
    assert a.grad.tolist() == [5, 5, 5]


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2

    a = leaf(3)
    (g,) = torch.autograd.grad((Once.apply(a) ** 2).sum(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()


def test_wrong_numbers_of_gradients():
    class Short(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        Short.apply(leaf(2), leaf(2)).sum().backward()


def test_outputs_and_others_can_be_saved_in_any_order():
    class Shares(Function):
        @staticmethod
        def forward(ctx, x):
            count, positive = (x > 0).sum(1, keepdim=True), x.clamp(min=0)
            ctx.save_for_backward(count, x * 2, positive)
            return positive

        @staticmethod
        def backward(ctx, g):
            count, twice, positive = ctx.saved_tensors
            return g * (positive > 0) / count + 0 * twice

    x = torch.tensor([[1.0, -1.0, 2.0]], requires_grad=True)
    Shares.apply(x * 1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0, 0.5]]


def test_gradcheck_finds_wrong_gradients():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    with pytest.raises(torch.autograd.GradcheckError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, (leaf(2),))
    assert not gradcheck(Wrong.apply, (leaf(2),), raise_exception=False)


def test_complex_gradients_by_pytorchs_convention():
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    assert gradcheck(lambda a: a.exp() * a.conj(), (z,))
    assert gradgradcheck(lambda a: a.exp() * a, (z,))
    (z.abs() ** 2).sum().backward()
    assert torch.allclose(z.grad, 2 * z.detach())


def test_functional_derivatives():
    x = leaf(3)
    cube = lambda a: (a**3).sum()
    assert torch.allclose(functional.hessian(cube, x), torch.diag(6 * x.detach()))
    assert torch.allclose(functional.jacobian(torch.sin, x), torch.diag(x.detach().cos()))
    v = torch.ones(3, dtype=torch.float64)
    assert torch.allclose(functional.jvp(torch.sin, x, v)[1], x.detach().cos())
    assert torch.allclose(functional.vjp(torch.sin, x, v)[1], x.detach().cos())
    for product in (functional.hvp, functional.vhp):
        assert torch.allclose(product(cube, x, v)[1], 6 * x.detach())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_gives_the_same_gradients(reentrant):
    w, x = leaf(4, 4), leaf(2, 4)
    calls = []

    def block(v):
        calls.append(1)
        return torch.nn.functional.dropout(torch.tanh(v @ w), 0.5) @ w

    torch.manual_seed(3)
    block(x).sum().backward()
    want = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    torch.manual_seed(3)
    out = checkpoint(block, x, use_reentrant=reentrant)
    assert len(calls) == 2
    out.sum().backward()
    assert len(calls) == 3
    assert torch.allclose(x.grad, want[0]) and torch.allclose(w.grad, want[1])


def test_checkpoint_sequential():
    w = leaf(3, 3)
    layers = [lambda v: torch.tanh(v @ w)] * 4
    x = leaf(2, 3)
    y = x
    for layer in layers:
        y = layer(y)
    (want,) = torch.autograd.grad(y.sum(), x)
    (got,) = torch.autograd.grad(checkpoint_sequential(layers, 2, x, use_reentrant=False).sum(), x)
    assert torch.allclose(got, want)


class Noting(Function):
    @staticmethod
    def forward(ctx, x, name):
        setattr(ctx, name, ("noted", x.shape))
        ctx.save_for_backward(x)
        ctx.where = name
        return x.sum(0) * 2

    @staticmethod
    def backward(ctx, g):
        assert getattr(ctx, ctx.where) == ("noted", (2, 3)) and ctx.saved_tensors[0].ndim == 2
        return (g * 2).expand(2, 3), None


def test_any_name_can_be_noted_on_ctx():
    """A node's own fields leave plain names to programs: what forward notes, backward finds."""
    known = "shape dtype op edges saved out outputs output params hooks stream call kept free size"
    fields = {n.removeprefix("_node_") for n in dir(_C.NodeBase) if not n.startswith("__")}
    for name in sorted({*known.split(), *fields}):
        x = torch.ones(2, 3, requires_grad=True)
        y = Noting.apply(x, name)
        assert getattr(y.grad_fn, name) == ("noted", (2, 3))
        y.sum().backward()
        assert x.grad.eq(2).all(), name
