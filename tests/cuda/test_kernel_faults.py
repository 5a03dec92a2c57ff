"""A fault in a kernel names the kernel's file and line, the program, and where it was launched."""

import _thread
import contextlib
import gc
import re
import sys
import threading
from pathlib import Path

import pytest

import tritorch
from tritorch import _C, cuda

pytest.importorskip("triton")
from triton.compiler.errors import CompilationError

from tests.cuda import faulty_kernels as kernels

pytestmark = [pytest.mark.device, pytest.mark.simulated]
FILE = Path(kernels.__file__)


def line_of(fault):
    """file:line of what is marked with a fault's name."""
    lines = FILE.read_text().splitlines()
    return f"{FILE}:{next(i + 1 for i, line in enumerate(lines) if line.endswith('# ' + fault))}"


def told(launch, kind=cuda.CudaError, during=contextlib.nullcontext):
    """What the error says that a launch ends in, and where that was."""
    with pytest.raises(kind) as caught, during():
        launch()
        cuda.synchronize()
    _C.simulator.clear_error()
    cuda.synchronize()  # the device is well
    notes = getattr(caught.value, "__notes__", [])
    return "\n".join([str(caught.value), *notes]), f"{__file__}:{launch.__code__.co_firstlineno}"


@contextlib.contextmanager
def interruptions():
    """Ctrl-C while this thread is in a kernel, and again while it still is: Python drops one that
    falls into a destructor or a callback of the garbage collector, of which hypothesis has one."""
    ended = threading.Event()
    here = threading.get_ident()

    def in_kernel():
        frame = sys._current_frames()[here]
        while frame is not None and not frame.f_code.co_filename.startswith("<endless"):
            frame = frame.f_back
        return frame is not None

    def interrupt():
        while not ended.wait(0.3):
            if in_kernel():
                _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def zeros(n):
    return tritorch.zeros(n, device="cuda")


@pytest.mark.parametrize("programs", [3, 5_000])  # side by side, all and by the thousand
def test_a_bad_address(programs):
    x = zeros(programs * 16)
    launch = lambda: kernels.bad_address[(programs,)](x, x, 2**40, BLOCK=16)
    text, site = told(launch)
    assert "load of 4 bytes at 0x" in text and "element 0 of a block of 16" in text
    assert "kernel bad_address, program (2, 0, 0)" in text
    at, called_at = line_of("bad address, called"), line_of("bad address")
    assert f"at {at}  return tl.load(x_ptr + i)" in text and f"called at {called_at}" in text
    assert f"launched at {site}" in text
    assert "TRITORCH_SIMULATE_CUDA" not in text


def test_a_bad_mask():
    x = zeros(100)
    launch = lambda: kernels.bad_mask[(1, 2)](x, 2**20, BLOCK=2**12)
    text, site = told(launch)
    assert "store of 4 bytes at 0x" in text and f"at {line_of('bad mask')}" in text
    assert re.search(r"kernel bad_mask, program \(0, [01], 0\)", text)
    assert f"launched at {site}" in text


@pytest.mark.parametrize("fault", ["mask of another shape", "type error"])
def test_what_does_not_compile(fault):
    x = zeros(16)
    launch = lambda: getattr(kernels, fault.replace(" ", "_"))[(1,)](x, BLOCK=16)
    text, _ = told(launch, CompilationError)
    assert f"{line_of(fault)}, in kernel {fault.replace(' ', '_')}" in text


def test_an_endless_loop_is_ended_by_ctrl_c():
    x = zeros(1)
    launch = lambda: kernels.endless[(3,)](x, 0)
    text, site = told(launch, KeyboardInterrupt, interruptions)
    assert "in kernel endless, programs (0, 0, 0) to (2, 0, 0)" in text
    assert re.search(rf"at {FILE}:\d+", text) and f"launched at {site}" in text
    kernels.endless[(3,)](x, 3)
    assert x.item() == 12


def test_a_failed_assertion():
    x = zeros(64)
    launch = lambda: kernels.failed_assertion[(4,)](x, BLOCK=8, debug=True)
    text, site = told(launch)
    assert "i is small in kernel failed_assertion, program (1, 0, 0)" in text
    assert f"at {line_of('failed assertion')}" in text and f"launched at {site}" in text


def test_a_failure_that_a_free_met_ends_with_the_error():
    pinned = tritorch.ones(64).pin_memory()
    x = pinned.to("cuda", non_blocking=True)
    kernels.bad_mask[(1, 1)](x, 2**20, BLOCK=2**12)
    with pytest.raises(cuda.CudaError):
        cuda.synchronize()
    del x, pinned
    _C.simulator.clear_error()
    assert zeros(64).sum().item() == 0
    assert tritorch.ones(64).pin_memory().sum() == 64


# ---- which memory a kernel may touch -------------------------------------------------------------


def places(n):
    """A tensor of n float32, and one made before and after it, in the same segment."""
    return [tritorch.full((k,), 7.0, device="cuda") for k in (128, n, 128)]


def far_from(x, other):
    return (other.data_ptr() - x.data_ptr()) // 4


@pytest.mark.parametrize("n", [1, 100, 127])
def test_past_the_end_of_a_tensor(n):
    before, x, after = places(n)
    out = zeros(1)
    for i in (n, 127) if n < 127 else (n,):
        text, _ = told(lambda i=i: kernels.element_at[(1,)](x, out, i, False))
        assert f"load of 4 bytes at 0x{x.data_ptr() + 4 * i:x}, where no memory" in text
        assert f"at {line_of('element at')}" in text
    kernels.element_at[(1,)](x, out, n - 1, False)
    assert out.item() == 7
    for other in (before, after):  # of another tensor: goes unnoticed
        kernels.element_at[(1,)](x, out, far_from(x, other), False)
        assert out.item() == 7


def test_memory_that_was_freed_or_never_given():
    gc.collect()  # graphs of other tests
    cuda.empty_cache()  # what they had counts as alive until then
    x, other = places(128)[1:]
    i, out = far_from(x, other), zeros(1)
    kernels.element_at[(1,)](x, out, i, False)
    del other  # behind the launch in the stream's order
    assert out.item() == 7
    reach = lambda segment: range(segment["address"], segment["address"] + segment["total_size"])
    own = [segment for segment in cuda.memory_snapshot() if x.data_ptr() in reach(segment)]
    blocks = [block for segment in own for block in segment["blocks"]]
    free = [block["address"] for block in blocks if block["state"] == "inactive"]
    assert free
    for place in (i, *((address - x.data_ptr()) // 4 for address in free)):
        text, _ = told(lambda place=place: kernels.element_at[(1,)](x, out, place, False))
        assert "where no memory is allocated" in text
    again = tritorch.full((128,), 5.0, device="cuda")
    kernels.element_at[(1,)](x, out, far_from(x, again), False)
    assert out.item() == 5


def test_what_is_masked_off_may_be_anywhere():
    x, out = zeros(1), zeros(1)
    for i in (1, 2**20, 2**40):
        kernels.element_at[(1,)](x, out, i, True)
    cuda.synchronize()


def test_a_graph_may_touch_what_was_freed_in_its_capture():
    x = tritorch.ones(100, device="cuda")
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = (x + 1) * (x + 2) - 3
    cuda.empty_cache()
    for _ in range(2):
        graph.replay()
        assert (y == 3).all()
