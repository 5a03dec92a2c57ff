"""Workers that fail, die or hang, and loaders that are left: no hang, and nothing left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.data import datasets
from tests.data.datasets import Calls
from tests.data.test_loader import METHODS, ROOT, importable, lists, loader  # noqa: F401
from tests.patience import PATIENCE
from tritorch import cuda
from tritorch.utils.data import DataLoader
from tritorch.utils.data._utils import stall


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("function", "kind", "said"),
    [
        (datasets.value_error, ValueError, "ValueError: item seven"),
        (datasets.key_error, KeyError, "KeyError: 7"),
        (datasets.odd_error, RuntimeError, "Caught OddError"),
    ],
)
def test_an_exception_keeps_its_type_and_brings_its_traceback(method, function, kind, said):
    with pytest.raises(kind) as told:
        list(loader(Calls(function), method))
    where = "thread" if method == "thread" else "process"
    assert type(told.value) is kind
    assert f"in DataLoader worker {where} 1." in str(told.value)
    assert said in str(told.value) and f"in {function.__name__}" in str(told.value)


@pytest.mark.parametrize("method", METHODS)
def test_after_an_exception_the_next_batches_come(method):
    iterator, found = iter(loader(Calls(datasets.value_error), method)), []
    while True:
        try:
            found += lists([next(iterator)])
        except ValueError:
            found.append("error")
        except StopIteration:
            break
    assert found == [[0, 1], [2, 3], [4, 5], "error", *([i, i + 1] for i in range(8, 20, 2))]


@pytest.mark.parametrize("method", METHODS)
def test_an_exception_in_worker_init_fn(method):
    def fail(worker_id):
        raise ValueError(f"no worker {worker_id}")

    with pytest.raises(ValueError, match="ValueError: no worker 0"):
        list(loader(Calls(datasets.same), method, worker_init_fn=fail))


def test_what_cannot_be_pickled_is_told():
    with pytest.raises(AttributeError, match="Can't (get|pickle) local object"):
        list(loader(Calls(datasets.unpicklable), collate_fn=list))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (datasets.killed, r"worker 1 \(pid \d+\) is killed by signal: Killed \(as the system does"),
        (datasets.crashing, r"(?s)is killed by signal: Segmentation fault.* in crashing"),
        (datasets.exiting, r"worker 1 \(pid \d+\) exited with exit code 5"),
    ],
)
def test_a_worker_that_dies_is_named(function, said):
    iterator = iter(loader(Calls(function)))
    pattern = r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"
    with pytest.raises(RuntimeError, match=said) as told:
        list(iterator)
    assert told.match(pattern)
    with pytest.raises(RuntimeError, match=pattern):
        next(iterator)


def test_a_persistent_loader_starts_again_after_a_death(tmp_path):
    def die_once(i):
        if i == 3 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return i

    made = loader(Calls(die_once, 6), persistent_workers=True)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(made)
    assert lists(made) == [[0, 1], [2, 3], [4, 5]]


def stuck_at(made, timeout):
    """An iterator before the bad batch, and a timeout from then on: starting may take long."""
    iterator = iter(made)
    assert [next(iterator).tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    iterator._timeout = timeout
    return iterator


@pytest.mark.parametrize("method", METHODS)
def test_a_timeout_shows_where_the_worker_is(method, monkeypatch):
    monkeypatch.setattr("tritorch.utils.data._utils.pools._LAST_WISH", 0.1)
    iterator = stuck_at(loader(Calls(datasets.stuck_here), method), 1)
    monkeypatch.setattr(stall, "WARN_AFTER", 0.3)
    with (
        pytest.warns(RuntimeWarning, match=r"(?s)has waited.*worker 1 .*in stuck_here"),
        pytest.raises(RuntimeError, match=r"(?s)timed out after 1 seconds.*worker 1 .*stuck_here"),
    ):
        next(iterator)


def test_a_stopped_worker_is_told_as_such(monkeypatch):
    monkeypatch.setattr("tritorch.utils.data._utils.pools._LAST_WISH", 0.1)
    monkeypatch.setattr(stall, "_PATIENCE", 0.5)

    def stop(i):
        if i == datasets.BAD:
            os.kill(os.getpid(), signal.SIGSTOP)
        return i

    iterator = stuck_at(loader(Calls(stop)), 0.5)
    with pytest.raises(RuntimeError, match="gives no stack: the process is stopped"):
        next(iterator)


def test_cuda_in_forked_workers():
    cuda.init()
    cuda.synchronize()
    with pytest.raises(Exception, match="CUDA was used in the parent before this process was fork"):
        list(loader(Calls(datasets.cuda)))


@pytest.mark.usefixtures("importable")
def test_cuda_tensors_from_workers():
    load = loader(Calls(datasets.cuda_tensor), "spawn", num_workers=1, collate_fn=list)
    batch = next(iter(load))
    assert all(x.is_cuda and x.tolist() == [1, 1] for x in batch)


SHARED = Path("/dev/shm")

# ---- programs that end ---------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys, time
from tests.data import datasets
from tests.data.datasets import Calls
from tritorch.utils.data import DataLoader

def main():
    loader = DataLoader(
        Calls({function}, 1000), batch_size=2, num_workers=2, **{options}
    )
    print(os.getpid(), flush=True)
    iterator = iter(loader)
    for batch in iterator:
        pids = [w.process.pid for w in iterator._pool.workers if hasattr(w, "process")]
        print("workers", *pids, flush=True)
        {then}

if __name__ == "__main__":
    main()
"""


