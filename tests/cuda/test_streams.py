"""Streams, events and graphs; and that the simulated device finds what is missing."""

import gc
import threading

import numpy as np
import pytest

import tritorch
from tritorch import _C, cuda
from tritorch.cuda import simulator

simulated = pytest.mark.simulated
N = 512


def ones(value):
    return np.full(N, value, np.float32)


# ---- the simulator finds what is missing (and finds nothing in what is right) --------------------


def produce_and_consume(wait):
    """One stream fills a buffer, another copies it."""
    main, side = cuda.Stream(), cuda.Stream()
    with cuda.stream(main):
        buffer = cuda.zeros(N)
    main.synchronize()
    with cuda.stream(main):
        buffer.fill_(1)
        done = main.record_event()
    with cuda.stream(side):
        if wait:
            side.wait_event(done)
        result = buffer.clone()
    side.synchronize()
    answer = result.numpy()
    cuda.synchronize()
    return bool((answer == 1).all())


def free_while_in_use(record):
    """A buffer of one stream is read by another, freed, and its memory taken again."""
    main, side = cuda.Stream(), cuda.Stream()
    with cuda.stream(main):
        buffer = cuda.empty(N).fill_(1)
    side.wait_stream(main)
    with cuda.stream(side):
        result = cuda.empty(N)
        result.copy_(buffer)
    if record:
        buffer.record_stream(side)
    del buffer
    with cuda.stream(main):
        again = cuda.empty(N).fill_(2)
    main.synchronize()
    side.synchronize()
    with cuda.stream(side):
        answer = result.numpy()
    del again
    return bool((answer == 1).all())


@simulated
@pytest.mark.parametrize("program", [produce_and_consume, free_while_in_use])
def test_what_is_missing_gives_a_wrong_answer_within_20_seeds(program):
    wrong = 0
    for seed in range(20):
        simulator.seed(seed)
        wrong += not program(False)
    assert wrong > 0


@pytest.mark.parametrize("program", [produce_and_consume, free_while_in_use])
def test_what_is_right_is_right_for_1000_seeds(program):
    for seed in range(1000):
        if cuda.is_simulated():
            simulator.seed(seed)
        assert program(True), f"wrong with seed {seed}"


# ---- streams -------------------------------------------------------------------------------------


def test_current_and_default_streams():
    assert cuda.current_stream() == cuda.default_stream()
    stream = cuda.Stream()
    with cuda.stream(stream):
        assert cuda.current_stream() == stream
        with cuda.stream(None):
            assert cuda.current_stream() == stream
    assert cuda.current_stream() == cuda.default_stream()
    with stream:
        assert cuda.current_stream() == stream
    external = cuda.ExternalStream(stream.cuda_stream)
    assert external == stream and hash(external) == hash(stream)
    assert stream.__cuda_stream__() == (0, stream.cuda_stream)


def test_a_stream_is_current_on_one_thread_only():
    import threading

    seen = []
    with cuda.stream(cuda.Stream()):
        thread = threading.Thread(target=lambda: seen.append(cuda.current_stream()))
        thread.start()
        thread.join()
    assert seen == [cuda.default_stream()]


def test_priorities():
    least, most = cuda.Stream.priority_range()
    assert most < 0 <= least
    assert cuda.Stream(priority=most).priority == most
    assert cuda.Stream(priority=most - 10).priority == most
    assert cuda.Stream().priority == 0


def test_query_becomes_true():
    stream = cuda.Stream()
    with cuda.stream(stream):
        cuda.zeros(N).fill_(3)
        event = stream.record_event()
    for _ in range(100_000):
        if event.query():
            break
    assert event.query()
    stream.synchronize()
    assert stream.query()


def test_events():
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    assert start.query() and start.device is None
    start.synchronize()
    start.wait()
    with pytest.raises(ValueError, match="must be recorded before"):
        start.elapsed_time(end)
    start.record()
    cuda.zeros(N)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert start.device == tritorch.device("cuda", 0)
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(cuda.Event())


# ---- graphs --------------------------------------------------------------------------------------


def test_capture_and_replay():
    x = cuda.from_numpy(ones(1))
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        assert cuda.is_current_stream_capturing()
        y = x.clone()
        z = y[::2].clone()
    assert not cuda.is_current_stream_capturing()
    for value in (5, 7):
        x.fill_(value)
        graph.replay()
        assert (y.numpy() == value).all() and (z.numpy() == value).all()
    assert graph.node_count() >= 2


