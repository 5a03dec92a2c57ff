"""Calls of compiled functions are events, which kernels belong to."""

from __future__ import annotations

import pytest

import tritorch as torch
from tritorch.profiler import ProfilerActivity, profile


@torch.compile
def _scaled(x: torch.Tensor) -> torch.Tensor:
    return x.mul(2).add(1).relu()


def test_a_compiled_call_is_an_event() -> None:
    x = torch.ones(8)
    _scaled(x)
    with profile() as prof:
        y = _scaled(x)
    assert y.tolist() == [3.0] * 8
    found = [event for event in prof.events() if event.name == "Torch-Compiled Region: _scaled"]
    assert len(found) == 1 and found[0].is_user_annotation and found[0].cpu_time_total > 0


@torch.compile
def _refused(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(7)


def test_it_ends_with_an_error_too() -> None:
    with profile() as prof:
        with pytest.raises(RuntimeError):
            _refused(torch.ones(8))
        torch.ones(1).neg()
    found = {event.name: event for event in prof.events()}
    region = found["Torch-Compiled Region: _refused"]
    assert found["aten::neg"].time_range.start >= region.time_range.end
    assert found["aten::neg"].cpu_parent is None


@pytest.mark.device
def test_kernels_of_a_compiled_call() -> None:
    x = torch.ones(64, device="cuda")
    _scaled(x).sum().item()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as prof:
        _scaled(x).cpu()
        torch.cuda.synchronize()
    launches = [event for event in prof.events() if event.kernels]
    around = []
    for event in launches:
        while event is not None and not event.name.startswith("Torch-Compiled"):
            event = event.cpu_parent
        around.append(event is not None)
    assert launches and any(around)
