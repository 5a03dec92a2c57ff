"""Functions of nested tensors are functions of each component, and so are their gradients."""

import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tests.nested.conftest import LENGTHS, close, components

W = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3)
ROW = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
EACH = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(4, 1, 3)
LONGEST = torch.linspace(-2, 2, 48, dtype=torch.float64).reshape(4, 4, 3)
MATRICES = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(4, 3, 2)

# (of the nested tensor, of its i-th component), with components (n, 3): nested results.
BOTH = {
    "x * 2 + 1": (lambda x: x * 2 + 1, lambda x, i: x * 2 + 1),
    "1 - x": (lambda x: 1 - x, lambda x, i: 1 - x),
    "x * x.sin()": (lambda x: x * x.sin(), lambda x, i: x * x.sin()),
    "relu": (F.relu, lambda x, i: x.relu()),
    "elu": (F.elu, lambda x, i: F.elu(x)),
    "gelu": (F.gelu, lambda x, i: F.gelu(x)),
    "where": (lambda x: torch.where(x > 0, x, x * 3), lambda x, i: torch.where(x > 0, x, x * 3)),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 4.0), lambda x, i: x.masked_fill(x > 0, 4.0)),
    "softmax of dense": (lambda x: x.softmax(2), lambda x, i: x.softmax(1)),
    "layer_norm": (lambda x: F.layer_norm(x, (3,), on(ROW, x)),
                   lambda x, i: F.layer_norm(x, (3,), on(ROW, x))),
    "linear": (lambda x: F.linear(x, on(W, x), on(ROW[:2], x)),
               lambda x, i: F.linear(x, on(W, x), on(ROW[:2], x))),
    "transpose": (lambda x: x.transpose(1, 2), lambda x, i: x.transpose(0, 1)),
    "unsqueeze": (lambda x: x.unsqueeze(2), lambda x, i: x.unsqueeze(1)),
    "squeeze": (lambda x: x.unsqueeze(2).squeeze(2), lambda x, i: x),
    "clone": (lambda x: x.clone(), lambda x, i: x),
    "dense select": (lambda x: x.select(2, 1), lambda x, i: x.select(1, 1)),
}  # fmt: skip
JAGGED = {
    "row": (lambda x: x * on(ROW, x), lambda x, i: x * on(ROW, x)),
    "ones in front": (lambda x: on(ROW, x).reshape(1, 1, 3) - x, lambda x, i: on(ROW, x) - x),
    "one for each": (lambda x: x + on(EACH, x), lambda x, i: x + on(EACH, x)[i]),
    "padded": (lambda x: x + on(LONGEST, x), lambda x, i: x + on(LONGEST, x)[i, : x.shape[0]]),
    "softmax along": (lambda x: x.softmax(1), lambda x, i: x.softmax(0)),
    "x @ w": (lambda x: x @ on(W, x).t(), lambda x, i: x @ on(W, x).t()),
    "batched x @ w": (lambda x: x @ on(MATRICES, x), lambda x, i: x @ on(MATRICES, x)[i]),
    "dense sum": (lambda x: x.sum(2), lambda x, i: x.sum(1)),
    "dense mean kept": (lambda x: x.mean(-1, keepdim=True), lambda x, i: x.mean(1, keepdim=True)),
    "dense amax": (lambda x: x.amax(2), lambda x, i: x.amax(1)),
    "cumsum along": (lambda x: x.cumsum(1), lambda x, i: x.cumsum(0)),
    "sort": (lambda x: x.sort(2)[0], lambda x, i: x.sort(1)[0]),
    "flip": (lambda x: x.flip(2), lambda x, i: x.flip(1)),
    "view": (lambda x: x.view(4, -1, 1, 3), lambda x, i: x.view(-1, 1, 3)),
    "cat": (lambda x: torch.cat([x, x * 2], 2), lambda x, i: torch.cat([x, x * 2], 1)),
    "stack": (lambda x: torch.stack([x, x * 2], 2), lambda x, i: torch.stack([x, x * 2], 1)),
    "chunk": (lambda x: torch.cat([x, x * 2], 2).chunk(2, 2)[1], lambda x, i: x * 2),
    "narrow": (lambda x: x.narrow(2, 1, 2), lambda x, i: x[:, 1:]),
    "index": (lambda x: x[:, :, 1:], lambda x, i: x[:, 1:]),
    "glu": (lambda x: F.glu(torch.cat([x, x], 2)), lambda x, i: F.glu(torch.cat([x, x], 1))),
    "rms_norm": (lambda x: F.rms_norm(x, (3,)), lambda x, i: F.rms_norm(x, (3,))),
    "transposed and back": (lambda x: (x.transpose(1, 2) * 2).transpose(1, 2), lambda x, i: x * 2),
    "contiguous": (lambda x: x.transpose(1, 2).contiguous(), lambda x, i: x.t()),
}  # fmt: skip
# One row for each component, in a dense tensor.
ROWS = {
    "sum": (lambda x: x.sum(1), lambda x: x.sum(0)),
    "sum kept": (lambda x: x.sum(1, keepdim=True), lambda x: x.sum(0, keepdim=True)),
    "mean": (lambda x: x.mean(1), lambda x: x.mean(0)),
    "amax": (lambda x: x.amax(1), lambda x: x.amax(0)),
    "amin": (lambda x: x.amin(1), lambda x: x.amin(0)),
    "prod": (lambda x: x.prod(1), lambda x: x.prod(0)),
    "max": (lambda x: x.max(1)[0], lambda x: x.max(0)[0]),
    "logsumexp": (lambda x: x.logsumexp(1), lambda x: x.logsumexp(0)),
    "transposed sum": (lambda x: x.transpose(1, 2).sum(2), lambda x: x.sum(0)),
}
# Of all elements.
WHOLE = {
    "sum": (lambda x: x.sum(), lambda x: x.sum()),
    "mean": (lambda x: x.mean(), lambda x: x.mean()),
    "amax": (lambda x: x.amax(), lambda x: x.amax()),
    "sum of rows": (lambda x: x.sum((0, 1)), lambda x: x.sum(0)),
    "mean of rows kept": (lambda x: x.mean((0, 1), keepdim=True), lambda x: x.mean(0)[None, None]),
    "norm": (lambda x: x.norm(), lambda x: x.norm()),
    "mse_loss": (lambda x: F.mse_loss(x, x * 3), lambda x: F.mse_loss(x, x * 3)),
    "argmax": (lambda x: x.argmax() + x.sum() * 0, lambda x: x.argmax() + x.sum() * 0),
}


