"""Profiles of a program, and names for its parts."""

from __future__ import annotations

import contextlib
import functools
import uuid
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

from tritorch.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    MemRecordsAcc,
)
from tritorch.core import profiling
from tritorch.core.profiling import events
from tritorch.core.scopes import Scope
from tritorch.profiling.kinds import ActiveProfilerType, ProfilerActivity as ProfilerActivity
from tritorch.profiling.kineto import ProfilerResult
from tritorch.profiling.recordings import Options, Recorder, Recording
from tritorch.profiling.traces import write_trace

__all__ = [
    "EnforceUnique", "EventList", "FunctionEvent", "KinetoStepTracker", "MemRecordsAcc", "emit_itt",
    "emit_nvtx", "load_nvprof", "parse_nvprof_trace", "profile", "record_function",
]  # fmt: skip


class _Decorator(contextlib.ContextDecorator):
    """A context that decorates a function: each call has a context of its own."""


class profile:
    """Writes down what runs inside: operators, backward passes, annotations."""

    _kind = ActiveProfilerType.KINETO

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: str | None = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
        with_stack: bool = False, with_modules: bool = False, use_kineto: bool = False,
        use_cpu: bool = True, experimental_config: Any = None, acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None, activity_filters: Any = None,
    ) -> None:  # fmt: skip
        self.enabled = enabled
        if not enabled:
            return
        if use_cuda:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'"
                "`` instead.", FutureWarning, stacklevel=2,
            )  # fmt: skip
            use_device = "cuda"
        self.use_cuda, self.use_device, self.use_cpu = use_cuda, use_device, use_cpu
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.acc_events, self.experimental_config = acc_events, experimental_config
        self.custom_trace_id_callback = custom_trace_id_callback
        self.activity_filters, self.post_processing_timeout_s = (
            activity_filters, post_processing_timeout_s,
        )  # fmt: skip
        self.kineto_activities = {ProfilerActivity.CPU} if use_cpu else set()
        if use_device == "cuda":
            self.kineto_activities.add(ProfilerActivity.CUDA)
        if not self.kineto_activities:
            raise AssertionError("No activities specified for the profiler")
        self.entered = False
        self.trace_id = ""
        self.recording: Recording | None = None
        self._events: EventList | None = None
        self._results: ProfilerResult | None = None
        self._before: list[FunctionEvent] = []

    def default_trace_id(self) -> str:
        """A trace's own name."""
        return uuid.uuid4().hex.upper()

    def create_trace_id(self) -> str:
        """The name that the user's function gives, or a new one."""
        callback = self.custom_trace_id_callback
        return callback() if callback else self.default_trace_id()

    def config(self, create_trace_id: bool = False) -> dict[str, Any]:
        """What is written."""
        if create_trace_id:
            self.trace_id = self.create_trace_id()
        return {
            "record_shapes": self.record_shapes, "profile_memory": self.profile_memory,
            "with_stack": self.with_stack, "with_flops": self.with_flops,
            "with_modules": self.with_modules, "trace_id": self.trace_id,
        }  # fmt: skip

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def _prepare_trace(self) -> None:
        self.entered = True

    def _start_trace(self) -> None:
        self.entered = True
        self.config(create_trace_id=True)
        self._recorder = Recorder(
            Options(
                self.record_shapes, self.profile_memory, self.with_stack, self.with_flops,
                self.with_modules, self.use_device == "cuda", self.with_stack,
            ),
            self._kind,
        )  # fmt: skip
        self._recorder.start()

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool | None:
        if not self.enabled:
            return None
        recording = self._recorder.stop()
        if self.acc_events and self._events is not None:
            self._before = [*self._events]
        self.recording, self._events, self._results = recording, None, None
        return False

    @property
    def kineto_results(self) -> ProfilerResult | None:
        """What was written, as PyTorch's tools ask for it; None before the end."""
        if self._results is None and self.recording is not None:
            self._results = ProfilerResult(self.recording, self.use_device)
        return self._results

    def __repr__(self) -> str:
        if self.recording is None:
            return "<unfinished torch.autograd.profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        if self.recording is None:
            return "<unfinished torch.autograd.profile>"
        return str(self.function_events)

    def _ensure_function_events(self) -> None:
        if self._events is not None:
            return
        if self.recording is None:
            raise RuntimeError("Profiler didn't finish running")
        found = self.recording.function_events(self.use_device)
        found[:0] = self._before
        self._events = found

    @property
    def function_events(self) -> EventList:
        """The events as objects."""
        self._ensure_function_events()
        assert self._events is not None
        return self._events

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as text: `EventList.table`."""
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """A file of Kineto's form, for Perfetto, Chrome and TensorBoard."""
        if self.recording is None:
            raise RuntimeError("Profiler didn't finish running")
        write_trace(self.recording, path, self.config(), {})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """A file for flame graphs: `EventList.export_stacks`."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Any) -> None:
        """Writes nothing for a while, or goes on."""
        Recorder.toggle(enabled)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """What events of one name come to: `EventList.key_averages`."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """What all events come to."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds on the host, each counted once."""
        return self.function_events.self_cpu_time_total


