"""What of the GPU's functions the host computes, and why: nothing else may."""

import ast
import pathlib

import numpy as np
import pytest

import tritorch as torch
import tritorch.gpu
from tritorch.gpu import by_host
from tritorch.gpu.pointwise.complex import computes
from tritorch.ops.record.backends import resolve
from tritorch.ops.record.operator import OPERATORS
from tritorch.ops.record.pointwise import Pointwise

CHAIN = "by nature: Hessenberg's QR is a chain of small steps"
ANSWER = "by nature: the host asked for the answer"
TABLE = "once for each size: kept, and read by graphs"

# Backend functions that are the host's.
ON_HOST = {
    "linalg.eig": CHAIN,
    "linalg.eigvals": CHAIN,
    "loss.nll": "by nature: nll_loss takes it for the CPU's rows alone",
}

# Functions of tritorch/gpu that send something to the host or get it from there by themselves.
CROSSING = {
    "arrays.copy_": "by nature: the source is there",
    "arrays._array": ANSWER,
    "arrays._dlpack": ANSWER,
    "arrays._repr": ANSWER,
    "by_host._to_host": "what this file is about",
    "by_host._to_device": "what this file is about",
    "fft._table": TABLE,
    "indexing._total": "by nature: a result's size depends on values",
    "sorting.bincount": "by nature: a result's size depends on values",
    "linalg._is_full": "by nature: a result's size depends on values",
    "resample._table": TABLE,
    "spectra._finite": "by nature: PyTorch raises an error for values; not in a graph",
    "spectra._has_met": "by nature: whether another sweep is needed; not in a graph",
}


def test_backend_functions_of_the_host_are_known():
    paths = {op._gpu for op in OPERATORS.values() if isinstance(op._gpu, str) and "." in op._gpu}
    whole = {path for path in paths if "through_host" in resolve("gpu", path).__qualname__}
    assert whole == set(ON_HOST)
    assert not list(calls("through_host"))
    assert all(reason.startswith("by nature") for reason in ON_HOST.values())


def test_complex_elements_have_kernels():
    """Of every pointwise record that takes complex numbers."""
    records = [op for op in OPERATORS.values() if isinstance(op, Pointwise)]
    taken = [op for op in records if 3 not in op.without]
    missing = {op.name for op in taken if not computes(op.gpu_name, len(op.inputs))}
    assert len(taken) > 50 and not missing


def calls(*names):
    """(the first argument if that is a text, "file.function") of calls in tritorch/gpu."""
    for path in sorted(pathlib.Path(tritorch.gpu.__path__[0]).rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for call in ast.walk(function):
                if not isinstance(call, ast.Call):
                    continue
                name = getattr(call.func, "id", getattr(call.func, "attr", ""))
                text = getattr(call.args[0], "value", "") if call.args else ""
                if name in names:
                    yield str(text), f"{path.stem}.{function.name}"


def test_what_crosses_by_itself_is_known():
    assert {place for _, place in calls("from_numpy", "numpy")} == set(CROSSING)


@pytest.mark.device
def test_what_has_no_answer_is_captured():
    """Draws, tables that a graph reads, places in triangles."""
    x = torch.rand(1, 2, 6, 6, device="cuda")

    def run(x):
        resized = torch.nn.functional.interpolate(x, (9, 4), mode="bicubic", antialias=True)
        return [resized, torch.randperm(9, device="cuda"), x[0, 0].multinomial(3),
                x[0, 1].multinomial(9, True), torch.randint(2**40, (5,), device="cuda"),
                torch.tril_indices(4, 5, 1, device="cuda")]  # fmt: skip

    torch.manual_seed(1)
    want = run(x)
    torch.manual_seed(1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(x)
    graph.replay()
    assert all(a.equal(b) for a, b in zip(found, want))


@pytest.mark.device
def test_what_went_through_the_host_is_noted():
    by_host.via_host.clear()
    x = torch.tensor(np.diag([1.0, 2.0])).cuda()
    torch.linalg.eigvals(x)
    torch.linalg.inv(x.to(torch.complex128))
    assert by_host.via_host == {"linalg.eigvals"}
