"""Threads, forks, interrupts and ends of processes: what else goes on while kernels run."""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tritorch
from tests.patience import PATIENCE
from tritorch import _C, cuda
from tritorch.cuda import simulator

from . import tutorial_kernels as kernels

gpu = cuda.from_numpy


def python(code, *arguments, **environment):
    """What a program printed, which must have ended well and complained of nothing."""
    done = subprocess.run(
        # From 3.12 on Python warns of forks beside threads, which is what some of these are about.
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c",
         textwrap.dedent(code), *arguments], check=False, timeout=PATIENCE,
        capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)
    return done.stdout


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", range(3))
def test_the_first_launches_of_four_threads(run):
    out = python("""
        import threading, tritorch as torch
        x = [torch.ones(8, device="cuda") for _ in range(4)]
        together = threading.Barrier(4)
        work = [lambda x: x * 2, torch.exp, torch.sum, lambda x: torch.cumsum(x, 0)]
        def run(i):
            together.wait()
            results[i] = work[i](x[i]).sum().item()
        results = {}
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        [each.start() for each in threads], [each.join() for each in threads]
        print([round(results[i], 3) for i in range(4)])
    """)
    assert out == "[16.0, 21.746, 8.0, 36.0]\n"


def test_call_sites_are_forgotten_while_a_launch_reads_its_own():
    """A launch lets other threads in before it asks for a compiled kernel; they launch the same
    kernel with other keywords."""
    out = python(
        """
        import sys, threading
        import tritorch as torch
        from tritorch import _C

        def compile(device, values, options, may_wait):
            seen.append(len(options) == 3 and len({name[:4] for name in options}) == 1)
            raise LookupError

        def launch(prefix):
            try:
                kernel((1,), 5, **{f"{prefix}_{i}": i for i in range(3)})
            except LookupError:
                pass

        def launch_others(first):
            for i in range(3000):
                launch(first + i)

        seen = []
        torch.ones(8, device="cuda")
        kernel = _C.Kernel(compile, ("x",), (None,), (0,))
        sys.setswitchinterval(1e-6)
        firsts = 1000, 4000, 7000
        threads = [threading.Thread(target=launch_others, args=(first,)) for first in firsts]
        [each.start() for each in threads], [each.join() for each in threads]
        print(len(seen), all(seen))
    """,
        MALLOC_PERTURB_="165",
    )
    assert out == "9000 True\n"


def test_products_go_back_to_all_threads():
    from tritorch.host.linalg import blas

    if not blas.found():
        pytest.skip("another BLAS")
    before = _C.get_blas_threads()
    first, second = blas.one_thread(), blas.one_thread()
    first.__enter__(), second.__enter__()
    assert _C.get_blas_threads() == 1
    first.__exit__(None, None, None)  # threads do not leave in the order in which they came
    assert _C.get_blas_threads() == 1
    second.__exit__(None, None, None)
    assert _C.get_blas_threads() == before


# ---- forks ---------------------------------------------------------------------------------------


def test_a_child_draws_and_computes_while_its_parent_does():
    python("""
        import os, threading, time, tritorch as torch
        x, done = torch.empty(500_000), []
        def draw():
            while not done:
                x.normal_()
        torch.set_num_threads(2)
        thread = threading.Thread(target=draw)
        thread.start()
        for _ in range(20):
            time.sleep(0.002)
            if os.fork() == 0:
                torch.randn(10), torch.ones(2_000_000).exp().sum().backward
                os._exit(0)
        deadline = time.monotonic() + 300
        left = 20
        while left and time.monotonic() < deadline:
            left -= os.waitpid(-1, os.WNOHANG)[0] > 0
            time.sleep(0.01)
        done.append(True)
        thread.join()
        assert not left, left
    """)


@pytest.mark.simulated
def test_a_child_of_a_busy_device_is_told_and_does_not_wait():
    """Whatever lock the parent's thread holds: the simulator's, an allocator's, the registry's."""
    python("""
        import os, threading, time, tritorch as torch
        from tritorch import cuda
        def work():
            while not done:
                x = torch.ones(100, device="cuda")
                torch.ones(100).pin_memory(), (x + x).sum().item(), cuda.memory_stats()
        done = []
        (torch.ones(100, device="cuda") * 2).cpu()
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(30):
            time.sleep(0.003)
            if os.fork() == 0:
                import gc
                assert gc.isenabled() and cuda.memory_allocated() == 0
                cuda.simulator.counters(), cuda.simulator.clear_error()
                try:
                    torch.ones(3, device="cuda")
                except RuntimeError as error:
                    os._exit("forked" not in str(error))
                os._exit(2)
        left, deadline, codes = 30, time.monotonic() + 300, set()
        while left and time.monotonic() < deadline:
            child, status = os.waitpid(-1, os.WNOHANG)
            left -= child > 0
            codes.add(status)
            time.sleep(0.01)
        done.append(True)
        thread.join()
        assert not left and codes == {0}, (left, codes)
    """)