def on(t, x):
    return t.to(x.device)


def agree(nested, found, wanted, parts):
    """Results and gradients: of a nested tensor, and of its components."""
    close(found, wanted)
    weigh = lambda t: sum((p * p.detach().cos()).sum() for p in t)
    flat = found.unbind() if found.is_nested else [found]
    (pulled,) = torch.autograd.grad(weigh(flat), nested)
    wanted = wanted if isinstance(wanted, list) else [wanted]
    assert pulled.is_nested and pulled.layout is nested.layout
    close(pulled, torch.autograd.grad(weigh(wanted), parts))


def made(layout, device, lengths=LENGTHS):
    parts = [t.requires_grad_() for t in components(3, device=device, lengths=lengths)]
    return torch.nested.nested_tensor(parts, layout=layout, requires_grad=True), parts


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
@pytest.mark.parametrize("name", BOTH)
def test_both_layouts_compute_each_component(name, layout, device):
    nested, parts = made(layout, device)
    of_nested, of_part = BOTH[name]
    found = of_nested(nested)
    assert found.is_nested and found.layout is layout
    agree(nested, found, [of_part(x, i) for i, x in enumerate(parts)], parts)


@pytest.mark.parametrize("name", JAGGED)
def test_jagged_tensors_compute_each_component(name, device):
    nested, parts = made(torch.jagged, device)
    of_nested, of_part = JAGGED[name]
    found = of_nested(nested)
    assert type(found) is type(nested) and found.offsets() is nested.offsets()
    agree(nested, found, [of_part(x, i) for i, x in enumerate(parts)], parts)


@pytest.mark.parametrize("name", ROWS)
def test_the_ragged_dim_is_reduced(name, device):
    nested, parts = made(torch.jagged, device, (3, 1, 2))
    of_nested, of_part = ROWS[name]
    found = of_nested(nested)
    assert not found.is_nested
    agree(nested, found, torch.stack([of_part(x) for x in parts]), parts)


@pytest.mark.parametrize("name", WHOLE)
def test_all_elements_are_reduced(name, device):
    nested, parts = made(torch.jagged, device)
    of_nested, of_whole = WHOLE[name]
    agree(nested, of_nested(nested), of_whole(torch.cat(parts)), parts)


def test_lengths_do_not_show_in_strided_products(device):
    a, parts = made(torch.strided, device)
    b = torch.nested.nested_tensor(components(2, device=device, seed=1, lengths=(3,) * 4))
    agree(a, a @ b, [x @ y for x, y in zip(parts, b.unbind())], parts)
    agree(a, a.bmm(b), [x @ y for x, y in zip(parts, b.unbind())], parts)
    agree(a, a @ a.transpose(1, 2), [x @ x.t() for x in parts], parts)


