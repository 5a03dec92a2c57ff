"""Starting processes that run one function, and how their failures are told."""

import pickle
import sys

import pytest

import tritorch
from tests.multiprocessing import children
from tests.multiprocessing.test_sharing import ROOT
from tritorch import multiprocessing as mp


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_all_run(method):
    x = tritorch.zeros(2).share_memory_()
    assert mp.start_processes(children.fill, (x,), nprocs=2, start_method=method) is None
    assert x.tolist() == [1, 2]


def test_spawn():
    x = tritorch.zeros(1).share_memory_()
    mp.spawn(children.fill, args=(x,))
    assert x.item() == 1
    with pytest.warns(FutureWarning, match="got: fork"):
        mp.spawn(children.fill, args=(x,), start_method="fork")


def test_an_exception():
    with pytest.raises(mp.ProcessRaisedException) as told:
        mp.start_processes(children.raise_error, nprocs=2, start_method="fork")
    error = told.value
    assert f"-- Process {error.error_index} terminated with the following error:" in str(error)
    assert f"ValueError: process {error.error_index}" in error.msg
    assert error.error_pid > 0 and isinstance(error, Exception)


def test_a_signal():
    with pytest.raises(
        mp.ProcessExitedException, match="process 1 terminated with signal SIGKILL"
    ) as told:
        mp.start_processes(children.die_or_sleep, nprocs=2, start_method="fork")
    error = pickle.loads(pickle.dumps(told.value))
    assert (error.error_index, error.exit_code, error.signal_name) == (1, -9, "SIGKILL")


def test_an_exit_code():
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 3"):
        mp.start_processes(children.exit_with, (3,), start_method="fork")


def test_an_interrupt_is_the_parent_s_to_tell():
    assert mp.start_processes(children.interrupted, nprocs=2, start_method="fork") is None


def test_waiting_oneself():
    x = tritorch.zeros(2).share_memory_()
    started = mp.start_processes(children.fill, (x,), 2, join=False, start_method="fork")
    assert len(started.pids()) == 2
    while not started.join(timeout=10):
        pass
    assert started.join() and x.tolist() == [1, 2]