def start(tmp_path, then, function="datasets.images", **options):
    script = tmp_path / "program.py"
    code = PROGRAM.format(function=function, options=options, then=then)
    script.write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}, cwd=tmp_path,
        start_new_session=True,
    )  # fmt: skip


def workers_of(program):
    while not (line := program.stdout.readline()).startswith("workers"):
        assert line, program.stderr.read()
    return [int(pid) for pid in line.split()[1:]]


def end(program, workers, code):
    try:
        _, errors = program.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)  # nothing of it stays
        raise
    assert program.returncode == code, errors
    until = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until, f"workers {workers} stay"
        time.sleep(0.05)
    named = [p for pid in (program.pid, *workers) for p in SHARED.glob(f"*{pid}*")]
    assert not named
    return errors


CONTEXTS = [{}, {"multiprocessing_context": "thread"}, {"persistent_workers": True}]


@pytest.mark.parametrize("options", CONTEXTS)
@pytest.mark.parametrize(
    ("then", "code", "said"),
    [
        ("return", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("raise ValueError('of the program')", 1, "ValueError: of the program"),
        ("globals().update(kept=(iterator, batch)); return", 0, ""),
    ],
)
def test_a_program_that_leaves_a_loader_ends(tmp_path, options, then, code, said):
    program = start(tmp_path, then, **options)
    errors = end(program, workers_of(program), code)
    assert said in errors and (said or not errors)


@pytest.mark.parametrize("options", CONTEXTS[:2])
@pytest.mark.parametrize("function", ["datasets.images", "datasets.stuck_here"])
def test_ctrl_c(tmp_path, options, function):
    program = start(tmp_path, "time.sleep(0.01)", function, **options)
    workers = workers_of(program)
    time.sleep(0.3)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does: to the workers too
    errors = end(program, workers, -signal.SIGINT)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")


def test_a_program_that_is_killed_takes_its_workers_along(tmp_path):
    program = start(tmp_path, "time.sleep(0.01)")
    workers = workers_of(program)
    program.kill()
    end(program, workers, -signal.SIGKILL)


def test_an_iterator_that_is_dropped_ends_its_workers():
    iterator = iter(loader(Calls(datasets.same)))
    processes = [worker.process for worker in iterator._pool.workers]
    next(iterator)
    del iterator
    assert [p.exitcode for p in processes] == [0, 0]


def test_a_persistent_loader_that_is_dropped_ends_its_workers():
    made = loader(Calls(datasets.same), persistent_workers=True)
    next(iter(made))
    processes = [worker.process for worker in made._iterator._pool.workers]
    del made
    assert [p.exitcode for p in processes] == [0, 0]


def test_a_loader_in_a_thread_and_another_in_its_loop():
    outer = DataLoader(Calls(datasets.same, 3), num_workers=1)
    found = [[x.item(), lists(loader(Calls(datasets.same, 4)))] for x in outer]
    assert found == [[i, [[0, 1], [2, 3]]] for i in range(3)]
