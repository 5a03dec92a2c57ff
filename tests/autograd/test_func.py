"""torch.func: transforms and their nestings."""

from __future__ import annotations

import pytest

import tritorch as torch
from tritorch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

X = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.3, -0.2], [0.1, 0.2, 0.3], [2.0, 1.0, 0.0]],
                 dtype=torch.float64)  # fmt: skip
W = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)


def close(a, b):
    assert torch.allclose(a, b, rtol=1e-9, atol=1e-12), (a, b)


def test_vmap_is_a_loop():
    for function in (
        lambda a: (a * W).sum(),
        lambda a: torch.softmax(torch.outer(a, W) @ W, 0),
        lambda a: a.sort()[0],
        lambda a: a[torch.tensor([0, 2])] * 2,
        lambda a: torch.cat([a, W]),
        lambda a: a.cumsum(0).view(3, 1).expand(3, 2),
        lambda a: torch.where(a > 0, a, 0.0),
    ):
        close(vmap(function)(X), torch.stack([function(row) for row in X]))


def test_vmap_dims_and_chunks():
    close(vmap(lambda a: a * 2, in_dims=1, out_dims=1)(X), X * 2)
    close(vmap(lambda a, b: a @ b, in_dims=(0, None), chunk_size=3)(X, W), X @ W)
    close(vmap(vmap(lambda a: a.sin()))(X), X.sin())
    with pytest.raises(ValueError, match="same size"):
        vmap(torch.add)(X, W)


def test_grad_nests():
    cube = lambda a: (a**3).sum()
    close(grad(cube)(W), 3 * W**2)
    close(grad(lambda a: grad(cube)(a).sum())(W), 6 * W)
    found, value = grad_and_value(cube)(W)
    close(value, (W**3).sum())
    assert not found.requires_grad
    with pytest.raises(RuntimeError, match="scalar tensor"):
        grad(torch.sin)(W)


def test_per_example_gradients():
    loss = lambda w, a: (w * a).sum() ** 2
    close(vmap(grad(loss), in_dims=(None, 0))(W, X), (2 * (X @ W)).unsqueeze(1) * X)


def test_gradients_through_vmap_sum_over_the_batch():
    w = W.clone().requires_grad_()
    vmap(lambda a: (a * w).sum())(X).sum().backward()
    close(w.grad, X.sum(0))


def test_jacobians_both_ways():
    product = lambda a: a @ a.t()
    close(jacrev(product)(X), jacfwd(product)(X))
    close(jacrev(torch.sin)(W), torch.diag(W.cos()))
    close(hessian(lambda a: a.sin().sum())(W), torch.diag(-W.sin()))


def test_vjp_and_jvp():
    value, pull = vjp(torch.sin, W)
    close(value, W.sin())
    close(pull(torch.ones_like(W))[0], W.cos())
    value, moved = jvp(lambda a: a.exp() * a, (W,), (torch.ones_like(W),))
    close(moved, W.exp() * (W + 1))


def test_has_aux():
    found, extra = grad(lambda a: ((a**2).sum(), a * 3), has_aux=True)(W)
    close(found, 2 * W)
    close(extra, W * 3)
