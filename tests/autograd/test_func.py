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


def test_rearrange_names_dims():
    x = torch.arange(24).reshape(2, 3, 4)
    rearrange = torch.func.rearrange
    assert torch.equal(rearrange(x, "a b c -> c (b a)"), x.permute(2, 1, 0).reshape(4, 6))
    assert torch.equal(rearrange(x, "... c -> c ..."), x.permute(2, 0, 1))
    assert torch.equal(rearrange([x, x], "n a b c -> a n b c"), torch.stack([x, x], 1))
    got = rearrange(x, "a b (c d) -> (a c) b d", c=2)
    assert torch.equal(got, x.reshape(2, 3, 2, 2).permute(0, 2, 1, 3).reshape(4, 3, 2))
    for pattern, message in (
        ("a b c", "single '->'"),
        ("a b -> b a", "Number of dimensions in pattern"),
        ("a b c -> a b d", "only on one side"),
        ("a b (c d) -> a b c d", "cannot infer"),
        ("a b a -> a b", "duplicate dimension"),
        ("a b (c -> a b c", "Imbalanced parentheses"),
    ):
        with pytest.raises(ValueError, match=message):
            rearrange(x, pattern)


def test_debug_unwrap_shows_the_batch():
    x, seen = torch.randn(3, 2), []
    torch.vmap(torch.vmap(lambda v: seen.append(torch.func.debug_unwrap(v)) or v))(x)
    torch.vmap(lambda v: seen.append(torch.func.debug_unwrap(v, recurse=False)) or v)(x)
    assert torch.equal(seen[0], x) and torch.equal(seen[1], x)
    assert torch.func.debug_unwrap(x) is x


def test_batch_norms_lose_their_running_statistics():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    assert torch.func.replace_all_batch_norm_modules_(net) is net
    assert net[1].running_mean is None and not net[1].track_running_stats
    out = torch.vmap(net, randomness="error")(torch.randn(4, 5, 3))
    assert out.shape == (4, 5, 3)


# ---- random numbers in vmap ----------------------------------------------------------------------

DRAWS = {
    "rand": lambda v: v + torch.rand(2),
    "rand_like": lambda v: torch.rand_like(v),
    "randn": lambda v: v + torch.randn(2),
    "randint": lambda v: v + torch.randint(0, 1 << 20, (2,)),
    "randperm": lambda v: v[:1] + torch.randperm(40),
    "normal": lambda v: torch.normal(0.0, 1.0, (2,)) + v,
    "dropout": lambda v: torch.nn.functional.dropout(torch.ones(40) + v.sum(), 0.5),
    "alpha_dropout": lambda v: torch.nn.functional.alpha_dropout(torch.ones(40), 0.5, True) + v[0],
    "rrelu": lambda v: torch.nn.functional.rrelu(v - 1, training=True),
    "bernoulli": lambda v: torch.bernoulli(torch.full((40,), 0.5)) + v[0],
    "multinomial": lambda v: torch.multinomial(torch.ones(40), 8) + v[0].long(),
    "gamma": lambda v: torch._standard_gamma(torch.ones(3)) + v[0],
    "uniform_": lambda v: torch.empty_like(v).uniform_() + v * 0,
}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.device)])
@pytest.mark.parametrize("name", DRAWS)
def test_randomness_in_vmap(name, device):
    with torch.device(device):
        x, draw = torch.zeros(3, 2), DRAWS[name]
        with pytest.raises(RuntimeError, match="randomness error mode"):
            torch.vmap(draw)(x)
        apart = torch.vmap(draw, randomness="different")(x)
        assert not torch.equal(apart[0], apart[1]) and not torch.equal(apart[1], apart[2])
        same = torch.vmap(draw, randomness="same")(x)
        assert torch.equal(same[0], same[1]) and torch.equal(same[1], same[2])
        chunked = torch.vmap(draw, randomness="same", chunk_size=1)(x)
        assert torch.equal(chunked[0], chunked[1]) and chunked.shape == same.shape


def test_randomness_in_nested_vmaps():
    x = torch.zeros(3, 4, 2)
    draw = lambda v: v + torch.rand(2)
    for inner, outer in (("same", "different"), ("different", "same"), ("different", "different")):
        got = torch.vmap(torch.vmap(draw, randomness=inner), randomness=outer)(x)
        rows = (got[:, 0] != got[:, 1]).all() if inner == "different" else False
        assert bool(rows) == (inner == "different")
        assert torch.equal(got[0], got[1]) == (outer == "same")
        assert torch.equal(got[:, 0], got[:, 1]) == (inner == "same")


def test_samples_of_batched_parameters():
    p = torch.tensor([[0.0] * 20, [1.0] * 20])
    got = torch.vmap(torch.bernoulli, randomness="different")(p)
    assert got.tolist() == p.tolist()
    rows = torch.vmap(lambda w: torch.multinomial(w, 1), randomness="different")(torch.eye(3))
    assert rows.tolist() == [[0], [1], [2]]
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor"):
        torch.vmap(torch.bernoulli, randomness="same")(p)
    fixed = torch.zeros(4)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched"):
        torch.vmap(lambda v: fixed.uniform_() + v, randomness="different")(p[:, :4])


def test_a_tangent_goes_through_the_same_mask():
    x = torch.ones(200)
    for drop in (torch.nn.functional.dropout, torch.nn.functional.alpha_dropout):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones(200))
            out, moved = torch.autograd.forward_ad.unpack_dual(drop(dual, 0.5, True))
        low = out.min()
        assert torch.equal(moved == 0, out == low) and 0 < (moved == 0).sum() < 200


def test_captured_tensors_of_several_batches():
    """An operator has operands of two vmaps and one of none: its gradient is summed over both."""
    weight = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    flags = torch.tensor([True, False, True])
    values = torch.arange(4.0, dtype=torch.float64)

    def one(flag, value):
        return torch.where(flag, value, weight.sum()) * weight[0]

    out = torch.vmap(torch.vmap(one, (None, 0)), (0, None))(flags, values)
    (found,) = torch.autograd.grad(out.sum(), weight)
    whole = torch.where(flags[:, None], values, weight.sum()) * weight[0]
    (expected,) = torch.autograd.grad(whole.sum(), weight)
    assert found.equal(expected)
