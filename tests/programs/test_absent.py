"""What a program finds where PyTorch has a name and tritorch lacks it."""

import ast
import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tritorch
from tritorch.compat import names as _names

# Names of PyTorch that tritorch is not about to have.
PROGRAM = """
import contextlib
import importlib
import importlib.util
import typing
import pytest
import torch
import torch.distributed.rpc as remote
import torch.onnx as onnx
from torch.ao.quantization import QConfig
from torch.nn import functional
from torch.distributed import fsdp
from torch.onnx import ONNXProgram, export
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.adam import Adam
from torch import _cslt_compress

def lacks(path, error=NotImplementedError):
    return pytest.raises(error, match=f"^tritorch has no {path} yet$")

# Used, a name is an error that says it.
for use in (
    lambda: export(1), lambda: list(export), lambda: export.help, lambda: export + 1,
    lambda: 2 @ export, lambda: -export, lambda: bool(export), lambda: export < 1,
    lambda: export[0], lambda: len(export), lambda: 1 in export, lambda: float(export),
    lambda: torch.tensor(export), lambda: export.register(1),
    lambda: onnx.export(1), lambda: torch.onnx.export(2),
):
    with lacks("torch.onnx.export"):
        use()
with lacks("torch.onnx.export"):
    with export:
        pass
with lacks("torch._cslt_compress"):
    _cslt_compress()
with lacks("torch.distributed.rpc.api.rpc_sync"):
    remote.api.rpc_sync()
import torch._inductor.ir
class Tracer(torch._inductor.ir.IRNode, typing.Generic[typing.TypeVar("T")], wide=True): ...
class Further(Tracer, torch.nn.Module): ...
with pytest.raises(NotImplementedError, match="no torch._inductor.ir.IRNode yet: Further derives"):
    Further()
with lacks("torch.distributed.fsdp.FullyShardedDataParallel"):
    fsdp.FullyShardedDataParallel(1, 2)

# What asks for no more than its identity works.
def typed(a: onnx.ONNXProgram | None, b: typing.Optional[ONNXProgram], c: int | QConfig): ...
assert typing.get_type_hints(typed)["b"] == typing.Optional[ONNXProgram]
assert not isinstance(3, _cslt_compress)
assert not isinstance(3, (str, torch._TorchCompileAOTInductorWrapper))
assert not issubclass(int, _cslt_compress)
assert torch.float32 not in (torch._TorchCompileWrapper, torch.onnx.ONNXProgram)
assert "torch.onnx.export, which tritorch does not have yet" in repr(export)

# Who asks finds it, as in PyTorch, where it is; whether it works is another question.
assert hasattr(torch, "_cslt_compress") and getattr(onnx, "export", None) is export
assert importlib.util.find_spec("torch.export") and importlib.import_module("torch.export").Dim
assert not hasattr(torch, "_TorchCompileInductorWrappe")
assert importlib.util.find_spec("torch.exports") is None
try:
    import torch.distributed.fsdp
    from torch.distributed.fsdp import fully_shard, FSDPModule as Sharded
except ImportError:
    assert False
class Model(Sharded, torch.nn.Module): ...
assert issubclass(Model, Sharded) and issubclass(Model, torch.nn.Module)
assert not isinstance(torch.nn.ReLU(), Sharded) and not issubclass(torch.nn.ReLU, Sharded)
with lacks("torch.distributed.fsdp.fully_shard"):
    fully_shard(torch.nn.ReLU())
assert torch.distributed.ProcessGroup is torch.distributed.distributed_c10d.ProcessGroup

# Exceptions can be caught, and are never raised; members of a class are defaults of arguments.
try:
    raise ValueError("mine")
except torch.distributed.DistStoreError:
    assert False
except (torch.onnx.OnnxExporterError, ValueError) as error:
    assert str(error) == "mine"
def reduce(
    x, op=torch.distributed.fsdp.ShardingStrategy.FULL_SHARD,
    group: "torch.distributed.ProcessGroup" = None
): ...
assert "ShardingStrategy.FULL_SHARD" in repr(reduce.__defaults__[0])

# What asks for what is not there is told so; what PyTorch counts has its number.
import torch.distributed.rpc, torch.onnx._flags
assert torch._C._mps_is_available() is False and torch.distributed.rpc.is_available() is False
assert torch.onnx.producer_name == "pytorch"

# A decorator leaves a function that is an error when it is called; what makes one does, too.
@torch.onnx.symbolic_helper.quantized_args
def symbolic(g): ...
with pytest.raises(NotImplementedError, match="quantized_args yet: symbolic is decorated by it"):
    symbolic(1)
import module_with_decorators as package  # beside this script
with pytest.raises(NotImplementedError, match="no torch.onnx.symbolic_helper.parse_args yet: relu"):
    package.relu(1)
with lacks("torch.distributed.fsdp.CPUOffload"):
    package.place()

# What PyTorch shares between its files is found where tritorch has it; what it lacks too, fails.
assert Adam is torch.optim.Adam and issubclass(torch.nn.BatchNorm1d, _BatchNorm)
for wrong in ("from torch.nn import Linaer", "import torch.opitm", "torch.zeroes", "onnx.x.y"):
    with pytest.raises((ImportError, AttributeError)) as told:
        exec(wrong)
    assert wrong == "onnx.x.y" or "tritorch has no" not in str(told.value), told.value
print("done")
"""


