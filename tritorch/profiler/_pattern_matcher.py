"""Habits that cost time, found in trees of events: `report_all_anti_patterns(profile)`."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tritorch as torch
from tritorch.profiler._utils import index_of_first_match, traverse_bfs, traverse_dfs
from tritorch.profiler.profiler import profile
from tritorch.profiling.event_trees import (
    EventType,
    PyCallFields,
    PyCCallFields,
    TorchOpFields,
)
from tritorch.utils import benchmark

_GUIDE = "https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
_OURS = os.path.basename(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::matmul", "aten::linear")


class Pattern:
    """A habit: subclasses say in `match` which events it shows in."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        self.prof, self.should_benchmark = prof, should_benchmark
        self.name = "Please specify a name for pattern"
        self.description = "Please specify a description for pattern"
        self.url = ""
        if prof.profiler is None or prof.profiler.kineto_results is None:
            raise AssertionError("profiler and kineto_results must not be None")
        self.event_tree = prof.profiler.kineto_results.experimental_event_tree()
        self.tid_root: dict[int, list[Any]] = {}
        for event in self.event_tree:
            self.tid_root.setdefault(event.start_tid, []).append(event)

    @property
    def skip(self) -> bool:
        """Whether the profile has not what it takes to find it."""
        return False

    def report(self, event: Any) -> str:
        """What is said of an event."""
        return f"{self.description}\n[Source Code Location] {source_code_location(event)}"

    def eventTreeTraversal(self) -> Iterator[Any]:
        """The events in the order in which they are looked at."""
        yield from traverse_dfs(self.event_tree)

    def summary(self, events: Sequence[Any]) -> str:
        """What is said of all events together."""
        if self.should_benchmark and hasattr(self, "benchmark"):
            return self.benchmark_summary(events)
        return f"{self.name}: {len(events)} events matched."

    def benchmark_summary(self, events: Sequence[Any]) -> str:
        """What would be saved, by what `benchmark` measures."""
        if not hasattr(self, "benchmark"):
            raise AssertionError("Please implement benchmark()")
        factors = self.benchmark(events)
        before = sum(event.duration_time_ns for event in events)
        after = sum(factors[input_shapes(event)] * event.duration_time_ns for event in events)
        return (
            f"{self.name}: {len(events)} events matched. Total Estimated Speedup: "
            f"{_time(before - after)} ({round(before / after, 2)}X)"
        )

    def match(self, event: Any) -> bool:
        """Whether an event shows it."""
        raise NotImplementedError

    def matched_events(self) -> list[Any]:
        """The events that show it."""
        return [] if self.skip else [x for x in self.eventTreeTraversal() if self.match(x)]

    def root_of(self, event: Any) -> Any:
        """The outermost event around one."""
        while event.parent:
            event = event.parent
        return event

    def siblings_of(self, event: Any) -> tuple[list[Any], list[Any]]:
        """The events in the same one, before and after."""
        all_of = event.parent.children if event.parent else self.tid_root[event.start_tid]
        place = all_of.index(event)
        return all_of[:place], all_of[place + 1 :]

    def next_of(self, event: Any) -> Any:
        """The event after one, in the same; None: there is none."""
        return next(iter(self.siblings_of(event)[1]), None)

    def prev_of(self, event: Any) -> Any:
        """The event before one, in the same; None: there is none."""
        before = self.siblings_of(event)[0]
        return before[-1] if before else None

    def go_up_until(self, event: Any, predicate: Callable[[Any], bool]) -> Any:
        """The first event from here outwards of which it holds, or the outermost one."""
        while event and event.parent and not predicate(event):
            event = event.parent
        return event


def _time(nanoseconds: float) -> str:
    for unit in ("ns", "us", "ms"):
        if nanoseconds < 1000:
            return f"{nanoseconds:.2f} {unit}"
        nanoseconds //= 1000
    return f"{nanoseconds:.2f} s"


