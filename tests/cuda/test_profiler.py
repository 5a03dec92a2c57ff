"""Profiles of what a device does: each kernel belongs to an operator, a module and a line."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tritorch as torch
from tritorch import cuda, nn
from tritorch.profiler import DeviceType, ProfilerActivity, profile, record_function

BOTH = [ProfilerActivity.CPU, ProfilerActivity.CUDA]


@pytest.fixture(params=["CUPTI", "events"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How times of a device are found."""
    if request.param == "events":
        monkeypatch.setenv("TRITORCH_CUPTI", "0")
    return str(request.param)


def test_kernels_belong_to_operators_and_modules(way: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).cuda()
    x = torch.randn(4, 8, device="cuda")
    model(x).sum().backward()
    with profile(activities=BOTH, with_modules=True, with_stack=True, profile_memory=True) as prof:
        with record_function("forward"):
            loss = model(x).sum()
        loss.backward()
        cuda.synchronize()
    found = prof.events()
    kernels = [each for each in found if each.device_type == DeviceType.CUDA]
    launched = [each for each in found if each.name in ("cudaLaunchKernel", "cudaMemsetAsync")]
    assert len(kernels) == len(launched) > 5
    assert all(each.time_range.elapsed_us() > 0 for each in kernels)
    names = {each.name for each in kernels}
    assert any(name.startswith("matmul.") for name in names), names
    metadata = next(each for each in kernels if each.name.startswith("matmul.")).event_metadata
    assert (metadata.grid is not None) == (way == "CUPTI") and metadata.device == 0
    for each in launched:  # none is launched outside of an operator, a node or an optimizer
        assert each.cpu_parent is not None and not each.kernels
    linear = next(each for each in found if each.name == "aten::linear")
    assert len(linear.kernels) == 1 and linear.kernels[0].name.startswith("matmul.")
    assert linear.cpu_parent.name == "nn.Module: Linear_0"
    assert any("test_profiler.py" in frame for frame in linear.stack)
    assert linear.self_device_memory_usage > 0 and linear.device_time_total > 0
    forward = next(each for each in found if each.name == "forward")
    assert forward.device_time_total >= linear.device_time_total
    assert any(each.name == "cudaDeviceSynchronize" for each in found)
    table = prof.key_averages().table(sort_by="self_cuda_time_total")
    assert "Self CUDA" in table and "Self CUDA time total: " in table


def test_copies_graphs_and_traces(tmp_path: Any, way: str) -> None:
    x = torch.randn(16, device="cuda")
    y = torch.empty_like(x)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y.copy_(x * 2)
    with profile(activities=BOTH) as prof:
        graph.replay()
        host = y.cpu()
        back = host.cuda()
        with cuda.graph(cuda.CUDAGraph()):  # what is captured has no time of its own
            y.copy_(back * 2)
    assert torch.equal(host, (x * 2).cpu())
    names = [each.name for each in prof.events() if each.device_type == DeviceType.CUDA]
    assert {"Memcpy DtoH", "Memcpy HtoD"} <= set(names)
    # What is captured is not run; of what is replayed only CUPTI tells more than how long it took.
    inside = ["pointwise.map2_flat_number", "Memcpy DtoD"]
    assert [name for name in names if name[:10] != "Memcpy Hto" and name != "Memcpy DtoH"] == (
        inside if way == "CUPTI" else ["cudaGraphLaunch"]
    )
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    device = [each for each in trace if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    calls = {e["args"].get("correlation", 0) for e in trace if e.get("cat") == "cuda_runtime"} - {0}
    assert {each["args"]["correlation"] for each in device} == calls
    arrows = [each for each in trace if each.get("cat") == "ac2g"]
    assert len(device) == len(names) and len(arrows) == 2 * len(names)


def test_what_runs_without_a_profile_of_the_device_has_no_events() -> None:
    x = torch.randn(16, device="cuda")
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        (x + 1).sum().item()
    kinds = {each.device_type for each in prof.events()}
    assert kinds == {DeviceType.CPU}
    assert any(each.name == "cudaLaunchKernel" for each in prof.events())
