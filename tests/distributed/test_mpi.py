"""The backend mpi, where mpi4py and an mpiexec are; and that nobody imports it who does not ask."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.distributed.processes import HERE, LIMIT

MPIEXEC = shutil.which("mpiexec")
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpi4py and mpiexec",
)


def mpiexec(size, program, *arguments):
    told = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True).stdout
    more = ["--oversubscribe", "--allow-run-as-root"] if "Open" in told else []
    return subprocess.run(
        [MPIEXEC, *more, "-n", str(size), sys.executable, str(HERE / program), *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), *sys.path])},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT,
    )  # fmt: skip


def test_it_is_not_imported_unless_it_is_asked_for():
    program = (
        "import sys, tritorch.distributed as dist; dist.init_process_group(); dist.barrier(); "
        "dist.is_mpi_available(); "
        "print([name for name in sys.modules if 'mpi4py' in name or name.endswith('.mpi')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@needs_mpi
@pytest.mark.parametrize("size", [1, 2, 4])
def test_collectives(size):
    done = mpiexec(size, "collectives_program.py", "exact", "mpi")
    assert done.returncode == 0, done.stdout


@needs_mpi
def test_a_mismatch_and_a_rank_that_does_not_come():
    for fault in ("operations", "absent"):
        done = mpiexec(2, "faults_program.py", fault, "mpi")
        assert re.search(r"rank 1: (at|last called) \w+ #\d", done.stdout), done.stdout
        assert "faults_program.py:" in done.stdout
