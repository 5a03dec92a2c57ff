"""Translations of kernels for the simulated device are found again from another folder."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.simulated

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def fill(y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at + 1024 * 1024 * 1024, at)
"""

PROGRAM = """
import sys
import tritorch as torch
from triton.compiler import ASTSource

compiled = []
made = ASTSource.make_ir
ASTSource.make_ir = lambda *args: (compiled.append(1), made(*args))[1]
import filling

y = torch.empty(4, dtype=torch.int32, device="cuda")
try:
    filling.fill[(1,)](y, 4)
    torch.cuda.synchronize()
except RuntimeError as error:
    print(len(compiled), "|", error)
"""


def test_another_checkout_finds_what_one_kept(tmp_path):
    told = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "filling.py").write_text(KERNEL)
        (folder / "program.py").write_text(PROGRAM)
        environment = {
            **os.environ,
            "TRITORCH_SIMULATE_CUDA": "1",
            "TRITON_CACHE_DIR": str(tmp_path / "cache"),
        }
        run = subprocess.run(
            [sys.executable, str(folder / "program.py")],
            env=environment,
            capture_output=True,
            text=True,
        )
        told.append(run.stdout.split(" | ", 1))
        assert f"{folder}/filling.py" in run.stdout, run.stdout + run.stderr
    assert [compiled for compiled, _ in told] == ["1", "0"]