def test_capture_forks_to_other_streams(monkeypatch):
    # Captures begin with one, which takes a second where thousands of tests have run before.
    monkeypatch.setattr(gc, "collect", lambda: 0)
    x = cuda.from_numpy(ones(1))
    side = cuda.Stream()
    graph = cuda.CUDAGraph()
    for seed in range(20):
        if cuda.is_simulated():
            simulator.seed(seed)
        graph.reset()
        with cuda.graph(graph):
            y = x.clone()
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                z = y.clone()
            w = y.clone()
            cuda.current_stream().wait_stream(side)
        x.fill_(seed)
        graph.replay()
        for result in (y, z, w):
            assert (result.numpy() == seed).all()


def test_graph_memory_is_private():
    x = cuda.from_numpy(ones(1))
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        inside = x.clone()
        address = inside.data_ptr()
    del inside
    others = [cuda.empty(N) for _ in range(50)]
    assert address not in {other.data_ptr() for other in others}
    pools = {tuple(s["segment_pool_id"]) for s in cuda.memory_snapshot()}
    pool = graph.pool()
    assert pool in pools
    graph.reset()
    cuda.empty_cache()
    assert pool not in {tuple(s["segment_pool_id"]) for s in cuda.memory_snapshot()}


def test_graphs_share_a_pool():
    handle = cuda.graph_pool_handle()
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    x = cuda.from_numpy(ones(1))
    with cuda.graph(first, pool=handle):
        a = x.clone()
    with cuda.graph(second, pool=first.pool()):
        b = a.clone()
    assert first.pool() == second.pool()
    x.fill_(3)
    first.replay()
    second.replay()
    assert (b.numpy() == 3).all()


def test_what_capture_forbids():
    graph = cuda.CUDAGraph()
    with pytest.raises(cuda.CudaError) as caught, cuda.graph(graph):
        cuda.zeros(N)
        cuda.current_stream().synchronize()
    assert caught.value.name.startswith("CUDA_ERROR_STREAM_CAPTURE")
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        cuda.CUDAGraph().replay()
    with pytest.raises(RuntimeError, match="non-default stream"):
        cuda.CUDAGraph().capture_begin()
    cuda.zeros(N).numpy()  # the device goes on


@pytest.mark.parametrize(("mode", "spoilt"), [(0, True), (1, False), (2, False)])
def test_threads_say_which_captures_forbid_them_calls(mode, spoilt):
    """One that asks for events, as who watches collectives does, may not spoil others' captures."""
    event, graph = cuda.Event(), cuda.CUDAGraph()
    event.record()
    x = tritorch.zeros(4, device="cuda")

    def ask():
        assert tritorch._C.exchange_capture_mode(mode) == 0
        try:
            event.query()
        except RuntimeError:
            assert spoilt

    def capture():
        with cuda.graph(graph):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
            x.add_(1)

    if spoilt:
        with pytest.raises(RuntimeError, match="capture"):
            capture()
        return
    capture()
    graph.replay()
    assert x.tolist() == [1] * 4


def test_an_abandoned_capture_leaves_its_stream_usable():
    stream = cuda.Stream()
    with cuda.stream(stream):
        graph = cuda.CUDAGraph()
        graph.capture_begin()
        x = cuda.zeros(N)
        del graph
        gc.collect()
        assert not stream.is_capturing() and not _C._profiling.enabled()
        del x
        assert (cuda.zeros(N).numpy() == 0).all()


def test_debug_dump(tmp_path):
    graph = cuda.CUDAGraph(keep_graph=True)
    with cuda.graph(graph):
        cuda.zeros(N)
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert "digraph" in (tmp_path / "graph.dot").read_text()


def test_the_drivers_graph():
    graph = cuda.CUDAGraph(keep_graph=True)
    with pytest.raises(RuntimeError, match=r"until capture_end\(\) has been called"):
        graph.raw_cuda_graph()
    with cuda.graph(graph):
        cuda.zeros(N)
    with pytest.raises(RuntimeError, match=r"until instantiate\(\) has been called"):
        graph.raw_cuda_graph_exec()
    graph.instantiate()
    assert graph.raw_cuda_graph() and graph.raw_cuda_graph_exec()
    with pytest.raises(NotImplementedError, match="draw them outside of the graph"):
        graph.register_generator_state(tritorch.Generator("cuda"))
    plain = cuda.CUDAGraph()
    with cuda.graph(plain):
        cuda.zeros(N)
    with pytest.raises(RuntimeError, match="initialized with keep_graph=true"):
        plain.raw_cuda_graph()