def test_products_over_the_ragged_dim_are_dense(device):
    a, parts = made(torch.jagged, device)
    agree(a, a.transpose(1, 2) @ a, torch.stack([x.t() @ x for x in parts]), parts)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dims", [(8,), (2, 8)], ids=["one head", "two heads"])
def test_jagged_attention(dims, causal, device):
    lengths = (3, 1, 5)
    parts = [
        [t.requires_grad_() for t in components(*dims, device=device, seed=s, lengths=lengths)]
        for s in range(3)
    ]
    nested = [torch.nested.as_nested_tensor(each, layout=torch.jagged) for each in parts]
    heads = (lambda x: x.transpose(-3, -2)) if len(dims) == 2 else (lambda x: x)
    found = heads(F.scaled_dot_product_attention(*map(heads, nested), is_causal=causal))
    wanted = [
        heads(F.scaled_dot_product_attention(*map(heads, each), is_causal=causal))
        for each in zip(*parts)
    ]
    close(found, wanted)
    flat = [t for each in parts for t in each]
    total = lambda ts: sum((t * t).sum() for t in ts)
    close(
        torch.autograd.grad(total(found.unbind()), flat), torch.autograd.grad(total(wanted), flat)
    )


def test_strided_attention_is_that_of_each_component(device):
    q, k = (
        torch.nested.nested_tensor(components(4, device=device, seed=s, lengths=(3, 1, 5)))
        for s in range(2)
    )
    found = F.scaled_dot_product_attention(q, k, k)
    parts = zip(q.unbind(), k.unbind())
    close(found, [F.scaled_dot_product_attention(a, b, b) for a, b in parts])
    with pytest.raises(RuntimeError, match="not supported when is_causal=True"):
        F.scaled_dot_product_attention(q, k, k, is_causal=True)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_embedding_and_modules(layout, device):
    torch.manual_seed(0)
    words = [torch.tensor([0, 4], device=device), torch.tensor([2, 2, 1], device=device)]
    embed = torch.nn.Embedding(5, 8, device=device)
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 8, device=device), torch.nn.GELU(), torch.nn.LayerNorm(8, device=device),
        torch.nn.Dropout(0.0),
    )  # fmt: skip
    found = net(embed(torch.nested.nested_tensor(words, layout=layout)))
    assert found.layout is layout
    wanted = [net(embed(each)) for each in words]
    for a, b in zip(found.unbind(), wanted):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    weights = [*embed.parameters(), *net.parameters()]
    total = lambda ts: sum(t.square().sum() for t in ts)
    pairs = zip(
        torch.autograd.grad(total(found.unbind()), weights),
        torch.autograd.grad(total(wanted), weights),
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_encoder_layers_take_each_component(layout):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    parts = components(8, lengths=(3, 1, 5), dtype=torch.float32)
    found = layer(torch.nested.nested_tensor(parts, layout=layout))
    assert found.is_nested and found.layout is layout
    wanted = [layer(part[None])[0] for part in parts]
    for a, b in zip(found.unbind(), wanted):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    weights = list(layer.parameters())
    total = lambda ts: sum(t.square().sum() for t in ts)
    pairs = zip(
        torch.autograd.grad(total(found.unbind()), weights),
        torch.autograd.grad(total(wanted), weights),
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    x = torch.nested.nested_tensor(parts, layout=layout)
    with pytest.raises(AssertionError, match="does not support NestedTensor outside"):
        layer.self_attn(x, x, x, attn_mask=torch.zeros(3, 3))


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_gradients_of_gradients(layout):
    def run(*parts):
        x = torch.nested.as_nested_tensor(list(parts), layout=layout)
        return (x.sin() * x.transpose(1, 2).contiguous().transpose(1, 2)).to_padded_tensor(0.5)

    parts = tuple(t.requires_grad_() for t in components(3, lengths=(2, 1)))
    assert torch.autograd.gradcheck(run, parts)
    assert torch.autograd.gradgradcheck(run, parts)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_autocast_sees_products(layout):
    x = torch.nested.nested_tensor(components(4, dtype=torch.float32), layout=layout)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert F.linear(x, torch.ones(2, 4)).dtype is torch.bfloat16
        assert (x * 2).dtype is torch.float32


def test_dropout_keeps_components_and_scales():
    x = torch.nested.nested_tensor([torch.ones(200), torch.ones(300)], layout=torch.jagged)
    torch.manual_seed(0)
    found = F.dropout(x, 0.25).values()
    assert found.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert 0.15 < (found == 0).double().mean() < 0.35
    torch.manual_seed(0)
    assert torch.equal(found, F.dropout(torch.ones(500), 0.25))
