"""Operands of several dtypes where PyTorch's kernels want one: each is refused, in its words."""

import pytest

import tritorch as torch

F = torch.nn.functional
FLOAT = ("float32", "float64", "bfloat16", "float16")
NAMES = {"float32": "Float", "float64": "Double", "bfloat16": "BFloat16", "float16": "Half"}
PAIRS = [(a, b) for a in FLOAT for b in FLOAT if a != b]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.device)])
def device(request):
    return request.param


def ones(*shape, kind, device="cpu"):
    return torch.ones(shape, dtype=getattr(torch, kind), device=device)


def mixed(a, b):
    """What a norm says of numbers of dtype a and parameters of dtype b; None: nothing."""
    if b != "float32":
        return "expect parameter to have scalar type of Float"
    return None if a in ("bfloat16", "float16") else "all inputs must share same datatype"


NORMS = {
    "layer": lambda x, w, b: F.layer_norm(x, (4,), w, b),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "running": lambda x, w, b: F.batch_norm(x, w, b),
    "native_layer": lambda x, w, b: torch.native_layer_norm(x, (4,), w, b, 1e-5)[0],
    "native_batch": lambda x, w, b: torch.native_batch_norm(
        x, w, b, None, None, True, 0.1, 1e-5
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_norms(name, a, b, device):
    x, own, other = (ones(*shape, kind=kind, device=device)
                     for shape, kind in (((3, 4, 4), a), ((4,), a), ((4,), b)))  # fmt: skip
    said = mixed(a, b)
    if said is None:
        assert NORMS[name](x, other, other).dtype is x.dtype
    else:
        with pytest.raises(RuntimeError, match=said):
            NORMS[name](x, other, other)
    with pytest.raises(RuntimeError, match=f"expected scalar type {NAMES[a]} but found {NAMES[b]}"):
        NORMS[name](x, own, other)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_products_and_losses(a, b, device):
    x, y = ones(2, 4, kind=a, device=device), ones(2, 4, kind=b, device=device)
    like = lambda *shape, kind: ones(*shape, kind=kind, device=device)
    with pytest.raises(RuntimeError, match=f"but got {NAMES[b]} and {NAMES[a]}"):
        F.linear(x, like(3, 4, kind=a), like(3, kind=b))
    with pytest.raises(RuntimeError, match="All tensors must have the same dtype, got input1"):
        F.bilinear(x, x, like(3, 4, 4, kind=b))
    with pytest.raises(RuntimeError, match=f"expected scalar type {NAMES[a]} but found {NAMES[b]}"):
        F.nll_loss(x, torch.tensor([0, 1], device=device), like(4, kind=b))
    with pytest.raises(RuntimeError, match=f"Found dtype {NAMES[b]} but expected {NAMES[a]}"):
        F.binary_cross_entropy(x, y)
    with pytest.raises(RuntimeError, match=f"expected scalar type {NAMES[a]} but found {NAMES[b]}"):
        torch.cdist(x, y)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_rms_norm_has_the_dtype_of_its_input(a, b, device):
    x, w = ones(2, 4, kind=a, device=device), ones(4, kind=b, device=device) * 0.3
    y = F.rms_norm(x, (4,), w)
    assert y.dtype is x.dtype
    assert torch.allclose(y.float(), torch.full((2, 4), 0.3, device=device), atol=2e-3)


@pytest.mark.parametrize("kind", ["float32", "bool", "int16"])
def test_places_are_integers(kind, device):
    x, index = ones(3, 4, kind="float32", device=device), ones(3, 4, kind=kind, device=device)
    with pytest.raises(RuntimeError, match="Expected dtype int32/int64 for index"):
        x.gather(1, index)


LOSSES = ("mse_loss", "smooth_l1_loss", "huber_loss")


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_masks_as_targets(name, reduction, device):
    x = torch.tensor([0.25, 2.0, -1.0], device=device, requires_grad=True)
    mask = torch.tensor([True, False, True], device=device)
    got = getattr(F, name)(x, mask, reduction=reduction)
    want = getattr(F, name)(x, mask.float(), reduction=reduction)
    assert torch.equal(got, want)
    torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x) for y in (got, want)))
    with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor"):
        F.l1_loss(x, mask)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_losses_of_two_dtypes(a, b, device):
    """PyTorch writes some losses into elements of one operand's dtype."""
    x, y = ones(2, 4, kind=a, device=device), ones(2, 4, kind=b, device=device)
    assert F.huber_loss(x, y).dtype is x.dtype
    assert F.soft_margin_loss(x, y).dtype is x.dtype
    assert F.binary_cross_entropy_with_logits(x, y).dtype is y.dtype
    count = torch.ones(2, 4, dtype=torch.int64, device=device)
    for loss in (F.huber_loss, F.soft_margin_loss):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
            loss(count, x)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        F.binary_cross_entropy_with_logits(x, count)


def test_masks_of_other_sizes(device):
    x, mask = ones(5, 5, kind="float32", device=device), torch.ones(5, 4, dtype=bool, device=device)
    number, one = torch.tensor(2.0, device=device), torch.tensor([1], device=device)
    with pytest.raises(IndexError, match="the mask .5, 4. at index 1 does not match the shape"):
        torch.index_put(x, (mask,), number)
    with pytest.raises(IndexError, match="the mask .4. at index 0 .* at index 1"):
        torch.index_put(x, (one, mask[0]), number)
