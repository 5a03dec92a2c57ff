"""tritorch.cuda's memory: statistics, limits, snapshots, failures, the sanitizer."""

import gc
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tritorch
from tests.patience import PATIENCE
from tritorch import cuda
from tritorch.cuda import simulator

MIB = 2**20


def run(program, **environment):
    """Runs a program in a fresh process; returns its output."""
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def clean():
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    cuda.reset_accumulated_memory_stats()


def test_statistics(clean):
    before = cuda.memory_allocated()
    arrays = [cuda.empty(1000, dtype=tritorch.uint8) for _ in range(3)]
    assert cuda.memory_allocated() - before == 3 * 1024
    assert cuda.memory_reserved() >= cuda.memory_allocated()
    stats = cuda.memory_stats()
    assert stats["requested_bytes.small_pool.allocated"] == 3000
    assert stats["allocation.all.allocated"] == 3
    del arrays[1:]
    assert cuda.memory_allocated() - before == 1024
    assert cuda.max_memory_allocated() - before == 3 * 1024
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() - before == 1024
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == cuda.memory_allocated()


def test_empty_cache_gives_memory_back(clean):
    free = cuda.mem_get_info()[0]
    reserved = cuda.memory_reserved()
    array = cuda.empty(64 * MIB, dtype=tritorch.uint8)
    del array
    assert cuda.memory_reserved() >= 64 * MIB
    cuda.empty_cache()
    assert cuda.memory_reserved() <= reserved
    if tritorch._C.is_simulated():  # a GPU may be others' too
        assert cuda.mem_get_info()[0] >= free


def test_views_share_their_storage_and_keep_it_alive(clean):
    before = cuda.memory_allocated()
    array = cuda.from_numpy(np.arange(1000.0))
    view = array[10:20]
    assert view.shares_storage(array)
    del array
    assert cuda.memory_allocated() > before
    assert view.numpy().tolist() == list(range(10, 20))
    del view
    assert cuda.memory_allocated() == before


def test_summary_and_snapshot(clean):
    array = cuda.empty(3 * MIB, dtype=tritorch.uint8)
    text = cuda.memory_summary()
    assert "Allocated memory" in text and "from large pool" in text
    assert "from large pool" not in cuda.memory_summary(abbreviated=True)
    segments = cuda.memory_snapshot()
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    blocks = {b["address"]: b for s in segments for b in s["blocks"]}
    assert blocks[array.data_ptr()]["state"] == "active_allocated"
    assert blocks[array.data_ptr()]["requested_size"] == 3 * MIB


def test_history_carries_python_stacks(clean, tmp_path):
    cuda.memory._record_memory_history()
    try:
        array = cuda.empty(5 * MIB, dtype=tritorch.uint8)
        address = array.data_ptr()
        del array
        snapshot = cuda.memory._snapshot()
        actions = [e["action"] for e in snapshot["device_traces"][0] if e["addr"] == address]
        assert actions[-3:] == ["alloc", "free_requested", "free_completed"]
        entry = next(
            e
            for e in snapshot["device_traces"][0]
            if e["action"] == "alloc" and e["addr"] == address
        )
        assert "test_history_carries_python_stacks" in [f["name"] for f in entry["frames"]]
        cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
        assert (tmp_path / "snapshot.pickle").stat().st_size > 0
    finally:
        cuda.memory._record_memory_history(None)


def test_out_of_memory_says_who_holds_the_most():
    output = run(
        """
        from tritorch import cuda
        import tritorch
        cuda.memory._record_memory_history()
        def hold_on():
            return cuda.empty(600 * 2**20, dtype=tritorch.uint8)
        kept = hold_on()
        try:
            cuda.empty(600 * 2**20, dtype=tritorch.uint8)
        except cuda.OutOfMemoryError as error:
            print(error)
        del kept
        cuda.empty(600 * 2**20, dtype=tritorch.uint8)   # and the process goes on
        print(cuda.memory_stats()["num_ooms"])
        """,
        TRITORCH_SIMULATE_CUDA="memory=1G",
        TRITORCH_CUDA_ALLOC_CONF="poison_on_free:False",
    )
    assert "Tried to allocate 600.00 MiB" in output
    assert "hold_on" in output
    assert output.rstrip().endswith("1")


def test_garbage_is_collected_before_giving_up():
    output = run(
        """
        import gc
        from tritorch import cuda
        import tritorch
        gc.disable()
        class Cycle: pass
        for _ in range(5):
            cycle = Cycle()
            cycle.self, cycle.array = cycle, cuda.empty(600 * 2**20, dtype=tritorch.uint8)
        print(cuda.memory_stats()["num_ooms"])
        """,
        TRITORCH_SIMULATE_CUDA="memory=1G",
    )
    assert output == "0\n"


