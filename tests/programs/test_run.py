"""Programs written for PyTorch run unchanged."""

import importlib.metadata
import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import StepLR
import torch.distributed as dist
from torch.distributed import init_process_group

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = StepLR(optimizer, 50, 0.5)
x = torch.linspace(-1, 1, 64).reshape(32, 2)
y = (x[:, :1] * x[:, 1:]).sin()
losses = []
for _ in range(int(sys.argv[1])):
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    losses.append(loss.item())
try:
    init_process_group("nccl")
    told = ""
except RuntimeError as error:
    told = str(error)
found = [losses[0], losses[-1], torch.__name__, told, __name__, isinstance(x, torch.Tensor)]
print(json.dumps(found))
"""


def test_a_program(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "tritorch", "run", str(script), "150"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "TRITORCH_SIMULATE_CUDA"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, last, name, told, main, is_tensor = json.loads(done.stdout)
    assert last < 0.1 * first and name == "torch" and main == "__main__" and is_tensor
    if os.environ.get("TRITORCH_TEST_DEVICE") != "cuda":
        assert told.startswith("Distributed package doesn't have NCCL built in: there is no GPU")


def start(*arguments, cwd=None, given=None):
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, cwd=cwd,
        input=given, timeout=200,
    )  # fmt: skip


def test_a_missing_script_is_told():
    done = start("tritorch", "run", "nowhere.py")
    assert done.returncode == 2 and "no such file: nowhere.py" in done.stderr
    done = start("tritorch", "run", "-m")
    assert done.returncode == 2 and "-m takes an argument" in done.stderr


CODE = "import sys, torch; print(__name__, torch.__name__, sys.argv[1:]); torch.ones(2) @ 1"


@pytest.mark.parametrize("way", ["script", "module", "code", "input", "folder"])
def test_ways_to_start_a_program(way, tmp_path):
    """Tracebacks begin in the program's own file, as Python's do."""
    (tmp_path / "folder").mkdir()
    for file in ("program.py", "folder/__main__.py"):
        (tmp_path / file).write_text(CODE)
    arguments, file = {
        "script": (["program.py"], "program.py"),
        "module": (["-m", "program"], str(tmp_path / "program.py")),
        "code": (["-c", CODE], "<string>"),
        "input": (["-"], "<stdin>"),
        "folder": (["folder"], str(tmp_path / "folder/__main__.py")),
    }[way]
    done = start("tritorch", "run", *arguments, "-x", "1", cwd=tmp_path, given=CODE)
    assert done.stdout == "__main__ torch ['-x', '1']\n", done.stderr
    first, second = done.stderr.splitlines()[:2]
    assert first.startswith("Traceback") and second.startswith(f'  File "{file}", line 1')
    assert "TypeError" in done.stderr.splitlines()[-1] and done.returncode == 1


def test_a_program_ends_as_it_says(tmp_path):
    assert start("tritorch", "run", "-c", "raise SystemExit(3)").returncode == 3
    wrong = start("tritorch", "run", "-c", "def f(:")
    assert wrong.stderr.startswith('  File "<string>", line 1') and wrong.returncode == 1


def test_a_program_with_spawned_processes(tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch\n"
        "import torch.multiprocessing as mp\n"
        "def work(rank, queue):\n"
        "    queue.put((rank, torch.nn.Linear.__module__, torch.__name__))\n"
        "if __name__ == '__main__':\n"
        "    queue = mp.get_context('spawn').SimpleQueue()\n"
        "    context = mp.spawn(work, (queue,), nprocs=1, join=False)\n"
        "    print(queue.get())\n"
        "    context.join()\n"
    )
    done = start("tritorch", "run", "program.py", cwd=tmp_path)
    assert done.stdout == "(0, 'torch.nn.modules.linear', 'torch')\n", done.stderr


def test_a_pytest_plugin(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import torch, torch.nn.functional as F\n"
        "def test_it():\n"
        "    assert torch.__version__ >= '2.13' and F.relu(torch.tensor(-1.0)) == 0\n"
        "    assert type(torch.nn.Linear(1, 1)).__module__ == 'torch.nn.modules.linear'\n"
    )
    done = start("pytest", "-q", "-p", "tritorch.pytest_plugin", "-p", "no:cacheprovider",
                 "test_it.py", cwd=tmp_path)  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_notebook_cell():
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    code = (
        f"from {interactive.__name__} import InteractiveShell as Shell\n"
        "shell = Shell.instance()\n"
        "cells = '%load_ext tritorch', 'import torch', 'torch.ones(2)', 'torch.ones(2) @ 1'\n"
        "for cell in cells:\n"
        "    shell.run_cell(cell)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "tensor([1., 1.])" in done.stdout and "TypeError" in done.stdout, done.stderr


def test_names_are_torchs():
    """What the alias gives says that it is torch's: names, reprs, pickles, metadata, errors."""
    code = """
import importlib.metadata, importlib.util, pickle, pickletools, sys
import torch
from torch import nn

for value, name in [
    (nn.Linear, "torch.nn.modules.linear"), (torch.optim.SGD, "torch.optim.sgd"),
    (torch.distributions.Normal, "torch.distributions.normal"), (torch.finfo, "torch"),
    (torch.Tensor, "torch"), (torch.add, "torch"), (nn.functional.relu, "torch.nn.functional"),
    (torch.utils.data.DataLoader, "torch.utils.data.dataloader"), (torch.Generator, "torch._C"),
    (nn.Parameter, "torch.nn.parameter"), (torch.UntypedStorage, "torch.storage"),
    (torch.save, "torch.serialization"), (torch.no_grad, "torch.autograd.grad_mode"),
]:
    assert value.__module__ == name, (value, value.__module__)
assert repr(nn.Linear) == "<class 'torch.nn.modules.linear.Linear'>"
assert torch.__name__ == "torch" and nn.__name__ == "torch.nn" and sys.modules["torch.nn"] is nn
assert str(torch.float32) == "torch.float32" and torch.ones(1).type() == "torch.FloatTensor"
assert importlib.metadata.version("torch") == str(torch.__version__)
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.distributed.fsdp")
data = (torch.ones(2), nn.Linear(2, 2), torch.float32, torch.distributions.Normal(0.0, 1.0))
written = pickle.dumps(data)
words = {arg for _, arg, _ in pickletools.genops(written) if isinstance(arg, str)}
assert {"torch.distributions.normal", "torch.nn.modules.linear", "torch"} <= words, words
assert pickle.loads(written)[3].loc == 0
try:
    nn.Linear(2, 2)(1)
except TypeError as error:
    assert "tritorch" not in str(error), error
"""
    done = start("tritorch", "run", "-", given=code)
    assert done.returncode == 0, done.stderr


