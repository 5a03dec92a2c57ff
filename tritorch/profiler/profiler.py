"""`profile`: what a program does, step by step as a schedule says."""

from __future__ import annotations

import enum
import gzip
import json
import os
import shutil
import socket
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from tritorch import cuda
from tritorch.autograd import profiler as prof
from tritorch.autograd.profiler_util import EventList
from tritorch.core.deprecation import deprecated
from tritorch.profiler._memory_profiler import MemoryProfile, MemoryProfileTimeline
from tritorch.profiler.execution_trace import ExecutionTraceObserver
from tritorch.profiling.kinds import ProfilerActivity
from tritorch.profiling.recordings import Recorder
from tritorch.profiling.traces import write_trace

__all__ = [
    "ExecutionTraceObserver", "ProfilerAction", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip

PROFILER_STEP_NAME = "ProfilerStep"


def supported_activities() -> set[ProfilerActivity]:
    """Whose activities can be written here."""
    found = {ProfilerActivity.CPU}
    return found | {ProfilerActivity.CUDA} if cuda.is_available() else found


def _asked(activities: Any) -> set[ProfilerActivity]:
    if activities is None:
        return supported_activities()
    found: set[ProfilerActivity] = set()
    for each in activities:
        if isinstance(each, ProfilerActivity):
            found.add(each)
        elif isinstance(each, dict):
            found.update(each)
        else:
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(each)}")
    return found


