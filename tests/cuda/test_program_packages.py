"""Packages of programs for GPUs: with the kernels that they launch, Triton is not needed."""

import os
import subprocess
import sys
import textwrap

import pytest

import tritorch as torch
from tritorch import _C
from tritorch.triton.trace import DISCARDING

PROGRAM = """
    import torch
    from torch import nn
    from torch.export import Dim

    def program():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32))
        return model, (torch.randn(2, 16),), None, {"input": {0: Dim("batch", max=64)}}
"""

# Triton is not installed, as far as Python knows; what the simulated device launches is stored
# machine code, which computes nothing.
RUN = """
    import sys

    class WithoutTriton:
        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "triton":
                return None
            return self.finder.find_spec(name, path, target)

    sys.meta_path[:] = map(WithoutTriton, sys.meta_path)
    import tritorch as torch
    from tritorch.triton import trace

    trace.pretend(90)
    trace.take_stored()
    model = torch.load_package(sys.argv[1])
    for n in 1, 2, 3, 16:
        out = model(torch.zeros(n, 16).cuda())
        assert out.device.type == "cuda" and out.shape == (n, 32)
    assert "triton" not in sys.modules
    print("ran on", model.device)
"""


def python(*arguments, folder, **environment):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, check=False, capture_output=True, text=True,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_gpu_s_package_brings_its_kernels(tmp_path):
    (tmp_path / "given.py").write_text(textwrap.dedent(PROGRAM))
    said = python(
        "-m", "tritorch", "precompile", "--plan", "given.py:program", "--target", "cpu",
        "--target", "sm_90", "--pack", "model.pt2",
        folder=tmp_path, TRITORCH_CACHE_DIR=str(tmp_path / "made"),
    )  # fmt: skip
    assert "kernels compiled" in said and "4 plans packaged in model.pt2" in said
    (tmp_path / "given.py").unlink()
    empty = {"TRITORCH_CACHE_DIR": str(tmp_path / "none"), "TRITORCH_KERNEL_PACK": ""}
    said = python(
        "-c", textwrap.dedent(RUN), "model.pt2", folder=tmp_path,
        TRITORCH_SIMULATE_CUDA=DISCARDING, **empty,
    )  # fmt: skip
    assert said == "ran on cuda:0\n"
    on_cpu = 'import tritorch as t; print(t.load_package("model.pt2", device="cpu").device)'
    assert python("-c", on_cpu, folder=tmp_path, **empty) == "cpu\n"


@pytest.mark.skipif(not _C.device_count(), reason="needs a GPU, real or simulated")
def test_values_on_the_gpu_are_those_of_the_module(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32))
    model.cuda()
    shapes = {"input": {0: torch.export.Dim("batch", max=64)}}
    program = torch.export.export(model, (torch.randn(2, 16).cuda(),), dynamic_shapes=shapes)
    torch.save_package(program, tmp_path / "model.pt2")
    found = torch.load_package(tmp_path / "model.pt2")
    for n in 1, 2, 5:
        x = torch.randn(n, 16).cuda()
        torch.testing.assert_close(found(x), model(x).detach())
    with pytest.raises(ValueError, match="is on cpu: the package is on cuda:0"):
        found(torch.randn(2, 16))
