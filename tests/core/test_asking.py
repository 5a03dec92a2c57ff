"""Subclasses that are asked for their sizes, strides, layout and device."""

import pytest

import tritorch as torch


def asked(policy, answers, wraps, **options):
    """A tensor of a class that answers questions by their names, and the questions so far."""
    seen = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            name = func.overloadpacket.__name__
            seen.append(str(func))
            return answers.get(name, NotImplemented)

    data = torch.ones(6, 2)
    options = {"dispatch_sizes_strides_policy": policy, **options}
    if wraps:
        return torch.Tensor._make_wrapper_subclass(Asked, data.size(), **options), seen
    return torch.Tensor._make_subclass(Asked, data, **options), seen


@pytest.mark.parametrize("wraps", [True, False])
def test_sizes_and_strides(wraps):
    answers = {"sym_size": (5, 3), "sym_stride": (4, 2), "dim": 2, "is_contiguous": False}
    x, seen = asked("sizes", answers, wraps)
    assert x.shape == x.size() == (5, 3) and x.size(1) == 3 and x.stride() == (4, 2)
    assert x.dim() == x.ndim == 2 and not x.is_contiguous()
    assert set(seen) == {"aten.sym_size.default", "aten.sym_stride.default", "aten.dim.default",
                         "aten.is_contiguous.default"}  # fmt: skip
    x, seen = asked("strides", answers, wraps)
    assert x.shape == (6, 2) and x.stride() == (4, 2)  # sizes are its own
    assert seen == ["aten.sym_stride.default"]


@pytest.mark.parametrize("wraps", [True, False])
def test_none_is_what_a_tensor_says_itself(wraps):
    answers = dict.fromkeys(["sym_size", "sym_stride", "sym_numel", "is_contiguous"])
    x, seen = asked("sizes", answers, wraps)
    assert (x.shape, x.stride(), x.numel(), x.is_contiguous()) == ((6, 2), (2, 1), 12, True)
    assert len(seen) == 4


def test_nobody_answers():
    x, _ = asked("sizes", {}, False)
    with pytest.raises(TypeError, match=r"failed for 'torch\.ops\.aten\.sym_size'"):
        x.size()
    with pytest.raises(RuntimeError, match="Unknown sizes_strides_policy"):
        asked("all", {}, False)


def test_device_and_layout():
    answers = {"device": torch.device("meta"), "layout": torch.sparse_csr}
    x, seen = asked(None, answers, True, dispatch_device=True, dispatch_layout=True)
    assert x.device.type == "meta" and x.layout is torch.sparse_csr
    assert seen == ["prim.device.default", "prim.layout.default"]
    y, seen = asked(None, answers, True)
    assert y.device.type == "cpu" and y.layout is torch.strided and not seen
    assert torch.ones(2).device.type == "cpu"
