"""What of the GPU's functions the host computes, and why: nothing else may."""

import ast
import pathlib

import numpy as np
import pytest

import tritorch as torch
import tritorch.gpu
from tritorch.gpu import by_host
from tritorch.ops.record.backends import resolve
from tritorch.ops.record.operator import OPERATORS

NOT_YET = "not yet"
CHAIN = "by nature: Hessenberg's QR is a chain of small steps"
ANSWER = "by nature: the host asked for the answer"
COMPLEX = "not yet: complex matrices have no kernels"
LARGE = "not yet: matrices of more than 128 columns, complex ones; empty ones"

# Backend functions that are the host's, as a whole or for some inputs.
ON_HOST = {
    "linalg.eig": CHAIN,
    "linalg.eigvals": CHAIN,
    "linalg.cofactor": NOT_YET,
    "triangular.ldl_factor": NOT_YET,
    "triangular.ldl_solve": NOT_YET,
    "linalg.lstsq": "not yet: complex matrices, drivers that PyTorch's GPU lacks",
    **dict.fromkeys(("linalg.eigh", "linalg.eigvalsh", "linalg.svd", "linalg.svdvals"), LARGE),
    **dict.fromkeys(
        (f"{name} (complex)" for name in (
            "linalg.geqrf", "linalg.qr", "linalg.solve_ex", "linalg.inv_ex", "linalg.det",
            "linalg.slogdet", "linalg.cholesky_ex", "triangular.inverse", "triangular.lu_factor",
        )), COMPLEX),
}  # fmt: skip

# Functions of tritorch/gpu that send something to the host or get it from there by themselves.
CROSSING = {
    "arrays.copy_": "by nature: the source is there",
    "arrays._array": ANSWER,
    "arrays._dlpack": ANSWER,
    "arrays._repr": ANSWER,
    "by_host._to_host": "what this file is about",
    "by_host._to_device": "what this file is about",
    "fft._table": "once for each length",
    "indexing._total": "by nature: a result's size depends on values",
    "sorting.bincount": "by nature: a result's size depends on values",
    "linalg._finite": "by nature: PyTorch raises an error for values",
    "random.randint": "not yet: spans of more than 2^32",
    "random.randperm": NOT_YET,
    "random.multinomial": NOT_YET,
    "resample.resample": "not yet: its table of weights",
}


def test_backend_functions_of_the_host_are_known():
    paths = {op._gpu for op in OPERATORS.values() if isinstance(op._gpu, str) and "." in op._gpu}
    whole = {path for path in paths if "through_host" in resolve("gpu", path).__qualname__}
    partly = {call for call, _ in calls("through_host") if "." in call}
    assert whole | partly == set(ON_HOST)
    assert all(reason.startswith(("not yet", "by nature")) for reason in ON_HOST.values())


def calls(*names):
    """(the first argument if that is a text, "file.function") of calls in tritorch/gpu."""
    for path in sorted(pathlib.Path(tritorch.gpu.__path__[0]).glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            decorators = [each for each in function.decorator_list if isinstance(each, ast.Call)]
            for call in ast.walk(function):
                if not isinstance(call, ast.Call):
                    continue
                name = getattr(call.func, "id", getattr(call.func, "attr", ""))
                text = getattr(call.args[0], "value", "") if call.args else ""
                if name in names:
                    yield str(text), f"{path.stem}.{function.name}"
                elif name == "of_reals" and call in decorators and "through_host" in names:
                    yield f"{text} (complex)", f"{path.stem}.{function.name}"


def test_what_crosses_by_itself_is_known():
    assert {place for _, place in calls("from_numpy", "numpy")} == set(CROSSING)


@pytest.mark.device
def test_what_went_through_the_host_is_noted():
    by_host.via_host.clear()
    x = torch.tensor(np.diag([1.0, 2.0])).cuda()
    torch.linalg.eigvals(x)
    torch.linalg.inv(x.to(torch.complex128))
    assert by_host.via_host == {"linalg.eigvals", "linalg.inv_ex (complex)"}
