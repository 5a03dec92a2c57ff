"""The allocator against a model: programs of mixed streams, frees, failures and captures.

A program is a list of steps drawn by Hypothesis.  After every step no two live allocations overlap
and the statistics equal the model's; at the end every allocation still holds what was written into
it, and nothing is left.
"""

import gc
import os

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tritorch
from tritorch import _C, cuda
from tritorch.cuda import simulator

pytestmark = pytest.mark.simulated
PROGRAMS = 2000 if os.environ.get("CI") else 500

sizes = st.one_of(
    st.integers(0, 5000),
    st.integers(2**19, 2**21),
    st.sampled_from([1, 512, 513, 2**20, 2**20 + 1, 12 << 20]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("alloc"), sizes, st.integers(0, 2)),
        st.tuples(st.just("alloc"), sizes, st.integers(0, 2)),
        st.tuples(st.just("free"), st.integers(0, 50)),
        st.tuples(st.just("use"), st.integers(0, 50), st.integers(0, 2)),
        st.tuples(st.just("sync"), st.integers(0, 2)),
        st.tuples(st.just("empty")),
        st.tuples(st.just("fail"), sizes),
        st.tuples(st.just("capture"), st.lists(st.integers(1, 4000), max_size=3)),
    ),
    max_size=25,
)


CURRENT = [
    f"{name}.all.current"
    for name in ("allocation", "allocated_bytes", "active", "active_bytes", "requested_bytes",
                 "reserved_bytes", "inactive_split_bytes", "segment")
]  # fmt: skip


def held():
    """The statistics of what is there now."""
    stats = _C.memory_stats(0)
    return {name: stats[name] for name in CURRENT}


@pytest.fixture
def quiet():
    """What earlier tests left stays as it is: no garbage of theirs is collected on the way."""
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    gc.disable()
    yield
    gc.enable()


class Model:
    def __init__(self):
        self.before = held()  # other tests' and tables that are kept
        self.live = []  # (array, stream, size, mark)
        self.streams = [cuda.default_stream(), cuda.Stream(), cuda.Stream()]
        self.graphs = []
        self.marks = 0

    def alloc(self, size, stream):
        self.marks += 1
        with cuda.stream(self.streams[stream]):
            array = _C.empty((size,), tritorch.uint8, 0)
            if size:
                _C.fill_dense(array, bytes([self.marks % 251]), self.streams[stream].cuda_stream)
        self.live.append((array, stream, size, self.marks % 251))

    def free(self, which):
        if self.live:
            array, stream, size, mark = self.live.pop(which % len(self.live))
            self.verify(array, stream, size, mark)

    def use(self, which, stream):
        """Another stream reads the block; it may be freed right after."""
        if not self.live:
            return
        array, owner, size, mark = self.live[which % len(self.live)]
        if owner == stream or not size:
            return
        other = self.streams[stream]
        other.wait_stream(self.streams[owner])
        with cuda.stream(other):
            copy = _C.empty((size,), tritorch.uint8, 0)
            _C.copy_dense(copy, array, other.cuda_stream)
        array.record_stream(other)
        self.live.append((copy, stream, size, mark))

    def sync(self, stream):
        self.streams[stream].synchronize()

    def empty(self):
        cuda.empty_cache()

    def fail(self, size):
        """The driver's next allocation fails: the ladder gets by, or raises and changes nothing."""
        simulator.fail("alloc")
        try:
            self.alloc(size, 0)
        except cuda.OutOfMemoryError:
            pass
        finally:
            simulator.fail("alloc", 0)

    def capture(self, wanted):
        graph = cuda.CUDAGraph()
        inside = []
        with cuda.stream(self.streams[1]):
            graph.capture_begin()
            for size in wanted:
                array = _C.empty((size,), tritorch.uint8, 0)
                _C.fill_dense(array, b"\x77", self.streams[1].cuda_stream)
                inside.append(array)
            graph.capture_end()
            graph.replay()
        for array in inside:
            self.live.append((array, 1, array.numel(), 0x77))
        self.graphs.append(graph)

    def verify(self, array, stream, size, mark):
        with cuda.stream(self.streams[stream]):
            contents = array.numpy()
        assert (contents == mark).all(), f"a block of {size} bytes lost its contents"

    def verify_all(self):
        for entry in self.live:
            self.verify(*entry)

    def check(self):
        spans = sorted((a.data_ptr(), a.data_ptr() + size) for a, _, size, _ in self.live if size)
        for (_, end), (start, _) in zip(spans, spans[1:]):
            assert end <= start, "two live blocks overlap"
        stats = _C.memory_stats(0)
        sizes = [size for _, _, size, _ in self.live if size]
        ours = {name: stats[name] - self.before[name] for name in CURRENT}
        assert ours["allocation.all.current"] == len(sizes)
        # As in PyTorch, these two also count what is freed but still in use by another stream.
        waiting = ours["active.all.current"] - len(sizes)
        assert waiting >= 0
        requested = ours["requested_bytes.all.current"]
        assert requested >= sum(sizes) if waiting else requested == sum(sizes)
        assert ours["allocated_bytes.all.current"] >= sum(-(-size // 512) * 512 for size in sizes)
        assert stats["active_bytes.all.current"] >= stats["allocated_bytes.all.current"]
        assert stats["reserved_bytes.all.current"] >= stats["active_bytes.all.current"]
        for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "allocation", "active"):
            parts = [stats[f"{name}.{pool}.current"] for pool in ("small_pool", "large_pool")]
            assert stats[f"{name}.all.current"] == sum(parts)

    def check_snapshot(self):
        """The snapshot tells the same as the statistics, and its blocks tile their segments."""
        stats, segments = _C.memory_stats(0), _C.memory_segments(0)
        assert sum(s["total_size"] for s in segments) == stats["reserved_bytes.all.current"]
        assert sum(s["allocated_size"] for s in segments) == stats["allocated_bytes.all.current"]
        assert sum(s["active_size"] for s in segments) == stats["active_bytes.all.current"]
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"]:
                assert block["address"] == address
                address += block["size"]
            assert address == segment["address"] + segment["total_size"]
            states = [block["state"] for block in segment["blocks"]]
            assert ("inactive", "inactive") not in zip(states, states[1:]), (
                "free neighbours unmerged"
            )


@pytest.mark.parametrize("expandable", [True, False])
@settings(
    max_examples=PROGRAMS // 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(program=steps, seed=st.integers(0, 2**32))
@pytest.mark.usefixtures("quiet")
def test_programs(expandable, program, seed):
    cuda.memory._set_allocator_settings(f"expandable_segments:{expandable}")
    simulator.seed(seed)
    model = Model()
    try:
        for name, *arguments in program:
            getattr(model, name)(*arguments)
            model.check()
        model.check_snapshot()
        model.verify_all()
    finally:
        model.live.clear()
        model.graphs.clear()
        cuda.synchronize()
        cuda.empty_cache()
        cuda.memory._set_allocator_settings("expandable_segments:True")
    assert held() == model.before


def test_contents_are_what_was_written_by_number():
    """The checks above can fail: a block that is overwritten is found out."""
    model = Model()
    model.alloc(1000, 0)
    _C.fill_dense(model.live[0][0], b"\x05", 0)
    with pytest.raises(AssertionError, match="lost its contents"):
        model.verify(*model.live[0])
    model.alloc(1000, 0)
    model.live[1] = (model.live[0][0][10:], 0, 990, 1)
    with pytest.raises(AssertionError, match="overlap"):
        model.check()