class record_function(_Decorator):
    """Names what runs inside, in profiles."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.run_callbacks_on_exit = True
        self.record: Any = None

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)

    def __enter__(self) -> record_function:
        given = () if self.args is None else (self.args,)
        self.record = events.begin(profiling.ANNOTATION, self.name, -1, given)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if self.run_callbacks_on_exit:
            events.end(self.record)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """It ends when a future is done."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        record = self.record

        def finish(done: Any) -> Any:
            events.end(record)
            return done.wait()

        return fut.then(finish)


def _record_function_with_args_enter(name: str, *args: Any) -> Any:
    """Begins an annotation with arguments."""
    return events.begin(profiling.ANNOTATION, name, -1, args)


def _record_function_with_args_exit(handle: Any) -> None:
    """Ends it."""
    events.end(handle)


class _Emitting(Scope):
    """Marks each operator's call for another profiler while it is entered."""

    what = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def _ranges(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self.what} annotation context manager is not reentrant")
        super().__enter__()
        return self

    def changes(self) -> Any:
        return (marking(*self._ranges()),)

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            super().__exit__(*exception)


class emit_nvtx(_Emitting):
    """Every operator is a range of NVTX, which NVIDIA's profilers show."""

    what = "NVTX"

    def _ranges(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        from tritorch.profiling import nvtx

        nvtx.require()
        return nvtx.push, nvtx.pop


class emit_itt(_Emitting):
    """Every operator is a task of ITT, which Intel's profilers show."""

    what = "ITT"

    def _ranges(self) -> tuple[Callable[[str], Any], Callable[[], Any]]:
        from tritorch.profiling import itt

        return itt.push, itt.pop


def marking(push: Callable[[str], Any], pop: Callable[[], Any]) -> Any:
    """A mode that calls these around each public function."""
    from tritorch.overrides import TorchFunctionMode

    class Marking(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            push(getattr(func, "__name__", str(func)))
            try:
                return func(*args, **(kwargs or {}))
            finally:
                pop()

    return Marking()


def load_nvprof(path: str) -> EventList:
    """The ranges and kernels in a database of nvprof."""
    return EventList(parse_nvprof_trace(path))


class EnforceUnique:
    """Refuses what it has seen before."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Notes a key; RuntimeError if it is known."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


def parse_nvprof_trace(path: str) -> list[FunctionEvent]:
    """The ranges of NVTX in a database of nvprof, each with its kernels."""
    import sqlite3

    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    names = database.execute("SELECT _id_ as id, value FROM StringTable")
    strings = {row["id"]: row["value"] for row in names}
    found: dict[int, FunctionEvent] = {}
    unique = EnforceUnique()
    ranges = database.execute(
        "SELECT start.id AS marker_id, start.name, start.timestamp AS start_time, "
        "end.timestamp AS end_time FROM CUPTI_ACTIVITY_KIND_MARKER AS start INNER JOIN "
        "CUPTI_ACTIVITY_KIND_MARKER AS end ON start.id = end.id WHERE start.name != 0 AND "
        "end.name = 0"
    )
    for row in ranges:
        unique.see(row["marker_id"])
        found[row["marker_id"]] = FunctionEvent(
            id=row["marker_id"], node_id=0, name=strings[row["name"]],
            start_us=row["start_time"], end_us=row["end_time"], thread=0,
        )  # fmt: skip
    kernels = database.execute(
        "SELECT start.id AS marker_id, runtime._id_ AS runtime_id, runtime.cbid, kernel.start AS "
        "kernel_start, kernel.end AS kernel_end, kernel.name AS kernel_name FROM "
        "CUPTI_ACTIVITY_KIND_MARKER AS start INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS end ON "
        "start.id = end.id INNER JOIN CUPTI_ACTIVITY_KIND_RUNTIME as runtime ON (start.timestamp < "
        "runtime.start AND runtime.end < end.timestamp) INNER JOIN "
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel ON kernel.correlationId = "
        "runtime.correlationId"
    )
    unique = EnforceUnique()
    for row in kernels:
        unique.see(row["marker_id"], row["runtime_id"])
        event = found[row["marker_id"]]
        event.append_kernel(row["kernel_name"], 0, row["kernel_end"] - row["kernel_start"])
    database.close()
    return sorted(found.values(), key=lambda event: event.time_range.start)


class KinetoStepTracker:
    """How many steps a program has done: the most that anybody who counts them has."""

    _current_step = 0
    _step_dict: ClassVar[dict[str, int]] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Somebody counts from now on."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Somebody does not count any more; whether he did."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Somebody has seen a step; how many there are by now."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        most = max(cls._step_dict.values())
        if most - cls._current_step > 1:
            warnings.warn(
                "Profiler step count has increased more than 1 - current_step = "
                f"{cls._current_step} step dict =  {cls._step_dict}", stacklevel=2,
            )  # fmt: skip
        cls._current_step = max(most, cls._current_step)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """How many steps there are by now."""
        return cls._current_step


@functools.cache
def kineto_available() -> bool:
    """Whether profiles of `torch.profiler` can be had."""
    return True
