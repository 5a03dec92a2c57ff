"""Shapes that PyTorch refuses, in its words; and empty ones that it takes."""

import pytest

import tritorch as torch

F = torch.nn.functional


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.device)])
def device(request):
    return request.param


def refused(kind, said, call):
    with pytest.raises(kind, match=said):
        call()


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_classes(loss, device):
    x = lambda *shape: torch.ones(shape, device=device)
    t = lambda *shape: torch.zeros(shape, dtype=torch.int64, device=device)
    for shape in ((3, 1), (3, 2), (3, 2, 2)):
        refused(RuntimeError, "multi-target not supported", lambda s=shape: loss(x(3, 4), t(*s)))
        refused(RuntimeError, "multi-target not supported", lambda s=shape: loss(x(4), t(*s)))
    for n in (0, 3):
        refused(ValueError, f"must have size 1, but got target size: {n}",
                lambda n=n: loss(x(4), t(n)))  # fmt: skip
    refused(ValueError, "match target batch_size .0.", lambda: loss(x(3, 4), t()))
    refused(RuntimeError, "targets of dimension: 2", lambda: loss(x(3, 4, 2, 2), t(3, 2)))
    refused(RuntimeError, "size mismatch .got input: .3, 4, 2, 2. , target: .3, 2, 1.",
            lambda: loss(x(3, 4, 2, 2), t(3, 2, 1)))  # fmt: skip
    refused(RuntimeError, "Expected target size .3, 2., got .3, 5.",
            lambda: loss(x(3, 4, 2), t(3, 5)))  # fmt: skip
    assert loss(x(4), t(1)).shape == loss(x(4), t()).shape == ()


def test_integers_as_probabilities(device):
    given = torch.ones(3, 4, device=device)
    refused(RuntimeError, "floating point type for target with class probabilities, got Long",
            lambda: F.cross_entropy(given, given.long()))  # fmt: skip


def test_other_losses(device):
    x, y = torch.arange(8.0, device=device).reshape(2, 4), torch.ones(2, 4, device=device)
    three = torch.zeros(3, dtype=torch.int64, device=device)
    refused(RuntimeError, "Expected target size .2., but got .3.",
            lambda: F.multi_margin_loss(x, three))  # fmt: skip
    refused(IndexError, "Dimension specified as -1 but tensor has no dimensions",
            lambda: F.multilabel_soft_margin_loss(x.sum(), y.sum()))  # fmt: skip
    # The mean is over the input's classes, whatever the target is broadcast to.
    one = F.multilabel_soft_margin_loss(x[:, :1], y)
    every = F.multilabel_soft_margin_loss(x[:, :1].expand(2, 4), y)
    torch.testing.assert_close(one, 4 * every)


def test_layers(device):
    x = lambda *shape: torch.ones(shape, device=device)
    refused(RuntimeError, "input1 size does not match weight size: got 1 but expected 3",
            lambda: F.bilinear(x(2, 1), x(2, 4), x(5, 3, 4)))  # fmt: skip
    refused(RuntimeError, "input2 size does not match weight size: got 1 but expected 4",
            lambda: F.bilinear(x(2, 3), x(2, 1), x(5, 3, 4)))  # fmt: skip
    refused(RuntimeError, "expanded size of the tensor .4. must match the existing size .5.",
            lambda: F.linear(x(2, 3), x(4, 3), x(5)))  # fmt: skip
    assert torch.equal(F.linear(x(2, 3), x(4, 3), x(1)), x(2, 4) * 4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_convolutions_of_nothing(n, device):
    conv, back = (getattr(F, f"conv{way}{n}d") for way in ("", "_transpose"))
    x = lambda *shape: torch.ones(shape, device=device)
    sides, taps = (4,) * (n - 1), (2,) * n
    zero = "Only zero batch or zero channel inputs are supported"
    refused(RuntimeError, zero, lambda: conv(x(1, 3, *sides, 0), x(2, 3, *taps), padding=2))
    refused(RuntimeError, zero, lambda: back(x(1, 3, *sides, 0), x(3, 2, *taps)))
    refused(RuntimeError, "kernel size should be greater than zero",
            lambda: conv(x(1, 3, *sides, 4), x(2, 3, *taps[1:], 0)))  # fmt: skip
    refused(RuntimeError, "Output size is too small",
            lambda: back(x(1, 3, *sides, 4), x(3, 2, *taps), padding=4))  # fmt: skip
    assert conv(x(0, 3, *sides, 4), x(2, 3, *taps)).shape == (0, 2, *(3,) * n)


def test_pooling_of_nothing(device):
    for n in (1, 2, 3):
        x = torch.ones((0, 3, *(4,) * n), device=device)
        pool = getattr(F, f"adaptive_max_pool{n}d")
        assert pool(x, 2).shape == (0, 3, *(2,) * n)
    for n in (2, 3):
        x = torch.ones((0, 3, *(5,) * n), device=device)
        pool = getattr(F, f"fractional_max_pool{n}d")
        assert pool(x, 2, output_size=2).shape == (0, 3, *(2,) * n)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "rand", "randn", "randint", "arange"])
def test_makers_want_sizes(name):
    refused(TypeError, f"{name}.. (missing 1 required|received an invalid combination)",
            getattr(torch, name))  # fmt: skip


def test_methods_want_sizes():
    x = torch.ones(())
    for name in ("reshape", "permute", "flip", "tile", "new_zeros", "new_ones", "new_empty"):
        refused(TypeError, f"{name}.. missing 1 required positional arguments", getattr(x, name))
    refused(TypeError, "got .int., but expected one of", lambda: torch.randint(3))
    assert torch.zeros(()).shape == x.reshape(()).shape == x.permute(()).shape == ()


def test_least_squares_of_less_than_full_rank():
    whole, b = torch.eye(3), torch.ones(3, 2)
    alike = torch.arange(1.0, 4.0)[:, None].expand(3, 3)
    said = "does not have full rank .error code: 2."
    for a, c in ((alike, b), (alike[:, :2], b), (alike[:, :2].T, b[:2]), (alike[None], b[None])):
        refused(RuntimeError, f"lstsq: The least .* {said}", lambda a=a, c=c: gels(a, c))
    refused(RuntimeError, f"lstsq: .Batch element 1.: The least .* {said}",
            lambda: gels(torch.stack([whole, alike]), torch.stack([b, b])))  # fmt: skip
    assert torch.equal(gels(whole, b), b)


def gels(a, b):
    return torch.linalg.lstsq(a, b, driver="gels").solution


def test_tensors_without_dims_are_numbers():
    one, two, x = torch.tensor(1), torch.tensor(2), torch.arange(1.0, 13.0).reshape(1, 3, 4)
    for name in ("sum", "prod", "std", "mean", "amax", "logsumexp", "squeeze", "flip"):
        dim = torch.tensor(0) if name == "squeeze" else one
        assert torch.equal(getattr(x, name)(dim), getattr(x, name)(int(dim))), name
    assert torch.equal(x.roll(one, two), x.roll(1, 2))
    assert torch.equal(F.normalize(x, dim=one), F.normalize(x, dim=1))
    for name in ("avg_pool1d", "max_pool1d", "adaptive_avg_pool1d"):
        assert torch.equal(getattr(F, name)(x, two), getattr(F, name)(x, 2)), name
    w = torch.ones(2, 3, 2)
    assert torch.equal(F.conv1d(x, w, stride=two, padding=one), F.conv1d(x, w, None, 2, 1))
    for call in (lambda: F.avg_pool1d(x, 1.5), lambda: x.roll(1.5, 0), lambda: x.sum(1.5)):
        refused(TypeError, "float", call)