MODULE = """
import torch
from torch.distributed.fsdp import CPUOffload
from torch.onnx.symbolic_helper import parse_args

@parse_args("v", "i")
def relu(g, x): ...

def place(where=CPUOffload()):
    return where.is_shard(0)
"""


def run(program, tmp_path):
    (tmp_path / "module_with_decorators.py").write_text(MODULE)
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
    absent = "_cslt_compress"
    done = run(f"import torch\n{names}\nfrom torch import {absent}\nprint({absent})", tmp_path)
    assert done.stdout == f"<torch.{absent}, which tritorch does not have yet>\n", done.stderr


NAMED = """
import torch, torch.hub, typing
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.nn.modules.conv import _size_2_t, math
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch._tensor import Tensor
from torch._C import _TensorBase
from torch.optim.lr_scheduler import types as kinds

assert torch.__name__ == "torch" and str(torch.float32) == repr(torch.float32) == "torch.float32"
assert torch.ones(2).type() == "torch.FloatTensor" and str(torch.strided) == "torch.strided"
assert repr(torch.ones(2).shape) == "torch.Size([2])"
assert "dtype=torch.float64" in str(torch.eye(2).double())
assert repr(torch.ones(2).max(0)).startswith("torch.return_types.max(")
tensors = [torch.ones(2, 3), torch.zeros(0), torch.ones(())]
flat = _flatten_dense_tensors(tensors)
assert flat.tolist() == [1.0] * 7
back = _unflatten_dense_tensors(flat, tensors)
assert [t.shape for t in back] == [(2, 3), (0,), ()] and back[0]._base is flat
assert _flatten_dense_tensors(tensors[:1]).data_ptr() == tensors[0].data_ptr()
assert torch._C._log_api_usage_once("x") is None and torch._C._get_tracing_state() is None
assert [torch._C._jit_set_profiling_executor(on) for on in (False, True)] == [True, False]
assert issubclass(Tensor, _TensorBase) and Tensor is torch.Tensor
assert torch._C._nn.gelu is torch.nn.functional.gelu and torch._C.Generator is torch.Generator
x = torch.ones(3)
assert x._cdata == x._cdata != x[:2]._cdata
assert x.untyped_storage()._cdata == x[:2].storage()._cdata
assert torch.hub.HASH_REGEX.search("resnet-ab12.pth")[1] == "ab12"
assert type(None) in typing.get_args(torch.serialization.MAP_LOCATION)
@torch.jit._overload
def f(a: int) -> int: ...
assert torch.onnx.is_in_onnx_export() is False
assert isinstance(torch.compile(nn.Linear(1, 1)), OptimizedModule)
assert kinds.__name__ == "types" and math.pi and _size_2_t
assert torch.nn.functional.hardswish(x, inplace=True) is x

# What nobody has is not there, in the extension either.
for module, name in (torch, "npu"), (torch._C, "_nonexistent"), (torch._inductor, "foo"):
    assert not hasattr(module, name)
for wrong in ("from torch._C import _nonexistent", "import torch._inductor.foo"):
    try:
        exec(wrong)
    except ImportError:
        continue
    raise AssertionError(wrong)
print("done")
"""