def test_every_lock_of_ours_is_made_anew_in_a_child(repository):
    made = re.compile(r"\bthreading\.(Lock|RLock|Condition|Semaphore)\(|\b_thread\.allocate_lock")
    for path in (repository / "tritorch").rglob("*.py"):
        if path.name != "locks.py" or path.parent.name != "core":
            assert not made.search(path.read_text()), f"{path}: make it with core/locks.py"
    mutex = re.compile(r"\bstd::(mutex|recursive_mutex|shared_mutex|timed_mutex)\s+\w+;")
    for path in (*repository.glob("src/**/*.h"), *repository.glob("src/**/*.cpp")):
        assert not mutex.search(path.read_text()), f"{path}: make it a ForkMutex"


# ---- exceptions in kernels -----------------------------------------------------------------------


class Stop(BaseException):
    """What no except Exception catches."""


@pytest.mark.simulated
@pytest.mark.parametrize("error", [KeyboardInterrupt, Stop, ValueError, MemoryError])
def test_an_exception_in_a_kernel_passes_through(error, monkeypatch):
    from tritorch.triton import interpret

    x = gpu(np.ones(64, np.float32))

    def fails(self, *args):
        raise error("in the middle")

    with monkeypatch.context() as patch:
        patch.setattr(interpret.SimulatedKernel, "_run", fails)
        kernels.add_kernel[(1,)](x, x, x, 64, BLOCK=64)
        with pytest.raises(error, match="in the middle") as caught:
            cuda.synchronize()
        assert "fails" in str(caught.traceback[-1])
    cuda.synchronize()  # nothing is left of it, and the device is well
    kernels.add_kernel[(1,)](x, x, x, 64, BLOCK=64)
    assert (x.numpy() == 2).all()


@pytest.mark.simulated
def test_an_exception_that_a_free_meets_is_raised_by_the_next_call(monkeypatch):
    from tritorch.triton import interpret

    def fails(self, *args):
        raise Stop

    side = cuda.Stream()
    x = tritorch.ones(64, device="cuda")
    with monkeypatch.context() as patch:
        patch.setattr(interpret.SimulatedKernel, "_run", fails)
        with cuda.stream(side):
            y = x + x
        x.record_stream(side)
        del x, y
        with pytest.raises(Stop):
            cuda.synchronize()
    assert (tritorch.ones(3, device="cuda") + 1).tolist() == [2, 2, 2]


@pytest.mark.simulated
def test_ctrl_c_in_the_middle_of_kernels():
    out = python("""
        import os, signal, threading, tritorch as torch
        x = torch.ones(20_000, device="cuda")
        (x + x).sum().item()
        for wait in (0.001, 0.004, 0.01, 0.02):
            timer = threading.Timer(wait, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                while True:
                    (x + x).sum().item()
            except KeyboardInterrupt:
                pass
            timer.join()
            print((x + x).sum().item())
    """)
    assert out == "40000.0\n" * 4


@pytest.mark.simulated
def test_a_failed_device_assertion_loses_the_device():
    x = gpu(np.ones(64, np.float32))
    kernels.asserting_kernel[(1,)](x, BLOCK=64, debug=True)
    with pytest.raises(cuda.CudaError, match="all are above one") as caught:
        cuda.synchronize()
    assert caught.value.name == "CUDA_ERROR_ASSERT"
    with pytest.raises(cuda.CudaError):
        cuda.synchronize()
    simulator.clear_error()