class _KinetoProfile:
    """A profile that is started and stopped by hand."""

    def __init__(
        self, *, activities: Iterable[Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self.activities = _asked(activities)
        self.record_shapes, self.with_flops = record_shapes, with_flops
        self.profile_memory, self.with_stack = profile_memory, with_stack
        self.with_modules, self.experimental_config = with_modules, experimental_config
        self.execution_trace_observer, self.acc_events = execution_trace_observer, acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.profiler: prof.profile | None = None
        self.use_device = "cuda" if ProfilerActivity.CUDA in self.activities else None
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, Any] = {}

    def start(self) -> None:
        """Prepares and writes from now on."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Ends what is written."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Gets ready to write."""
        observed = self.execution_trace_observer is not None
        if self.profiler is None or not self.acc_events:
            self.profiler = prof.profile(
                use_cpu=ProfilerActivity.CPU in self.activities, use_device=self.use_device,
                record_shapes=self.record_shapes or observed, with_flops=self.with_flops,
                profile_memory=self.profile_memory, with_stack=self.with_stack,
                with_modules=self.with_modules, acc_events=self.acc_events,
                experimental_config=self.experimental_config,
                custom_trace_id_callback=self.custom_trace_id_callback,
            )  # fmt: skip
        self.profiler._prepare_trace()

    def start_trace(self) -> None:
        """Writes from now on."""
        self._profiler()._start_trace()
        if self.execution_trace_observer is not None:  # it writes what the profile does
            self.execution_trace_observer.start()
        for name, value in self.preset_metadata.items():
            self.add_metadata_json(name, value)

    def stop_trace(self) -> None:
        """Ends what is written."""
        found = self._profiler()
        found.__exit__(None, None, None)
        observer = self.execution_trace_observer
        if observer is not None and observer.is_running() and found.recording is not None:
            observer.stop()
            observer.write(found.recording)

    def _profiler(self) -> prof.profile:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before it is used")
        return self.profiler

    def _done(self) -> prof.profile:
        found = self.profiler
        if found is None or found.recording is None:
            raise AssertionError("Profiler must be initialized before exporting chrome trace")
        return found

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """A file of Kineto's form; one that ends in .gz is compressed."""
        found = self._done()
        assert found.recording is not None
        write_trace(found.recording, path, found.config(), self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """A file for flame graphs."""
        self._done().export_stacks(path, metric)

    def _memory_profile(self) -> MemoryProfile:
        needs = ("record_shapes", "profile_memory", "with_stack")
        missing = ", ".join(f"{name}=True" for name in needs if not getattr(self, name))
        if missing:
            raise ValueError(f"{missing} required for memory profiling.")
        return MemoryProfile(self._done().kineto_results)

    @deprecated(
        "`export_memory_timeline` is deprecated and will be removed in a future version. "
        "Please use `torch.cuda.memory._record_memory_history` and "
        "`torch.cuda.memory._export_memory_snapshot` instead.",
        category=FutureWarning,
    )
    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Memory by category over time: a page (.html), numbers (.json, .json.gz), or what happened
        (.raw.json.gz)."""
        if device is None:
            device = "cuda:0" if cuda.is_available() else "cpu"
        self.mem_tl = MemoryProfileTimeline(self._memory_profile())
        if path.endswith(".html"):
            self.mem_tl.export_memory_timeline_html(path, device)
            return
        raw = path.endswith("raw.json.gz")
        write = (
            self.mem_tl.export_memory_timeline_raw if raw else self.mem_tl.export_memory_timeline
        )
        if not path.endswith(".gz"):
            write(path, device)
            return
        with tempfile.NamedTemporaryFile("rt", suffix=".json") as file:
            write(file.name, device)
            with gzip.open(path, "wt") as compressed:
                shutil.copyfileobj(file, compressed)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Writes nothing for a while, or goes on."""
        if self.profiler is not None:
            Recorder.toggle(enable)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """What events of one name come to."""
        return self._profiler().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def events(self) -> EventList:
        """All events as objects."""
        return self._profiler().function_events

    def add_metadata(self, key: str, value: str) -> None:
        """Adds text to the trace."""
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds JSON to the trace."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Adds JSON to every trace from the next one on."""
        self.preset_metadata[key] = value


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """Steps in cycles: some are waited for, some warm up, some are written; the first ones are
    skipped.  skip_first_wait: the first cycle waits for none; repeat: how many cycles (0: on)."""
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step += (wait if skip_first_wait else 0) - skip_first
        cycle, place = divmod(step, length)
        if (repeat > 0 and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    return action


def _always(_: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:  # fmt: skip
    """For `on_trace_ready`: writes each trace into a folder that TensorBoard reads."""

    def write(profile: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except Exception as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        profile.export_chrome_trace(os.path.join(dir_name, name))

    return write


class profile(_KinetoProfile):
    """Writes down what runs inside; with a schedule, in some steps only."""

    def __init__(
        self, *, activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        asked = _asked(activities)
        if use_cuda is not None:
            warnings.warn(
                "`use_cuda` is deprecated, use `activities` argument instead", FutureWarning,
                stacklevel=2,
            )  # fmt: skip
            (asked.add if use_cuda else asked.discard)(ProfilerActivity.CUDA)
        if not asked:
            raise AssertionError("No valid profiler activities found")
        super().__init__(
            activities=asked, record_shapes=record_shapes, profile_memory=profile_memory,
            with_stack=with_stack, with_flops=with_flops, with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer
            or ExecutionTraceObserver.build_execution_trace_obs_from_env(),
            acc_events=acc_events, custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )  # fmt: skip
        self.record_steps = schedule is not None
        self.schedule = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.step_rec_fn: prof.record_function | None = None
        self.current_action = self._action_of(0)
        prof.KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)

    def _action_of(self, step: int) -> ProfilerAction:
        action = self.schedule(step)
        if action == ProfilerAction.DEVICE_STOPPED:
            raise ValueError(
                "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be "
                "returned by a user-provided schedule"
            )
        return action

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self.stop()
        prof.KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """Does what the first step is for."""
        self._transit_action(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """Ends the last step, and what is written."""
        self._end_step()
        self._transit_action(self.current_action, None)

    def step(self) -> None:
        """The next step begins."""
        self._end_step()
        before, self.current_action = self.current_action, self._action_of(self.step_num + 1)
        self.step_num += 1
        self._transit_action(before, self.current_action)
        if os.environ.get("KINETO_USE_DAEMON"):  # who profiles from outside counts steps, too
            prof.KinetoStepTracker.increment_step(PROFILER_STEP_NAME)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = prof.record_function(f"ProfilerStep#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Names the traces from now on."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the trace."""
        return None if self.profiler is None else self.profiler.trace_id

    def _trace_ready(self) -> None:
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _transit_action(self, before: ProfilerAction, now: ProfilerAction | None) -> None:
        """From what one step was for to what the next one is; None: there is none."""
        none, warmup, record, save = list(ProfilerAction)[:4]
        if before in (record, save) and now in (record, save) and before != save:
            return
        if now in (none, warmup) and before in (warmup, record) and (before, now) != (warmup,) * 2:
            warnings.warn(f"Incorrect schedule: {before.name} followed by {now.name}", stacklevel=3)
        if before == warmup and now in (none, None):
            self.start_trace()
            self.stop_trace()
        elif before in (record, save):
            self.stop_trace()
            if before == save or now is None:
                self._trace_ready()
        if now is None or now == none:
            return
        if before in (none, save):
            self.prepare_trace()
        if now in (record, save):
            self.start_trace()