def test_memory_fraction(clean):
    total = cuda.mem_get_info()[1]
    cuda.set_per_process_memory_fraction(0.25)
    try:
        with pytest.raises(cuda.OutOfMemoryError, match="may reserve"):
            cuda.empty(total // 2, dtype=tritorch.uint8)
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    for bad, error in ((2.0, ValueError), (1, TypeError)):
        with pytest.raises(error):
            cuda.set_per_process_memory_fraction(bad)


@pytest.mark.simulated
def test_an_injected_allocation_failure_is_survived(clean):
    simulator.fail("alloc")
    array = cuda.empty(64 * MIB, dtype=tritorch.uint8)  # the ladder tries again
    assert array.numel() == 64 * MIB
    assert cuda.memory_stats()["num_alloc_retries"] == 1


@pytest.mark.simulated
def test_an_injected_copy_failure_names_the_call():
    simulator.fail("copy")
    with pytest.raises(cuda.CudaError, match=r"CUDA_ERROR_UNKNOWN \(999\) in cuMemcpy"):
        cuda.from_numpy(np.ones(3))
    assert cuda.from_numpy(np.ones(3)).numpy().tolist() == [1, 1, 1]


@pytest.mark.simulated
def test_freed_memory_reads_as_poison(clean):
    array = cuda.from_numpy(np.ones(256, np.uint8))
    address = array.data_ptr()
    del array
    stale = tritorch._C.adopt(object(), address, (256,), None, tritorch.uint8, 0)
    assert set(stale.numpy().tolist()) == {0xDB}


SANITIZED = {"TRITORCH_SIMULATE_CUDA": "1", "TRITORCH_CUDA_ALLOC_CONF": "sanitize:True"}


def test_the_sanitizer_finds_a_write_out_of_bounds():
    output = run(
        """
        import numpy as np, tritorch
        from tritorch import cuda
        def allocate_it():
            return cuda.empty(100, dtype=tritorch.uint8)
        x = allocate_it()
        cuda.synchronize()
        beyond = tritorch._C.adopt(x, x.data_ptr() + 100, (4,), None, tritorch.uint8, 0)
        beyond.fill_(1)
        try:
            cuda.synchronize()
        except cuda.SanitizerError as error:
            print(error)
        """,
        **SANITIZED,
    )
    assert "write past the end of a 100-byte allocation" in output and "allocate_it" in output


def test_the_sanitizer_finds_a_write_to_freed_memory():
    output = run(
        """
        import tritorch
        from tritorch import cuda
        def free_it(box):
            box.clear()
        box = [cuda.empty(4096, dtype=tritorch.uint8)]
        address = box[0].data_ptr()
        free_it(box)
        cuda.synchronize()
        tritorch._C.adopt(None, address, (4,), None, tritorch.uint8, 0).fill_(1)
        try:
            cuda.synchronize()
        except cuda.SanitizerError as error:
            print(error)
        """,
        **SANITIZED,
    )
    assert "write to freed memory" in output and "free_it" in output


def test_the_sanitizer_finds_nothing_in_what_is_right():
    program = """
        import numpy as np
        from tritorch import cuda
        for n in range(1, 400, 7):
            x = cuda.from_numpy(np.arange(n, dtype=np.float32))
            y = x[::2].clone()
            assert (y.numpy() == np.arange(n)[::2]).all()
        cuda.synchronize()
        print("clean")
    """
    assert run(program, **SANITIZED) == "clean\n"


def test_settings():
    with pytest.raises(ValueError, match="unknown setting 'nonsense'|nonsense"):
        cuda.memory._set_allocator_settings("nonsense:1")
    before = tritorch._C.allocator_settings()
    cuda.memory._set_allocator_settings("max_split_size_mb:64")
    assert tritorch._C.allocator_settings()["max_split_size"] == 64 * MIB
    cuda.memory._set_allocator_settings(f"expandable_segments:{before['expandable_segments']}")
    assert tritorch._C.allocator_settings() == before


def test_mem_pool():
    pool = cuda.MemPool()
    with cuda.use_mem_pool(pool):
        inside = cuda.empty(1000)
    outside = cuda.empty(1000)
    where = {
        b["address"]: s["segment_pool_id"] for s in cuda.memory_snapshot() for b in s["blocks"]
    }
    assert where[inside.data_ptr()] == pool.id and where[outside.data_ptr()] != pool.id
    assert pool.use_count() == 1


def test_caching_allocator_alloc():
    address = cuda.caching_allocator_alloc(1000)
    assert address and address % 512 == 0
    cuda.caching_allocator_delete(address)
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        cuda.caching_allocator_delete(address)


def test_no_memory_is_pinned_by_a_traceback():
    """An exception that is handled leaves nothing behind."""
    before = cuda.memory_allocated()

    def fails():
        array = cuda.zeros(1000)
        raise ValueError(array.shape)

    try:
        fails()
    except ValueError:
        pass
    gc.collect()
    assert cuda.memory_allocated() == before


# ---- processes -----------------------------------------------------------------------------------


def test_a_forked_child_gets_an_error_not_a_hang():
    output = run(
        """
        import os, tritorch
        from tritorch import cuda
        x = cuda.zeros(4)
        pid = os.fork()
        if pid == 0:
            try:
                cuda.zeros(4)
            except cuda.CudaUnavailableError as error:
                print("child:", error, *error.__notes__, flush=True)
            del x        # must not touch the parent's memory either
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        print(x.numpy().sum())
        """,
        TRITORCH_SIMULATE_CUDA="1",
    )
    assert "before this process was forked" in output and "'spawn' start method" in output
    assert output.endswith("0.0\n")


def test_a_fork_before_first_use_is_fine():
    output = run(
        """
        import os, tritorch
        from tritorch import cuda
        pid = os.fork()
        os.write(1, f"{cuda.zeros(4).numpy().sum()}\\n".encode())
        if pid:
            os.waitpid(pid, 0)
        """,
        TRITORCH_SIMULATE_CUDA="1",
    )
    assert output == "0.0\n0.0\n"


@pytest.mark.skipif(os.environ.get("TRITORCH_TEST_DEVICE") == "cuda", reason="has a driver")
def test_without_a_driver_one_sentence_says_what_to_do():
    output = run(
        """
        from tritorch import cuda
        print(cuda.is_available(), cuda.device_count())
        try:
            cuda.zeros(3)
        except cuda.CudaUnavailableError as error:
            print(error, *error.__notes__)  # as a traceback shows them
        """,
        TRITORCH_SIMULATE_CUDA="0",
    )
    assert output.startswith("False 0\n") and "install the NVIDIA driver" in output
    assert "Torch not compiled with CUDA enabled" in output


def test_threads():
    """Allocations, copies and kernels from several threads at once."""
    import threading

    failures = []

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            with cuda.stream(cuda.Stream()):
                for _ in range(30):
                    host = rng.standard_normal((rng.integers(1, 40), 7)).astype(np.float32)
                    np.testing.assert_array_equal(cuda.from_numpy(host).T.clone().numpy(), host.T)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_two_simulated_devices():
    output = run(
        """
        import numpy as np, tritorch
        from tritorch import cuda
        assert cuda.device_count() == 2
        host = np.arange(12.0).reshape(3, 4)
        x = cuda.from_numpy(host, device=1)
        assert str(x.device) == "cuda:1"
        y = x.to_device(0)
        assert str(y.device) == "cuda:0" and (y.numpy() == host).all()
        z = cuda.zeros(4, 3, dtype=tritorch.float32, device="cuda:0")
        z.T.copy_(x)
        assert (z.numpy() == host.T).all()
        with cuda.device(1):
            assert cuda.current_device() == 1 and cuda.zeros(2).device_index == 1
        assert cuda.current_device() == 0
        assert cuda.memory_allocated(1) > 0
        try:
            cuda.set_device(2)
        except cuda.CudaError as error:
            print(error)
        """,
        TRITORCH_SIMULATE_CUDA="devices=2",
    )
    assert "there are 2 devices" in output


def test_statistics_of_pinned_memory_start_anew():
    kept = tritorch.empty(1000, pin_memory=True)
    dropped = tritorch.empty(5000, pin_memory=True)
    before = tritorch.cuda.host_memory_stats()
    assert before["active_bytes.peak"] >= before["active_bytes.current"] > 0
    del dropped
    tritorch.cuda.reset_peak_host_memory_stats()
    tritorch.cuda.reset_accumulated_host_memory_stats()
    after = tritorch.cuda.host_memory_stats()
    assert after["active_bytes.peak"] == after["active_bytes.current"] < before["active_bytes.peak"]
    assert after["active_requests.allocated"] == after["num_host_alloc"] == 0
    assert after["allocated_bytes.current"] == before["allocated_bytes.current"]
    assert kept.is_pinned()