def test_pip_is_told(tmp_path):
    """A stand-in is what pip takes for torch, until it is removed; a real torch is never hidden."""
    code = (
        "import sys; from tritorch import _metadata as m; from pathlib import Path; "
        f"m._folder = lambda: Path({str(tmp_path)!r}) / 'torch-9.dist-info'; "
        f"m._command = lambda: Path({str(tmp_path)!r}) / 'torchrun'; "
        "print(m.main(sys.argv[1:]))"
    )

    def told(*arguments):
        return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True,
                              text=True, check=True).stdout  # fmt: skip

    assert "wrote" in told()
    found = importlib.metadata.Distribution.at(tmp_path / "torch-9.dist-info")
    assert found.metadata["Name"] == "torch" and found.version == "2.13.0+tritorch"
    stubs = {str(f) for f in found.files if f.parts[0] == "torch-stubs"}
    assert {"torch-stubs/__init__.pyi", "torch-stubs/utils/data/__init__.pyi"} < stubs
    assert all((tmp_path / stub).exists() for stub in stubs)
    assert {str(f) for f in found.files} - stubs == {
        "torchrun",
        *(f"torch-9.dist-info/{n}" for n in ("METADATA", "INSTALLER", "RECORD")),
    }
    assert os.access(tmp_path / "torchrun", os.X_OK)
    assert told("--remove").startswith("removed") and not list(tmp_path.iterdir())
    assert "was not here" in told("--remove")


def test_as_torch_in_a_process():
    code = (
        "import tritorch; tritorch.as_torch(); import torch, torch.nn.functional as F; "
        "assert torch is tritorch and torch.nn.functional is tritorch.nn.functional; "
        "assert tritorch.__spec__.name == 'tritorch' == tritorch.nn.__spec__.name[:8]; "
        "print(F.relu(torch.tensor([-1.0, 2.0])).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[0.0, 2.0]\n", done.stderr
