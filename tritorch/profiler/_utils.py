"""Trees of events: ways through them, and how long a device waits for the host at each."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tritorch.autograd import profiler
from tritorch.ops.shape.factory import tensor
from tritorch.profiling.kinds import DeviceType


def _traverse(
    tree: Iterable[Any], next_fn: Callable[[deque[Any]], Any],
    children_fn: Callable[[Any], Sequence[Any]] = lambda event: event.children,
    reverse: bool = False,
) -> Iterator[Any]:  # fmt: skip
    """Events and what is inside of them; next_fn takes one of those that wait, reverse: as the
    last one is taken first."""

    def in_order(events: Any) -> Any:
        return reversed(list(events)) if reverse else events

    waiting = deque(in_order(tree))
    while waiting:
        event = next_fn(waiting)
        yield event
        waiting.extend(in_order(children_fn(event)))


traverse_dfs = functools.partial(_traverse, next_fn=lambda waiting: waiting.pop(), reverse=True)
traverse_bfs = functools.partial(_traverse, next_fn=lambda waiting: waiting.popleft())


@dataclass
class EventMetrics:
    """What is found out of an event: nanoseconds, and how many kernels wait when it begins."""

    duration_time_ns: int = 0
    self_time_ns: int = 0
    idle_time_ns: int = 0
    queue_depth: int = 0

    @property
    def fraction_idle_time(self) -> float:
        """The share of its time in which a device waits."""
        return self.idle_time_ns / self.duration_time_ns if self.duration_time_ns else 0.0


@dataclass
class Interval:
    """From when to when, and how many kernels waited then."""

    start: int
    end: int
    queue_depth: int = 0


class EventKey:
    """An event as a key: by its id."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def __hash__(self) -> int:
        return hash(self.event.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EventKey) and self.event.id == other.event.id

    def __repr__(self) -> str:
        return str(self.event.name)

    def intervals_overlap(self, intervals: Iterable[Interval]) -> int:
        """For how long any of the intervals and the event are at the same time."""
        total, done = 0, self.event.start_time_ns
        for each in sorted(intervals, key=lambda each: each.start):
            begin, end = max(done, each.start), min(self.event.end_time_ns, each.end)
            if begin < end:
                total += end - begin
                done = end
        return total


class BasicEvaluation:
    """For each event of a profile its own time, the kernels that wait, and a device's idle time."""

    def __init__(self, prof: Any) -> None:
        self.profile = prof
        self.metrics: dict[EventKey, EventMetrics] = {}
        self.compute_self_time()
        self.event_keys = sorted(self.metrics, key=lambda key: key.event.start_time_ns)
        self.events = [key.event for key in self.event_keys]
        self.cuda_events: list[Any] = []
        self.queue_depth_list = self.compute_queue_depth()
        self.compute_idle_time()

    def compute_self_time(self) -> None:
        """What of an event's time is not that of what is inside of it."""
        for event in traverse_dfs(self.profile.kineto_results.experimental_event_tree()):
            key = EventKey(event)
            if key in self.metrics:
                raise AssertionError(f"Duplicate id: {event.id}, {event.name}")
            inside = sum(child.duration_time_ns for child in event.children)
            total = event.duration_time_ns
            self.metrics[key] = EventMetrics(total, total - inside)

    def compute_queue_depth(self) -> list[Interval]:
        """For each launch and kernel: how many kernels have been launched and not begun by then."""
        found = self.profile.kineto_results.events()
        launches = sorted(filter(_is_launch, found), key=_start)
        kernels = sorted(filter(_is_kernel, found), key=_start)
        self.cuda_events = sorted([*launches, *kernels], key=_start)
        asked = [_start(launch) for launch in launches]
        starts = [_start(kernel) for kernel in kernels]
        place = {kernel.linked_correlation_id(): i for i, kernel in enumerate(kernels)}
        launched = [0]  # after each launch: how many kernels have been launched by then
        for launch in launches:
            number = place.get(launch.linked_correlation_id(), -1) + 1
            launched.append(max(launched[-1], number))

        def depth(time: int) -> int:
            return max(launched[bisect_right(asked, time)] - bisect_right(starts, time), 0)

        for key in self.event_keys:
            self.metrics[key].queue_depth = depth(key.event.start_time_ns)
        times = [(_start(each), _end(each)) for each in self.cuda_events]
        return [Interval(begin, end, depth(begin)) for begin, end in times]

    def compute_idle_time(self) -> None:
        """For how long no kernel waits nor runs while an event is under way."""
        idle: list[Interval] = []
        depths = self.queue_depth_list
        if depths and self.events:
            idle.append(Interval(self.events[0].start_time_ns, depths[0].start))
            idle.append(Interval(depths[-1].end, self.events[-1].end_time_ns))
        since: int | None = None
        for each in depths:
            if each.queue_depth == 0 and since is None:
                since = each.end
            elif each.queue_depth > 0 and since is not None:
                idle.append(Interval(since, each.start))
                since = None
        for key, found in self.metrics.items():
            found.idle_time_ns = key.intervals_overlap(idle)

    def rank_events(self, length: int) -> list[EventKey]:
        """The events during which the queue runs empty, those first that take long themselves and
        leave the device idle."""
        falling = _falling(self.queue_depth_list)
        found = [key for key in self.metrics if key.intervals_overlap(falling)]
        if len(found) < 2:  # nothing to compare
            return found[:length]
        idle = tensor([self.metrics[key].fraction_idle_time for key in found])
        own = tensor([float(self.metrics[key].self_time_ns) for key in found])
        idle, own = ((x - x.mean()) / x.std() for x in (idle, own))
        scores = (idle + 0.6 * own).tolist()
        order = sorted(range(len(found)), key=lambda i: scores[i], reverse=True)
        return [found[i] for i in order[:length]]

    def get_optimizable_events(self, length: int = 1, print_enable: bool = True) -> list[EventKey]:
        """The events that would be worth some work, and prints them."""
        found = self.rank_events(length)
        if print_enable:
            print("Optimizable events:" if found else "No events to optimize")
            line = "-" * 80
            for key in found:
                idle = self.metrics[key].fraction_idle_time * 100
                print(
                    f"{line}\nEvent:                {key}\n"
                    f"Source code location: {source_code_location(key.event)}\n"
                    f"Percentage idle time: {idle:.2f}%\n{line}"
                )
        return found


