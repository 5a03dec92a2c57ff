"""tools/gpu_smoke.py on the simulated device, and how the tests end a worker that lost its GPU."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.simulated
STAGES = [
    "driver", "expandable_segments", "plain_segments", "copies", "stored_add", "compiled_add",
    "shared_memory", "copy_engine", "matmul", "attention", "events", "graphs", "built_graphs",
    "bad_index", "illegal_address", "rates",
]  # fmt: skip


def smoke(repository, *arguments):
    command = [sys.executable, repository / "tools/gpu_smoke.py", *arguments]
    environment = os.environ | {"TRITORCH_SIMULATE_CUDA": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_smoke(repository, tmp_path):
    lines = tmp_path / "smoke.jsonl"
    status, results = smoke(repository, "--limit", "300", "--total", "1000", "--json", lines)
    assert [result["stage"] for result in results] == STAGES
    assert not [result for result in results if not result["passed"]]
    assert status == 0 and [json.loads(line) for line in lines.read_text().splitlines()] == results


def test_smoke_names_what_it_had_no_time_for(repository):
    status, results = smoke(repository, "--total", "0")
    assert status == 1 and [result["stage"] for result in results] == STAGES
    assert all(result["error"] == "no time was left for it" for result in results)


def test_a_stage_that_hangs_is_ended(repository):
    status, (result,) = smoke(repository, "--only", "driver", "--limit", "0.05")
    assert status == 1 and not result["passed"] and "did not end within" in result["error"]


SUITE = """
import pytest
from tritorch import _C

broken = []

def synchronize(device):
    if broken:
        raise _C.CudaError("CUDA_ERROR_ILLEGAL_ADDRESS (700) in a test")

_C.driver_loaded, _C.synchronize = lambda: True, synchronize

@pytest.mark.parametrize("i", range(6))
def test(i):
    if i == 2:
        broken.append(i)
"""


@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_lost_device_ends_its_worker_only(workers, repository, tmp_path):
    """tests/conftest.py as on a GPU, with a device that fails from one test on."""
    (tmp_path / "conftest.py").write_text((repository / "tests/conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(SUITE)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"-n{workers}"]
    done = subprocess.run(
        [*command, "test_it.py"], cwd=tmp_path, capture_output=True, text=True,
        env=environment | {"TRITORCH_TEST_DEVICE": "cuda"},
    )  # fmt: skip
    seen = done.stdout + done.stderr
    assert "the device is lost after test_it.py::test[2]: CUDA_ERROR_ILLEGAL_ADDRESS" in seen
    if workers:
        assert "worker 'gw0' crashed" in seen and "1 failed" in seen
    else:
        assert done.returncode == 3 and "3 passed" in seen
