"""What follows a convolution, in its kernel or behind it, for each kernel that may compute it."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import tritorch as torch
import tritorch.nn.functional as F

from .test_fusing import RUNS, errors, launched, tensors

pytestmark = [pytest.mark.device, pytest.mark.simulated]


def _normed(groups: int, x: Any, w: Any, b: Any, *rest: Any) -> Any:
    y = F.conv2d(x, w, b, padding=1, groups=groups)
    *norm, more = rest
    return F.relu(F.batch_norm(y, *norm) + more)


def _several(groups: int, x: Any, w: Any, b: Any, scale: Any, *rest: Any) -> Any:
    y = F.conv2d(x, w, b, padding=1, groups=groups)
    return F.relu(y) * 2, y, y + scale[:, None, None]


def _of_a_tap(groups: int, x: Any, w: Any, b: Any, scale: Any, *rest: Any) -> Any:
    *_, more = rest
    return F.silu(F.conv2d(x, w[:, :, :1, :1], b, groups=groups)) * scale[:, None, None] + more


def _without_arrays(groups: int, x: Any, w: Any, b: Any, *rest: Any) -> Any:
    return F.relu(F.conv2d(x, w, b, padding=1, groups=groups)) * 0.5


def _of_parts(groups: int, x: Any, w: Any, b: Any, *rest: Any) -> Any:
    """Read in other places than it is computed in: no ending."""
    y = F.conv2d(x, w, b, padding=1, groups=groups)
    return y[:, :2] * 2, torch.cat([y, y], 1) + 1


PROGRAMS = (_normed, _several, _of_a_tap, _without_arrays, _of_parts)
# Channels of the input and the output, and groups: by pointers, in parts, in packed rows, by the
# copy engine, each by itself, without tiles.
SIZES = ((4, 6, 1), (16, 32, 1), (3, 16, 1), (32, 32, 2), (8, 8, 8), (2, 4, 1))


@pytest.mark.parametrize("mode", [None, "exact"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__.strip("_"))
def test_what_follows(run: Any, sizes: tuple[int, int, int], last: bool, mode: str | None) -> None:
    channels, out, groups = sizes
    kind = torch.bfloat16 if channels % 16 == 0 else torch.float32
    order = torch.channels_last if last else torch.contiguous_format
    torch.manual_seed(4)
    make = lambda *shape: torch.randn(*shape, device="cuda").to(kind)
    x, more = (make(2, n, 6, 8).to(memory_format=order) for n in (channels, out))
    b, mean, scale, shift = (make(out) for _ in range(4))
    given = x, make(out, channels // groups, 3, 3), b, mean, mean.abs() + 1, scale, shift, more
    run = functools.partial(run, groups)
    fast = torch.compile(run, mode=mode)
    for _ in range(RUNS):
        found, count = launched(lambda: fast(*given))
    eager, plain = launched(lambda: run(*given))
    found, eager = tensors(found), tensors(eager)
    assert count <= plain
    assert all(a.stride() == b.stride() and a.dtype is b.dtype for a, b in zip(found, eager))
    if mode:
        assert all(a.equal(b) for a, b in zip(found, eager, strict=True))
        return
    truth = tensors(run(*(y.double() for y in given)))
    for own, other in zip(errors(found, truth), errors(eager, truth)):
        assert own <= 1.5 * other + torch.finfo(kind).eps
