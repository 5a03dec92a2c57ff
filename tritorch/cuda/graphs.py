"""Graphs: work captured once and replayed with one call, as in torch.cuda."""

from __future__ import annotations

import functools
import gc
from typing import Any

from tritorch import _C
from tritorch.core import profiling
from tritorch.core.device import cuda_index
from tritorch.core.scopes import Scope
from tritorch.cuda.streams import Stream, StreamContext, current_stream

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_Pool = tuple[int, int]


class CUDAGraph:
    """A captured graph and the private memory pool that its addresses come from."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph = _C.Graph()
        self._graph.keep_graph(keep_graph)
        self._capturing: profiling.Capturing | None = None

    def capture_begin(self, pool: _Pool | None = None, capture_error_mode: str = "global") -> None:
        """Starts to capture the current stream; its memory comes from `pool` or a new one."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, "
                f"got {capture_error_mode}"
            )
        index = _C.current_device()
        stream = _C.current_stream(index)
        shared = 0 if pool is None else _resolve(pool, index)
        self._graph.capture_begin(index, stream, shared, _MODES[capture_error_mode])
        self._capturing = profiling.Capturing()

    def capture_end(self) -> None:
        """Ends the capture and, unless made with keep_graph, makes the graph ready to run."""
        noting, self._capturing = self._capturing, None
        try:
            self._graph.capture_end()
        except BaseException:
            if noting is not None:
                noting.end()
            raise
        if noting is not None:
            noting.end(self._graph)

    def instantiate(self) -> None:
        """Makes a graph that was kept ready to run."""
        self._graph.instantiate()

    def replay(self) -> None:
        """Runs the captured work on the current stream."""
        self._graph.replay(_C.current_stream(self._graph.device_index))

    def reset(self) -> None:
        """Forgets the graph and releases its memory."""
        self._graph.reset()
        if self._capturing is not None:
            self._capturing.end()
            self._capturing = None

    def pool(self) -> _Pool:
        """The id of this graph's memory pool, to share with another capture."""
        return (0, self._graph.pool)

    def raw_cuda_graph(self) -> int:
        """The driver's graph, as a number; the graph was made with keep_graph."""
        return self._graph.raw_graph()

    def raw_cuda_graph_exec(self) -> int:
        """The driver's executable graph, as a number."""
        return self._graph.raw_exec()

    def register_generator_state(self, generator: Any) -> None:
        """Refuses: the numbers that a graph's kernels draw are fixed as they are captured."""
        raise NotImplementedError(
            "CUDAGraph.register_generator_state: a replay would have to draw new numbers, but a "
            "captured kernel draws the same ones each time; draw them outside of the graph, into "
            "a tensor that it reads"
        )

    def node_count(self) -> int:
        """How many operations were captured."""
        return self._graph.node_count

    def enable_debug_mode(self) -> None:
        """Keeps the graph after instantiation, as debug_dump needs (here it always is)."""

    def debug_dump(self, debug_path: str) -> None:
        """Writes the graph as a GraphViz file."""
        self._graph.debug_dump(debug_path)


# Handles that were given out before any capture used them: made into pools at first use, since a
# handle does not know its device.
_handles: dict[tuple[_Pool, int], int] = {}
_next_handle = 0


def graph_pool_handle() -> _Pool:
    """An id by which several captures share one memory pool."""
    global _next_handle
    _next_handle += 1
    return (_next_handle, 0)


def _resolve(pool: _Pool, device: int) -> int:
    if pool[0] == 0:
        return pool[1]
    key = ((pool[0], pool[1]), device)
    if key not in _handles:
        _handles[key] = _C.create_pool(device)
    return _handles[key]


class graph(Scope):
    """`with graph(g):` captures what its body does into g.

    The body runs on a side stream (`stream`, or one of this class's own) after all work that is
    queued on the current one.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: _Pool | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        if graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_stream = graph.default_capture_stream if stream is None else stream
        self.capture_error_mode = capture_error_mode

    def changes(self) -> Any:
        return (StreamContext(self.capture_stream),)

    def __enter__(self) -> None:
        _C.synchronize(_C.current_device())
        gc.collect()
        _C.empty_cache()
        super().__enter__()
        self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)

    def __exit__(self, *exception: object) -> None:
        try:
            self.cuda_graph.capture_end()
        except Exception:
            # The body's own error says more than that its capture failed.
            if not exception or exception[0] is None:
                raise
        finally:
            super().__exit__(*exception)


def is_current_stream_capturing() -> bool:
    """Whether the current stream's work is being captured; never starts CUDA."""
    return _C.driver_loaded() and current_stream().is_capturing()


class MemPool:
    """A private memory pool, for what is allocated under use_mem_pool(pool)."""

    def __init__(self, device: Any = None) -> None:
        self.device_index = cuda_index(device)
        self._pool = _C.create_pool(self.device_index)

    @property
    def id(self) -> _Pool:
        return (0, self._pool)

    def use_count(self) -> int:
        return _C.pool_use_count(self.device_index, self._pool)

    def __del__(self) -> None:
        if hasattr(self, "_pool"):
            _C.release_pool(self.device_index, self._pool)


class use_mem_pool(Scope):
    """`with use_mem_pool(pool):` this thread's allocations come from the pool."""

    def __init__(self, pool: MemPool, device: Any = None) -> None:
        if device is not None and cuda_index(device) != pool.device_index:
            raise ValueError(f"the pool is on cuda:{pool.device_index}, not on {device}")
        self.pool = pool

    def changes(self) -> Any:
        pool = self.pool.device_index, self.pool._pool
        begin, end = _C.begin_thread_to_pool, _C.end_thread_to_pool
        return ((functools.partial(begin, *pool), None, functools.partial(end, *pool)),)
