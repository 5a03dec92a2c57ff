"""What kernels report through the error flag, and when it is raised."""

import threading

import numpy as np
import pytest

pytest.importorskip("triton")
import triton
import triton.language as tl

import tritorch
from tritorch import _C
from tritorch.cuda import from_numpy
from tritorch.gpu import errors
from tritorch.kernels.errors import report
from tritorch.triton.kernel import wrap

pytestmark = pytest.mark.device


@triton.jit(do_not_specialize=["where"])
def look_up(x_ptr, index_ptr, y_ptr, n, size, flag_ptr, where, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    bad = (index < 0) | (index >= size)
    report(flag_ptr, where, index, bad)
    x = tl.load(x_ptr + index, mask=(at < n) & ~bad, other=0)
    tl.store(y_ptr + at, x, mask=at < n)


_look_up = wrap(look_up)
_MESSAGE = "index {value} is out of bounds for dimension {0} with size {1}"


def take(x, index):
    index = from_numpy(np.asarray(index, np.int64))
    y = _C.empty(index.shape, x.dtype, x.device_index)
    flag, where = errors.mark(x.device_index, "take", _MESSAGE, (0, x.shape[0]))
    n = index.numel()
    _look_up((-(-n // 16),), x, index, y, n, x.shape[0], flag, where, BLOCK=16)
    return y


@pytest.fixture
def x():
    return from_numpy(np.arange(5, dtype=np.float32))


def test_nothing_is_raised_for_good_indices(x):
    assert take(x, [4, 0, 2]).numpy().tolist() == [4, 0, 2]
    tritorch.cuda.synchronize()


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_names_operator_value_and_line(x, bad):
    y = take(x, [0, bad])
    line = take.__code__.co_firstlineno + 3  # where mark was called: outside the package
    with pytest.raises(IndexError) as error:
        y.numpy()
    text = str(error.value)
    assert f"take(): index {bad} is out of bounds for dimension 0 with size 5" in text
    assert f"{__file__}:{line}, in take" in text
    assert take(x, [1]).numpy().tolist() == [1]  # and the process goes on


def _synchronize(x):
    tritorch.cuda.synchronize()


def _stream(x):
    tritorch.cuda.current_stream().synchronize()


def _event(x):
    event = tritorch.cuda.Event()
    event.record()
    event.synchronize()


@pytest.mark.parametrize("wait", [_synchronize, _stream, _event])
def test_every_synchronisation_raises_once(x, wait):
    take(x, [9])
    with pytest.raises(IndexError, match="index 9"):
        wait(x)
    wait(x)


def test_the_first_of_several_launches(x):
    take(x, [1])
    take(x, list(range(40)))
    take(x, [77])
    with pytest.raises(IndexError, match="1 later launches") as error:
        tritorch.cuda.synchronize()
    assert "77" not in str(error.value)


def test_another_kind_of_error(x):
    index = from_numpy(np.array([8]))
    flag, where = errors.mark(0, "multinomial", "{value} is no probability", (), RuntimeError)
    _look_up((1,), x, index, x.clone(), 1, 5, flag, where, BLOCK=16)
    with pytest.raises(RuntimeError, match=r"multinomial\(\): 8 is no probability"):
        tritorch.cuda.synchronize()


def test_a_slot_used_again_does_not_name_a_wrong_line(x):
    index = from_numpy(np.array([8]))
    flag, where = errors.mark(0, "take", _MESSAGE, (0, 5))
    for _ in range(4096):
        errors.mark(0, "other")
    _look_up((1,), x, index, x.clone(), 1, 5, flag, where, BLOCK=16)
    with pytest.raises(IndexError, match=r"take\(\): bad value 8 \(in a launch whose line is no"):
        tritorch.cuda.synchronize()


def test_threads_take_different_slots():
    seen: list[int] = []

    def run():
        seen.extend(errors.mark(0, "threads")[1] for _ in range(500))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 2000
