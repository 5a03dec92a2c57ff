"""What a program finds where PyTorch has a name and tritorch lacks it."""

import ast
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tritorch
from tritorch import _names

# Names of PyTorch that tritorch is not about to have.
PROGRAM = """
import contextlib
import importlib
import importlib.util
import typing
import pytest
import torch
import torch.ao.quantization.fx as quantization_fx
import torch.onnx as onnx
from torch.ao.quantization import QConfig
from torch.nn import functional, quantized
from torch.onnx import ExportOptions, export
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.adam import Adam
from torch import LiteScriptModule

def lacks(path, error=NotImplementedError):
    return pytest.raises(error, match=f"^tritorch has no {path} yet$")

# Used, a name is an error that says it.
for use in (
    lambda: export(1), lambda: list(export), lambda: export.help, lambda: export + 1,
    lambda: 2 @ export, lambda: -export, lambda: bool(export), lambda: export < 1,
    lambda: export[0], lambda: len(export), lambda: 1 in export, lambda: float(export),
    lambda: torch.tensor(export),
    lambda: type("Sub", (), {}) and exec("class A(export): pass\\nA()"),
    lambda: onnx.export(1), lambda: torch.onnx.export(2),
):
    with lacks("torch.onnx.export"):
        use()
with lacks("torch.onnx.export"):
    with export:
        pass
with lacks("torch.LiteScriptModule"):
    LiteScriptModule()
with lacks("torch.ao.quantization.fx.fuse"):
    quantization_fx.fuse()
with lacks("torch.nn.quantized.Linear"):
    quantized.Linear(1, 2)

# What asks for no more than its identity works.
def typed(a: onnx.ExportOptions | None, b: typing.Optional[ExportOptions], c: int | QConfig): ...
assert typing.get_type_hints(typed)["b"] == typing.Optional[ExportOptions]
assert not isinstance(3, LiteScriptModule) and not isinstance(3, (str, torch.StaticModule))
assert not issubclass(int, LiteScriptModule)
assert torch.float32 not in (torch.ArgumentSpec, torch.CompleteArgumentSpec)
assert "torch.onnx.export, which tritorch does not have yet" in repr(export)

# Asked for, it is not there.
assert not hasattr(torch, "LiteScriptModule") and getattr(torch, "LiteScriptModule", None) is None
assert not hasattr(onnx, "export") and hasattr(torch, "compile")
assert importlib.util.find_spec("torch.fx") is None and importlib.util.find_spec("torch.nn")
with lacks("torch.LiteScriptModule", AttributeError):
    getattr(torch, "LiteScriptModule")

try:
    import torch.export
    found = True
except ImportError as error:
    found = str(error)
assert found == "tritorch has no torch.export yet", found
try:
    from torch.onnx import (
        export as again,
    )
except (OSError, ImportError):
    again = None
assert again is None
try:
    from torch import ExecutionPlan
except Exception:
    ExecutionPlan = None
assert ExecutionPlan is None
try:
    bits = torch.parse_ir
except AttributeError:
    bits = 16
assert bits == 16
with contextlib.suppress(ImportError):
    from torch.onnx import symbolic_helper
    assert False
try:
    importlib.import_module("torch.fx")
    assert False
except ModuleNotFoundError:
    pass
try:
    def later():
        from torch.fx import symbolic_trace
        return symbolic_trace
    traced = later()  # a handler around a call is not the import's
except ImportError:
    assert False
try:
    from torch.nn.modules.padding import ConstantPad2d, ZeroPad2d
except ImportError:
    assert False
try:
    pass
except ImportError:
    from torch import StaticModule  # not inside of the try
finally:
    from torch import StaticModule

# What PyTorch shares between its files is found where tritorch has it; what it lacks too, fails.
assert Adam is torch.optim.Adam and issubclass(torch.nn.BatchNorm1d, _BatchNorm)
for wrong in ("from torch.nn import Linaer", "import torch.opitm", "torch.zeroes", "onnx.x.y"):
    with pytest.raises((ImportError, AttributeError)) as told:
        exec(wrong)
    assert wrong == "onnx.x.y" or "tritorch has no" not in str(told.value), told.value
print("done")
"""


def run(program, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    return subprocess.run(
        [sys.executable, "-m", "tritorch", "run", str(script)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip


def test_names_that_tritorch_lacks(tmp_path):
    done = run(PROGRAM, tmp_path)
    assert done.stdout == "done\n", done.stderr


def test_many_names(tmp_path):
    """A name's number may need more than a byte in the program's code."""
    names = "\n".join(f"name_{i} = 1" for i in range(300))
    absent = "LiteScriptModule"
    done = run(f"import torch\n{names}\nfrom torch import {absent}\nprint({absent})", tmp_path)
    assert done.stdout == f"<torch.{absent}, which tritorch does not have yet>\n", done.stderr


def test_tritorch_itself_says_what_pytorch_has():
    with pytest.raises(AttributeError, match="PyTorch has torch.LiteScriptModule, tritorch does n"):
        tritorch.LiteScriptModule  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'tritorch.nn' has no attribute 'Linaer'$"):
        tritorch.nn.Linaer  # noqa: B018
    assert not hasattr(tritorch, "LiteScriptModule")


def test_the_recorded_names():
    assert _names.has_name("", "add") and _names.has_name("nn", "Linear")
    assert _names.has_name("nn.modules.batchnorm", "_BatchNorm") and _names.has_name("", "nn")
    assert _names.has_module("onnx.anything") and not _names.has_module("nn.anything")
    assert not _names.has_name("nn", "Linaer") and not _names.has_name("core", "arrays")


def test_tritorch_imports_only_what_there_is():
    """Under as_torch() a misspelt import would give a placeholder in tritorch itself too."""
    folder = Path(importlib.util.find_spec("tritorch.version").origin).resolve().parent
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tritorch"):
                path = node.module.removeprefix("tritorch").removeprefix(".")
                for alias in node.names:
                    if _names.has_name(path, alias.name):
                        try:
                            module = importlib.import_module(node.module)
                            if not hasattr(module, alias.name):
                                importlib.import_module(f"{node.module}.{alias.name}")
                        except ImportError:
                            pytest.fail(f"{file}: {node.module}.{alias.name}")