def test_names_that_programs_use(tmp_path):
    done = run(NAMED, tmp_path)
    assert done.stdout == "done\n", done.stderr


# Every 25th module of PyTorch; `tools/record/names.py --check` takes all, and PyTorch's own list.
EVERY = """
import sys, torch
from tritorch import _names
count = 0
for path in list(_names._lines())[::25]:
    module = f"torch.{path}".rstrip(".")
    names = ", ".join(_names._entries(path))
    exec(f"import {module}\\n" + (names and f"from {module} import {names}"))
    count += len(_names._entries(path))
print(count > 2000)
"""


def test_every_name_of_pytorch_imports(tmp_path):
    done = run(EVERY, tmp_path)
    assert done.stdout == "True\n", done.stderr


def test_tritorch_itself_says_what_pytorch_has():
    with pytest.raises(AttributeError, match="PyTorch has torch._cslt_compress, tritorch does n"):
        tritorch._cslt_compress  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'tritorch.nn' has no attribute 'Linaer'$"):
        tritorch.nn.Linaer  # noqa: B018
    assert not hasattr(tritorch, "_cslt_compress")


def test_the_recorded_names():
    assert _names.has_name("", "add") and _names.has_name("nn", "Linear")
    assert _names.has_name("nn.modules.batchnorm", "_BatchNorm") and _names.has_name("", "nn")
    assert _names.is_module("onnx.ops") and not _names.is_module("onnx.anything")
    assert _names.has_name("_C", "_cuda_setDevice") and not _names.has_name("_C", "_nonexistent")
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
                        except ImportError as error:
                            if error.name == "tensorboard":  # may not be installed
                                continue
                            pytest.fail(f"{file}: {node.module}.{alias.name}")


DEVICE = """
    from importlib import metadata
    import sys, types

    class Entry:
        name = "foo"

        def load(self):
            return start

    def start():
        import torch

        torch.utils.rename_privateuse1_backend("foo")
        torch._register_device_module("foo", types.ModuleType("torch_foo"))

    metadata.entry_points = lambda group: [Entry()] if group == "torch.backends" else []
    import tritorch

    tritorch.as_torch()
    import torch

    print(torch.device("foo:1"), torch.foo.__name__)
"""


def test_packages_of_devices_load_themselves(monkeypatch):
    def run_it(**environment):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(DEVICE)],
            env={**os.environ, **environment}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert run_it().stdout == "foo:1 torch_foo\n"
    off = run_it(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert "device type at start of device string: foo" in off.stderr


def test_an_installed_package_of_a_device_loads_itself(tmp_path):
    """It is found by its files, and importlib.metadata is imported for it alone."""
    code = (
        "import sys, tritorch; tritorch.as_torch(); import torch\n"
        "print(hasattr(torch, 'foo'), 'importlib.metadata' in sys.modules)"
    )

    def run_it(folder):
        env = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() or done.stderr

    assert run_it(tmp_path) == "False False"
    (tmp_path / "foo_device.py").write_text(
        "import types\ndef start():\n    import torch\n"
        "    torch.utils.rename_privateuse1_backend('foo')\n"
        "    torch._register_device_module('foo', types.ModuleType('torch_foo'))\n"
    )
    described = tmp_path / "foo_device-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: foo_device\nVersion: 1.0\n")
    entry = "[torch.backends]\nfoo = foo_device:start\n"
    (described / "entry_points.txt").write_text(entry)
    assert run_it(tmp_path) == "True True"
