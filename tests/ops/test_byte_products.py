"""Products of bytes in int32, and grouped products under ATen's names."""

import numpy as np
import pytest

import tritorch as torch
import tritorch.nn.functional as F
from tritorch.ops.linalg import byte_products

SHAPES = ((20, 16, 24), (3, 5, 2), (17, 200, 33), (4, 1000, 3), (0, 3, 4), (3, 0, 4), (1, 1, 1))


def operands(m, k, n, kind):
    generator = np.random.default_rng(k)
    low, high = (0, 256) if kind is torch.uint8 else (-128, 128)
    a = generator.integers(low, high, (m, k))
    b = generator.integers(-128, 128, (k, n))
    return a, b, torch.tensor(a, dtype=kind), torch.tensor(b, dtype=torch.int8)


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
@pytest.mark.parametrize("shape", SHAPES)
def test_int_mm(shape, kind, device):
    a, b, x, y = operands(*shape, kind)
    x, y = x.to(device), y.to(device)
    for left in (x, x.t().contiguous().t()):
        for right in (y, y.t().contiguous().t()):
            out = torch._int_mm(left, right)
            assert out.dtype is torch.int32 and out.cpu().numpy().tolist() == (a @ b).tolist()
    given = torch.empty(out.shape, dtype=torch.int32, device=device)
    assert torch._int_mm(x, y, out=given) is given and given.equal(out)
    assert torch.ops.aten._int_mm(x, y).equal(out)
    assert torch.compile(torch._int_mm)(x, y).equal(out)


def test_int_mm_of_many_products():
    """Sums that come near the end of int32."""
    x = torch.full((1, 2**15 + 1), 255, dtype=torch.uint8)
    y = torch.full((2**15 + 1, 1), -128, dtype=torch.int8)
    assert torch._int_mm(x, y).item() == 255 * -128 * (2**15 + 1)


def test_int_mm_without_data():
    x = torch.empty(3, 4, dtype=torch.int8, device="meta")
    out = torch._int_mm(x, x.t())
    assert out.shape == (3, 3) and out.dtype is torch.int32
    axes = byte_products._int_mm_record.axes((x._array, x.t()._array), ())
    assert axes.roles == {"m": "mapped", "k": "contracted", "n": "mapped"}


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (torch.ones(2, 3), torch.ones(3, 2, dtype=torch.int8), "self dtype to be int8 or uint8"),
        (torch.ones(2, 3, dtype=torch.int8), torch.ones(3, 2), "mat2 dtype to be of type int8"),
        (torch.ones(3, dtype=torch.int8), torch.ones(3, 2, dtype=torch.int8), "self to be of dim"),
        (torch.ones(2, 2, dtype=torch.int8), torch.ones(3, 2, dtype=torch.int8), "needs to match"),
    ],
)
def test_int_mm_refuses(a, b, said):
    with pytest.raises(RuntimeError, match=said):
        torch._int_mm(a, b)


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_grouped_products_have_gradients(device):
    offs = torch.tensor([3, 8], dtype=torch.int32, device=device)
    x = torch.randn(8, 16, device=device, requires_grad=True)
    w = torch.randn(2, 16, 8, device=device, requires_grad=True)
    out = torch._grouped_mm(x, w, offs)
    expected = torch.cat([x[:3] @ w[0], x[3:] @ w[1]])
    torch.testing.assert_close(out, expected)
    for ours, theirs in zip(
        torch.autograd.grad(out.square().sum(), (x, w)),
        torch.autograd.grad(expected.square().sum(), (x, w)),
    ):
        torch.testing.assert_close(ours, theirs)
    assert F.grouped_mm(x, w, offs=offs).equal(out)


@pytest.mark.device
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_scaled_grouped_products(device):
    offs = torch.tensor([3, 8], dtype=torch.int32, device=device)
    x = torch.randn(8, 16, device=device).to(torch.float8_e4m3fn)
    w = torch.randn(2, 16, 8, device=device).to(torch.float8_e4m3fn)
    left, right = torch.rand(8, device=device) + 0.5, torch.rand(2, 8, device=device) + 0.5
    out = torch._scaled_grouped_mm(x, w, left, right, offs=offs, out_dtype=torch.bfloat16)
    wide = w.float() * right[:, None]
    rows = x.float() * left[:, None]
    expected = torch.cat([rows[:3] @ wide[0], rows[3:] @ wide[1]])
    assert out.dtype is torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
