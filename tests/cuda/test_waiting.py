"""Launches that wait for their kernels: in which order all happens, and who compiles."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tritorch as torch
from tritorch import _C
from tritorch.triton import compilers
from tritorch.triton.trace import DISCARDING

pytestmark = pytest.mark.skipif(not _C.simulation_requested(), reason="wants the simulated device")
IN_PROCESS = """
import json, sys
import tritorch as torch
from tritorch import _C
from tritorch.triton import cache, compilers, trace
trace.pretend(90)
trace.take_stored()
{body}
print(json.dumps([waited, len(cache.used), len(compilers.pool.processes), "triton" in sys.modules]))
"""
SEVERAL = """
x = torch.ones(4096, device="cuda")
y = (x * 2).tanh() + x.sum()
p = torch.nn.Parameter(y)
p.grad = x
torch.optim.AdamW([p], fused=True).step()  # by a formula that no module has as an attribute
waited = _C.launches_wait()
torch.cuda.synchronize()
assert not _C.launches_wait()
"""


# No launch waits in a process in which somebody took a tensor's address: other tests do.
ALONE = "TRITORCH_TEST_WAITING"


@pytest.fixture
def waiting(monkeypatch):
    """The first launch of each kernel waits, as does all that follows it."""
    if ALONE not in os.environ:
        pytest.skip("runs in a process of its own (test_in_order_in_a_process)")
    monkeypatch.setattr(compilers, "always", True)
    yield
    _C.start_what_waits()


def fresh(body, folder, **environment):
    """What a process of its own reports; its kernels are compiled for sm_90, and not run."""
    places = {"TRITORCH_CACHE_DIR": f"{folder}/ours", "TRITON_CACHE_DIR": f"{folder}/triton"}
    environment = {**os.environ, "TRITORCH_SIMULATE_CUDA": DISCARDING, **places, **environment}
    code = IN_PROCESS.format(body=body)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def program():
    """Launches, fills and copies, of which each reads what the one before has written."""
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    y = x.clone()  # a copy
    y.add_(1)
    z = torch.zeros(1000, device="cuda")  # a fill
    z.add_(y)
    z.fill_(3)
    w = z * y
    z.zero_()
    small = torch.tensor([5.0, 7.0]).to("cuda")
    z[:2].copy_(small * 2)
    return w, z, (w + z).sum()


def test_in_order_in_a_process(repository):
    """Those tests of this file that take `waiting`."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-k",
         "what_waits or streams_and_events", "tests/cuda/test_waiting.py"],
        env={**os.environ, ALONE: "1"}, cwd=repository, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout


def test_what_waits_happens_in_order(waiting):
    w, z, total = program()
    assert _C.launches_wait()
    expected = 3 * np.arange(1, 1001, dtype=np.float32)
    np.testing.assert_array_equal(w.cpu().numpy(), expected)
    assert not _C.launches_wait()
    assert z[:3].tolist() == [10, 14, 0]
    assert total.item() == expected.sum() + 24


def test_other_streams_and_events(waiting):
    side, event = torch.cuda.Stream(), torch.cuda.Event()
    x = torch.full((5000,), 2.0, device="cuda").cos()
    event.record()
    with torch.cuda.stream(side):
        side.wait_event(event)
        y = x.erfinv()
        y.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
    z = y.lgamma()
    torch.testing.assert_close(x.cpu(), torch.full((5000,), 2.0).cos())
    torch.testing.assert_close(y.cpu(), x.cpu().erfinv())
    torch.testing.assert_close(z.cpu(), y.cpu().lgamma())


def test_what_waits_keeps_its_arguments(waiting):
    total = torch.zeros(3000, device="cuda")
    for i in range(300):  # more than wait at a time, each in memory that the last one let go of
        total += torch.full((3000,), float(i), device="cuda").log1p()
    torch.testing.assert_close(total.cpu()[0], torch.arange(300.0).log1p().sum())


def test_an_error_is_raised_where_what_waits_is_started(waiting, monkeypatch):
    from tritorch.triton import kernel

    def fails(*args):
        raise ValueError("no compiler")

    x = torch.ones(77, device="cuda")
    torch.cuda.synchronize()
    with monkeypatch.context() as m:
        m.setattr(kernel, "_run", fails)
        y = x.sinh().acosh()
        assert _C.launches_wait()
        with pytest.raises(ValueError, match="no compiler"):
            torch.cuda.synchronize()
    assert not _C.launches_wait()
    del y
    torch.testing.assert_close(x.sinh().cpu(), torch.ones(77).sinh())


@pytest.mark.slow
def test_processes_compile_side_by_side(tmp_path):
    waited, kernels, processes, _ = fresh(SEVERAL, tmp_path, TRITORCH_COMPILERS="2")
    assert waited and kernels >= 3 and processes == 2
    # A later process finds them: nothing waits, nothing is compiled, Triton is not even imported.
    assert fresh(SEVERAL, tmp_path, TRITORCH_COMPILERS="2") == [False, kernels, 0, False]


@pytest.mark.slow
def test_who_knows_where_memory_is_waits_for_each_kernel(tmp_path):
    known = "torch.ones(1, device='cuda').data_ptr()\n"
    waited, _, processes, _ = fresh(known + SEVERAL, tmp_path, TRITORCH_COMPILERS="2")
    assert not waited and not processes
