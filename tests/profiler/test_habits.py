"""Tools on trees of events: ways through them, a device's idle time, habits that cost time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tritorch as torch
from tritorch import nn
from tritorch.profiler import ProfilerActivity, _pattern_matcher as patterns, _utils, profile
from tritorch.profiling.kinds import DeviceType


def _profile(run: Callable[[], Any], **options: Any) -> profile:
    with profile(with_stack=True, record_shapes=True, **options) as prof:
        run()
    return prof


def _count(kind: Any, run: Callable[[], Any], **options: Any) -> int:
    return len(kind(_profile(run, **options)).matched_events())


def test_ways_through_trees() -> None:
    def node(name: str, *children: Any) -> Any:
        return SimpleNamespace(name=name, children=children)

    tree = [node("a", node("b", node("c")), node("d")), node("e", node("f"))]
    names = lambda way: "".join(each.name for each in way(tree))
    assert names(_utils.traverse_dfs) == "abcdef" and names(_utils.traverse_bfs) == "aebdfc"


@dataclass
class _Kineto:
    name: str
    start: int
    length: int
    link: int
    kind: DeviceType = DeviceType.CPU

    def start_ns(self) -> int:
        return self.start

    def duration_ns(self) -> int:
        return self.length

    def linked_correlation_id(self) -> int:
        return self.link

    def device_type(self) -> DeviceType:
        return self.kind


@dataclass
class _Event:
    name: str
    start_time_ns: int
    end_time_ns: int
    children: list[Any] = field(default_factory=list)

    @property
    def id(self) -> int:
        return id(self)

    @property
    def duration_time_ns(self) -> int:
        return self.end_time_ns - self.start_time_ns


def _evaluation(kinetos: list[_Kineto], tree: list[_Event]) -> _utils.BasicEvaluation:
    results = SimpleNamespace(events=lambda: kinetos, experimental_event_tree=lambda: tree)
    return _utils.BasicEvaluation(SimpleNamespace(kineto_results=results))


def test_kernels_that_wait() -> None:
    launches = [_Kineto("cudaLaunchKernel", 100 * i, 50, i) for i in range(1, 7)]
    kernels = [_Kineto("add", 700 + 100 * i, 90, i, DeviceType.CUDA) for i in range(1, 7)]
    copies = [_Kineto("Memcpy HtoD", 0, 5, 9, DeviceType.CUDA)]
    tree = [_Event("before", 0, 90), _Event("mid", 350, 1000), _Event("end", 1390, 1500)]
    found = _evaluation([*launches, *kernels, *copies], tree)
    depths = [each.queue_depth for each in found.queue_depth_list]
    assert depths == [1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0]
    metrics = {key.event.name: x for key, x in found.metrics.items()}
    assert [metrics[name].queue_depth for name in ("before", "mid", "end")] == [0, 3, 0]
    assert metrics["before"].idle_time_ns == 90 and metrics["mid"].idle_time_ns == 0
    assert metrics["end"].fraction_idle_time == 1.0
    (worth,) = found.get_optimizable_events(2, print_enable=False)
    assert worth.event.name == "mid"


def test_own_time_and_overlaps() -> None:
    inner = _Event("inner", 10, 30)
    found = _evaluation([], [_Event("outer", 0, 100, [inner])])
    assert {key.event.name: x.self_time_ns for key, x in found.metrics.items()} == {
        "outer": 80, "inner": 20,
    }  # fmt: skip
    assert found.queue_depth_list == []
    some = [_utils.Interval(0, 40), _utils.Interval(5, 20), _utils.Interval(30, 60)]
    assert _utils.EventKey(_Event("x", 10, 50)).intervals_overlap(some) == 40


def test_loops_over_elements() -> None:
    x = torch.ones(20, 20)

    def reads() -> None:
        total = 0
        for i in range(20):
            total = total + x[i]

    def writes() -> None:
        for i in range(20):
            x[i, :] = torch.arange(20) + i

    def products() -> None:
        y = x
        for _ in range(20):
            y = y @ x

    kind = patterns.ForLoopIndexingPattern
    assert [_count(kind, run) for run in (reads, writes, products)] == [1, 1, 0]


def test_gradients_that_are_filled_with_zeros() -> None:
    model = nn.Linear(3, 3)
    model(torch.ones(3)).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    kind = patterns.GradNotSetToNonePattern
    assert _count(kind, lambda: model.zero_grad(set_to_none=False)) == 1
    assert _count(kind, lambda: optimizer.zero_grad(set_to_none=False)) == 1
    assert _count(kind, optimizer.zero_grad) == 0


def test_loaders_without_workers() -> None:
    data = torch.rand(8, 2)
    kind = patterns.SynchronizedDataLoaderPattern
    for workers, wanted in ((0, 1), (1, 0)):
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers)  # type: ignore[arg-type]
        assert _count(kind, lambda loader=loader: next(iter(loader))) == wanted  # type: ignore[misc]


@pytest.mark.parametrize(("bias", "wanted"), [(True, 1), (False, 0)])
def test_a_bias_that_a_norm_takes_off(bias: bool, wanted: int) -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 3, bias=bias), nn.BatchNorm2d(3))
    kind = patterns.Conv2dBiasFollowedByBatchNorm2dPattern
    assert _count(kind, lambda: model(torch.randn(1, 3, 8, 8))) == wanted


def test_half_precision_in_odd_sizes() -> None:
    kind = patterns.MatMulDimInFP16Pattern
    odd, even = (torch.ones(n, n, dtype=torch.half) for n in (9, 16))
    assert _count(kind, lambda: odd @ odd) >= 1
    assert _count(kind, lambda: even @ even) == 0


def test_names() -> None:
    x = torch.ones(3, 3)
    with profile() as prof:
        for _ in range(4):
            x = x @ x
    assert len(patterns.NamePattern(prof, "aten::mm").matched_events()) == 4
    first, *rest = patterns.Pattern(prof).event_tree
    pattern = patterns.Pattern(prof)
    assert pattern.siblings_of(first) == ([], rest) and pattern.next_of(first) is rest[0]
    assert pattern.prev_of(rest[0]) is first and pattern.next_of(rest[-1]) is None
    assert pattern.root_of(first.children[0]) is first


def test_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Linear(3, 3)
    model(torch.ones(3)).sum().backward()
    prof = _profile(lambda: model.zero_grad(set_to_none=False))
    patterns.report_all_anti_patterns(prof, json_report_dir=str(tmp_path))
    said = capsys.readouterr().out
    assert "Gradient Set To Zero Instead of None Pattern: 1 events matched" in said
    report = json.loads((tmp_path / "torchtidy_report.json").read_text())
    ((file, (entry,)),) = report.items()
    assert file.endswith("test_habits.py")
    assert set(entry) == {"line_number", "name", "url", "message"}
    with open(__file__) as source:
        assert "zero_grad" in source.read().splitlines()[entry["line_number"] - 1]


@pytest.mark.device
def test_a_filled_tensor_that_is_copied() -> None:
    kind = patterns.ExtraCUDACopyPattern
    device = {"activities": [ProfilerActivity.CPU, ProfilerActivity.CUDA], "profile_memory": True}
    assert _count(kind, lambda: torch.ones(100).to("cuda"), **device) == 1
    assert _count(kind, lambda: torch.ones(100, device="cuda"), **device) == 0
