"""What tests of nested tensors share: components of several lengths, on both devices."""

import pytest

import tritorch as torch

LENGTHS = (3, 1, 0, 4)


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU, real or simulated")
    return request.param


def components(*rest, device="cpu", seed=0, lengths=LENGTHS, dtype=torch.float64):
    """Tensors (length, *rest), whose elements are alike wherever they are made."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, *rest, generator=generator, dtype=dtype).to(device) for n in lengths]


def close(found, wanted):
    """Whether two tensors, or the components of two, are the same but for rounding."""
    if isinstance(found, torch.Tensor) and found.is_nested:
        found = found.unbind()
    if isinstance(found, (tuple, list)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted):
            close(a, b)
        return
    torch.testing.assert_close(found.cpu(), wanted.cpu(), rtol=1e-9, atol=1e-9)