class NamePattern(Pattern):
    """Events whose names a regular expression finds something in."""

    def __init__(self, prof: profile, name: str, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name, self.description = name, f"Matched Name Event: {name}"

    def match(self, event: Any) -> bool:
        """Whether it finds something in the name."""
        return re.search(self.name, event.name) is not None


class ExtraCUDACopyPattern(Pattern):
    """A tensor is filled on the host, and the next call copies it to a device."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Extra CUDA Copy Pattern"
        self.description = (
            "Filled a CPU tensor and immediately moved it to GPU. Please initialize it on GPU."
        )
        self.url = f"{_GUIDE}#create-tensors-directly-on-the-target-device"
        self.init_ops = {"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_"}

    @property
    def skip(self) -> bool:
        """It needs places and arguments."""
        return not (self.prof.with_stack and self.prof.record_shapes)

    def match(self, event: Any) -> bool:
        """Whether it is such a copy."""
        if event.name not in ("aten::to", "aten::cuda") or not _copies_to_device(event):
            return False
        if event.parent and event.parent.tag == EventType.PyCCall:  # the call of the function
            event = event.parent
        before = [x for x in self.siblings_of(event)[0] if not _is_beside(x)]
        return any(each.name in self.init_ops for each in traverse_dfs(before[-1:]))

    def benchmark(self, events: Sequence[Any]) -> dict[Any, float]:
        """By shapes: the time without the copy over that with it."""
        found = {}
        for shapes in {input_shapes(event) for event in events}:
            given = {"size": shapes[0]}
            copied = benchmark.Timer('torch.ones(size).to("cuda")', globals=given)
            made = benchmark.Timer('torch.ones(size, device="cuda")', globals=given)
            found[shapes] = made.timeit(10).mean / copied.timeit(10).mean
        return found


def _is_beside(event: Any) -> bool:
    """True if an event is none of the program's calls: memory, or a module imported late."""
    return event.tag == EventType.Allocation or event.name.startswith("<frozen importlib")


def _copies_to_device(event: Any) -> bool:
    return any(each.name == "cudaMemcpyAsync" for each in traverse_dfs([event]))


_INDEXING = ("aten::select", "aten::index", "aten::__getitem__", "aten::index_put_")


class ForLoopIndexingPattern(Pattern):
    """One element after the other is read or written: the same calls ten times or more."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "For Loop Indexing Pattern"
        self.description = "For loop indexing detected. Vectorization recommended."
        self.visited: set[int] = set()

    def eventTreeTraversal(self) -> Iterator[Any]:
        """Outer events first: so a loop is found once."""
        yield from traverse_bfs(self.event_tree)

    def match(self, event: Any) -> bool:
        """Whether a loop begins with it."""
        if event.name not in _INDEXING or event.id in self.visited:
            return False
        after = [each for each in self.siblings_of(event)[1] if each.tag != EventType.Allocation]
        length = index_of_first_match(after, lambda each: each.name == event.name)
        if length is None:
            return False
        names = [event.name, *(each.name for each in after[:length])]
        after = after[length:]
        count = 1
        for place in range(0, len(after), len(names)):
            round_ = after[place : place + len(names)]
            if [each.name for each in round_] != names:
                break
            count += 1
            self.visited.add(round_[0].id)
        return count >= 10


class FP32MatMulPattern(Pattern):
    """Products of float32 on a GPU that has TF32."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "FP32 MatMul Pattern"
        self.description = (
            "You are currently using GPU that supports TF32. Please enable TF32 by setting "
            "'torch.backends.cuda.matmul.allow_tf32 = True'"
        )
        self.url = (
            "https://pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-devices"
        )

    @property
    def skip(self) -> bool:
        """It needs arguments, and such a GPU."""
        if not self.prof.record_shapes or not torch.cuda.is_available():
            return True
        return torch.cuda.get_device_capability()[0] < 8

    def match(self, event: Any) -> bool:
        """Whether it is such a product."""
        if event.tag != EventType.TorchOp or event.name not in _PRODUCTS:
            return False
        if event.extra_fields.allow_tf32_cublas:
            return False
        return input_dtypes(event)[:1] == (torch.float32,)

    def report(self, event: Any) -> str:
        """The same of all of them."""
        return self.description

    def benchmark(self, events: Sequence[Any]) -> dict[Any, float]:
        """By shapes: the time with TF32 over that without it."""
        found = {}
        for shapes in {input_shapes(event) for event in events}:
            a, b = (torch.randn(shape, device="cuda") for shape in shapes[:2])
            times = []
            for allowed in (True, False):
                torch.backends.cuda.matmul.allow_tf32 = allowed
                timer = benchmark.Timer("torch.mm(a, b)", globals={"a": a, "b": b})
                times.append(timer.timeit(10).mean)
            found[shapes] = times[0] / times[1]
        return found


class OptimizerSingleTensorPattern(Pattern):
    """An optimizer computes one parameter after the other."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Optimizer Single Tensor Pattern"
        self.optimizers_with_foreach = ["adam", "sgd", "adamw"]
        self.description = (
            "Detected optimizer running with single tensor implementation. Please enable multi "
            "tensor implementation by passing 'foreach=True' into optimizer."
        )

    def match(self, event: Any) -> bool:
        """Whether it is the function that does."""
        return any(
            event.name.endswith(f"_single_tensor_{kind}") for kind in self.optimizers_with_foreach
        )


class SynchronizedDataLoaderPattern(Pattern):
    """A loader without workers: the program waits for each batch."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Synchronized DataLoader Pattern"
        self.description = (
            "Detected DataLoader running with synchronized implementation. Please enable "
            "asynchronous dataloading by setting num_workers > 0 when initializing DataLoader."
        )
        self.url = f"{_GUIDE}#enable-async-data-loading-and-augmentation"

    def match(self, event: Any) -> bool:
        """Whether it makes an iterator that has no workers."""
        if not _is_of_loader(event, "__iter__") or not event.children:
            return False
        inside = list(traverse_dfs(event.children))
        return any(_is_of_loader(each, "_get_iterator") for each in inside) and not any(
            _is_of_loader(each, "check_worker_number_rationality") for each in inside
        )


def _is_of_loader(event: Any, function: str) -> bool:
    file = os.path.join(_OURS, "utils", "data", "dataloader.py")
    return bool(event.name.startswith(file) and event.name.endswith(f": {function}"))


class GradNotSetToNonePattern(Pattern):
    """`zero_grad` writes zeros where it could forget the gradients."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Gradient Set To Zero Instead of None Pattern"
        self.description = (
            "Detected gradient set to zero instead of None. Please add 'set_to_none=True' when "
            "calling zero_grad()."
        )
        self.url = f"{_GUIDE}#disable-gradient-calculation-for-validation-or-inference"

    def match(self, event: Any) -> bool:
        """Whether it is such a call."""
        if not event.name.endswith(": zero_grad"):
            return False
        return any(
            each.name == "aten::zero_" and each.parent.name != "aten::zeros"
            for each in traverse_dfs(event.children)
        )


class Conv2dBiasFollowedByBatchNorm2dPattern(Pattern):
    """A convolution adds a bias that the batch norm after it takes off again."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Enabling Bias in Conv2d Followed By BatchNorm Pattern"
        self.description = (
            "Detected bias enabled in Conv2d that is followed by BatchNorm2d. Please set "
            "'bias=False' in Conv2d."
        )
        self.url = f"{_GUIDE}#disable-bias-for-convolutions-directly-followed-by-a-batch-norm"

    @property
    def skip(self) -> bool:
        """It needs arguments."""
        return not self.prof.record_shapes

    def match(self, event: Any) -> bool:
        """Whether it is such a convolution."""
        if event.name != "aten::conv2d" or input_dtypes(event)[2:3] in ((), (None,)):
            return False
        module = self.go_up_until(event, lambda e: e.name.startswith("nn.Module: Conv2d"))
        after = self.next_of(module)
        return after is not None and after.name.startswith("nn.Module: BatchNorm2d")


class MatMulDimInFP16Pattern(Pattern):
    """Products in half precision whose sizes are not multiples of 8."""

    def __init__(self, prof: profile, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = "Matrix Multiplication Dimension Not Aligned Pattern"
        self.description = (
            "Detected matmul with dimension not aligned. Please use matmul with aligned dimension."
        )
        self.url = f"{_GUIDE}#use-mixed-precision-and-amp"

    @property
    def skip(self) -> bool:
        """It needs places and arguments."""
        return not (self.prof.with_stack and self.prof.record_shapes)

    def match(self, event: Any) -> bool:
        """Whether it is such a product."""
        if event.tag != EventType.TorchOp or event.name not in _PRODUCTS:
            return False
        if input_dtypes(event)[:1] not in ((torch.bfloat16,), (torch.half,)):
            return False
        return any(size % 8 for shape in input_shapes(event) for size in shape[-2:])

    def benchmark(self, events: Sequence[Any]) -> dict[Any, float]:
        """By shapes: the time of aligned matrices over that of these."""
        found = {}
        for shapes in {input_shapes(event) for event in events}:
            aligned = [tuple(8 * math.ceil(size / 8) for size in shape) for shape in shapes[:2]]
            times = []
            for a_shape, b_shape in (aligned, shapes[:2]):
                given = {
                    "a": torch.randn(a_shape, device="cuda", dtype=torch.half),
                    "b": torch.randn(b_shape, device="cuda", dtype=torch.half),
                }
                times.append(benchmark.Timer("torch.mm(a, b)", globals=given).timeit(10).mean)
            found[shapes] = times[0] / times[1]
        return found


def source_code_location(event: Any) -> str:
    """The innermost line of a program around an event: `file:line`."""
    while event:
        if isinstance(event.extra_fields, (PyCallFields, PyCCallFields)):
            caller = event.extra_fields.caller
            if caller.file_name and not caller.file_name.startswith(_OURS):
                return f"{caller.file_name}:{caller.line_number}"
        event = event.parent
    return "No source code location found"


def input_shapes(event: Any) -> tuple[tuple[int, ...], ...]:
    """The sizes of an operator's arguments."""
    return tuple(tuple(getattr(each, "sizes", ())) for each in _inputs(event))


def input_dtypes(event: Any) -> tuple[Any, ...]:
    """The dtypes of an operator's arguments; None of what is no tensor."""
    return tuple(getattr(each, "dtype", None) for each in _inputs(event))


def _inputs(event: Any) -> list[Any]:
    if not isinstance(event.extra_fields, TorchOpFields):
        kind = type(event.extra_fields).__name__
        raise AssertionError(f"expected _ExtraFields_TorchOp, got {kind}")
    return event.extra_fields.inputs


_REPORTED = (
    ExtraCUDACopyPattern, FP32MatMulPattern, OptimizerSingleTensorPattern,
    SynchronizedDataLoaderPattern, GradNotSetToNonePattern,
    Conv2dBiasFollowedByBatchNorm2dPattern, MatMulDimInFP16Pattern,
)  # fmt: skip


def report_all_anti_patterns(
    prof: profile, should_benchmark: bool = False, print_enable: bool = True,
    json_report_dir: str | None = None,
) -> None:  # fmt: skip
    """Prints what is found; json_report_dir: where `torchtidy_report.json` gets it, by file."""
    report: dict[str, list[dict[str, Any]]] = {}
    said, summaries = dict[str, None](), []
    for kind in _REPORTED:
        pattern: Pattern = kind(prof, should_benchmark)
        events = pattern.matched_events()
        if events:
            summaries.append(pattern.summary(events))
        for event in events:
            text = pattern.report(event)
            if text in said:
                continue
            said[text] = None
            file, _, line = source_code_location(event).rpartition(":")
            about = {"name": pattern.name, "url": pattern.url, "message": pattern.description}
            if file:
                report.setdefault(file, []).append({"line_number": int(line), **about})
    if json_report_dir is not None:
        _write_report(os.path.join(json_report_dir, "torchtidy_report.json"), report)
    if print_enable:
        line = f"{'-' * 40}TorchTidy Report{'-' * 40}"
        print("\n".join([line, "Matched Events:", *said, "Summary:", *summaries, line]))


def _write_report(path: str, report: dict[str, Any]) -> None:
    """What the file has of other programs stays there."""
    if os.path.exists(path):
        with open(path) as file:
            report = {**json.load(file), **report}
    with open(path, "w") as file:
        json.dump(report, file, indent=4)