_HIGH = 4  # kernels wait: from here on a queue that runs empty is worth a look


def _falling(depths: Sequence[Interval]) -> list[Interval]:
    """From when the queue was high to when it was empty."""
    found = []
    peak: Interval | None = None
    for each in depths:
        if each.queue_depth > 0:
            if peak is None or each.queue_depth >= peak.queue_depth:
                peak = each
        elif peak is not None:
            if peak.queue_depth >= _HIGH:
                found.append(Interval(peak.start, each.start))
            peak = None
    return found


def _name(event: Any) -> str:
    name = event.name
    return str(name() if callable(name) else name)


def _is_launch(event: Any) -> bool:
    return _name(event).startswith(("cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchCoop"))


def _is_kernel(event: Any) -> bool:
    if event.device_type() != DeviceType.CUDA:
        return False
    return not any(word in _name(event).lower() for word in ("mem", "cpy", "alloc", "free"))


def _start(event: Any) -> int:
    """Nanoseconds; older versions of PyTorch say microseconds."""
    return int(event.start_ns() if hasattr(event, "start_ns") else event.start_us() * 1000)


def _end(event: Any) -> int:
    in_ns = hasattr(event, "duration_ns")
    return _start(event) + int(event.duration_ns() if in_ns else event.duration_us() * 1000)


def index_of_first_match(
    seq: Sequence[Any], predicate: Callable[[Any], bool], start: int = 0, end: int | None = None
) -> int | None:
    """Where the first item is of which it holds."""
    last = len(seq) if end is None else min(end, len(seq))
    return next((i for i in range(start, last) if predicate(seq[i])), None)


def argmax(
    seq: Sequence[Any], key: Callable[[Any], Any] = lambda x: x, start: int = 0,
    end: int | None = None,
) -> int | None:  # fmt: skip
    """Where the first of the largest items is."""
    places = range(len(seq))[start:end]
    return max(places, key=lambda i: key(seq[i]), default=None)


def source_code_location(event: Any) -> str:
    """The innermost function of Python around an event."""
    while event is not None:
        if re.search(r"\.py\(.*\)", event.name):
            return str(event.name)
        event = event.parent
    return "No source code location found"


def _init_for_cuda_graphs() -> None:
    """Starts and ends a profile, so that graphs are captured after the tools are loaded."""
    with profiler.profile():
        pass