@pytest.mark.simulated
@pytest.mark.parametrize("shape", [(1,), (64,), (8, 16), (4, 2, 8)])
def test_blocks_are_combined_in_order(shape):
    """Reductions and scans combine blocks of neighbours, as if they were elements in a row."""
    from tritorch.triton import device_functions

    values = np.random.default_rng(0).integers(1, 3, (2, *shape)).astype(np.int64)
    # Associative, not commutative: (a, b) after (c, d) is (a c, b c + d).
    combine = lambda a, b, c, d: (a * c, b * c + d)
    for axis in range(len(shape)):
        pairs = [x.take(i, axis) for i in range(shape[axis]) for x in values]
        running = [(pairs[0], pairs[1])]
        for i in range(1, shape[axis]):
            running.append(combine(*running[-1], pairs[2 * i], pairs[2 * i + 1]))
        made = device_functions.reduced_by(combine, tuple(values), axis)
        assert all((x == y).all() for x, y in zip(made, running[-1]))
        made = device_functions.scanned_by(combine, tuple(values), axis, False)
        for x, expected in zip(made, zip(*running)):
            assert (x == np.stack(expected, axis)).all()


# ---- the end -------------------------------------------------------------------------------------

WORK = {
    "launches": "(x + x).sum().item()",
    "copies": "torch.ones(20_000, device='cuda').cpu()",
    "frees": "torch.empty(100, device='cuda')",
    "products": "y = torch.ones(200, 200, requires_grad=True); (y @ y).sum().backward()",
    "functions": "F.apply(torch.ones(3, requires_grad=True)).sum().backward()",
}


@pytest.mark.parametrize("work", WORK)
def test_daemon_threads_end_with_the_process(work):
    code = f"""
        import threading, time, tritorch as torch
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                time.sleep(0.001)
                return x * 2
            @staticmethod
            def backward(ctx, grad):
                time.sleep(0.001)
                return grad * 2
        x = torch.ones(1000, device="cuda")
        def run():
            while True:
                {WORK[work]}
                begun.set()
        begun = threading.Event()
        for _ in range(3):
            threading.Thread(target=run, daemon=True).start()
        begun.wait()
        time.sleep(0.1)
    """
    assert python(code) == ""


def test_what_is_finalised_last_does_not_complain(repository, tmp_path):
    """Every class of ours with a __del__ is there when the modules' globals are gone already."""
    code = """
        import builtins, datetime, sys
        import tritorch
        from tritorch import cuda, monitor
        from tritorch.triton import kernel
        from tritorch.core import profiling, sharing
        from tritorch.distributed import stores
        from tritorch.serialization import records
        from tritorch.testing import FileCheck
        from tritorch.utils.data._utils.segments import Lease

        kept = builtins.kept = [cuda.MemPool(), FileCheck()]
        kept.append(monitor.Stat("s", [monitor.Aggregation.SUM], datetime.timedelta(seconds=10)))
        kept[-1].add(3)
        kept.append(records.PyTorchFileWriter(sys.argv[1] + "/a.zip"))
        kept[-1].write_record("x", b"abc", 3)
        tritorch.save({}, sys.argv[1] + "/b.zip")
        kept.append(records.PyTorchFileReader(sys.argv[1] + "/b.zip"))
        kept += [sharing.new_segment(100), Lease(sharing.new_segment(100), 100)]
        tritorch.multiprocessing.set_sharing_strategy("file_system")
        shared = tritorch.zeros(3).share_memory_()
        kept += [shared, sharing.segment_of(shared._array)]
        loaded = kernel._Loaded.__new__(kernel._Loaded)
        loaded.module, loaded.unload = 1, lambda module, device: None
        loaded.getpid = lambda: 1
        loaded.process = 1
        loaded.device = 0
        kept += [loaded, tritorch._C._InferenceMode()]
        kept.append(profiling.Capturing())
        kept.append(stores._Server("127.0.0.1", 0, b"", -1))
        kept.append(tritorch._C._ExcludeDispatchKeyGuard(tritorch._C._dispatch_keyset_full()))
        print(*{base.__name__ for each in kept for base in type(each).__mro__})
    """
    out = python(code, str(tmp_path))
    tested = set(out.split("\n")[0].split())
    for path in (repository / "tritorch").rglob("*.py"):
        if "def __del__" in path.read_text():
            for each in ast.walk(ast.parse(path.read_text())):
                if isinstance(each, ast.ClassDef) and any(
                    isinstance(item, ast.FunctionDef) and item.name == "__del__"
                    for item in each.body
                ):
                    assert each.name in tested, f"{path}: {each.name} is not among those"
    assert tritorch.load(Path(tmp_path) / "b.zip") == {}
