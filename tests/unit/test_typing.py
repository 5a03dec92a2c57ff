"""Type checkers see every public name, also those that only exist at run time."""

import ast
import importlib
import inspect
import os
import pathlib
import subprocess
import sys
import types

import pytest

import tritorch
from tritorch.compat import stub_package

HERE = pathlib.Path(tritorch.__file__).parent
MAKE_STUBS = pathlib.Path(__file__).parents[2] / "tools" / "make_stubs.py"

PROGRAM = """\
import tritorch as torch
import tritorch.nn as nn
import tritorch.nn.functional as F
from tritorch import Tensor
from tritorch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(F.relu(self.fc(x)))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, weight_decay=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
x = torch.randn(3, 4, dtype=torch.float64, device="cpu")
with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
    y: Tensor = net(x)
norm: Tensor = torch.linalg.norm(y) + torch.fft.fft(x).abs().sum() + torch.special.erf(x).mean()
torch.gather(x, 0, torch.zeros(2, 2, dtype=torch.long), out=torch.empty(0))
torch.sum(x, axis=0, keepdims=True), torch.add(x, 1, alpha=2), torch.cat([x, x], 1)
normal = torch.distributions.Normal(0.0, 1.0).sample((3,))
loader = DataLoader(TensorDataset(x), batch_size=2)
F.cross_entropy(y, torch.zeros(3, dtype=torch.long), label_smoothing=0.1).backward()
half: torch.dtype = torch.float16
torch.compile(net), torch.func.vmap(torch.sin), torch.cuda.is_available(), torch.DispatchKey.CPU
torch.save(net.state_dict(), "file")
torch.device("cpu").type, torch.version.__version__
"""
WRONG = """\
torch.no_such_name
torch.optim.NoSuch
torch.linalg.no_such_name
F.no_such_name
nn.NoSuch
torch.sin("text")
x.summ()
x.sum(dims=1)
x.to("cpu").nope
torch.optim.Adam(net.parameters(), learning_rate=1e-3)
number: int = torch.sin(x)
"""


def complaints(folder, text):
    """(line, what mypy says of it) for a program that uses tritorch."""
    pytest.importorskip("mypy")
    cache = HERE.parent / "build" / "mypy"  # what it knows of tritorch, for the next time
    program, settings = folder / "program.py", folder / "mypy.ini"
    program.write_text(text)
    settings.write_text("[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir",
         str(cache), str(program)],
        env=os.environ | {"MYPYPATH": str(HERE.parent)}, capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    found = [line.split(":", 2) for line in ran.stdout.splitlines() if "program.py:" in line]
    assert found or ran.returncode == 0, ran.stdout + ran.stderr
    return [(text.splitlines()[int(line) - 1], words) for _, line, words in found]


def test_stubs_are_up_to_date():
    ran = subprocess.run(
        [sys.executable, str(MAKE_STUBS), "--check"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


MODULES = """
    nn nn.functional nn.init nn.utils nn.utils.rnn nn.parameter nn.attention optim
    optim.lr_scheduler autograd autograd.functional func linalg fft special cuda amp utils.data
    utils.checkpoint serialization random distributions distributions.constraints
    distributions.transforms sparse signal.windows quasirandom masked jit futures overrides testing
    multiprocessing types storage backends.cuda compiler
"""


def public(path):
    """The names of a module that PyTorch's has too, and are there."""
    from tritorch.compat import names as _names

    module = importlib.import_module(f"tritorch.{path}".rstrip("."))
    for name in sorted(_names.offered(path)):
        found = getattr(module, name, None)
        if found is not None and not isinstance(found, types.ModuleType):
            yield f"{module.__name__}.{name}"


def test_every_public_name_is_public_to_type_checkers():
    """PEP 561: what a module imports is its own only if it says so. Read from the files alone."""
    hidden = [
        name
        for path in ["", *MODULES.split()]
        for name in public(path)
        if name.rpartition(".")[2] not in stub_package.exported(path)
    ]
    assert not hidden


@pytest.mark.parametrize("name", ["utils.data", "nn.functional", "nn.utils.rnn", "optim.optimizer"])
def test_modules_are_public_attributes_of_packages(name):
    above, _, leaf = name.rpartition(".")
    assert leaf in stub_package.exported(above)


def members(file, name):
    """The names in a class's body, in a file or stub; nothing if it takes any name."""
    body = next(
        node.body
        for node in ast.parse(pathlib.Path(file).read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    for node in stub_package._statements(body):
        if isinstance(node, ast.FunctionDef):
            assert node.name != "__getattr__"
            yield node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (n.id for t in targets if t for n in ast.walk(t) if isinstance(n, ast.Name))


def test_tensor_is_typed_whole():
    file = pathlib.Path(inspect.getfile(vars(tritorch.Tensor)["device"].fget))
    typed = {*members(file, "Tensor"), *members(HERE / "_C.pyi", "TensorBase")}
    typed |= {*members(file.with_name(f"{file.stem}_methods.pyi"), "TensorMethods")}
    code = """if True:
        import tritorch
        from tritorch._C import Gate
        print(*(name for name in dir(tritorch.Tensor) if not name.startswith("_")))
        print(*(name for name, value in vars(tritorch.Tensor).items() if isinstance(value, Gate)))
    """  # elsewhere, since modules that other tests import add to the class
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    public, special = (set(line.split()) for line in ran.stdout.splitlines())
    assert len(public) > 600 and public | special <= typed


def test_imports_of_thestub_package_are_there():
    """Each name that a module of torch-stubs imports is one that type checkers find."""
    texts = stub_package.modules()
    assert {"__init__.pyi", "nn/modules/batchnorm.pyi", "optim/optimizer.pyi"} < texts.keys()
    modules = {file.removesuffix(".pyi").removesuffix("__init__").strip("/") for file in texts}
    for file, text in texts.items():
        for node in ast.parse(text).body:
            package, _, path = node.module.partition(".")
            names = {alias.name for alias in node.names}
            if package == "torch":
                names = {f"{path}.{name}".lstrip(".").replace(".", "/") for name in names}
                assert names <= modules, file
            else:
                assert names <= stub_package.exported(path), file


def test_mypy_sees_what_is_public_and_refuses_what_is_not(tmp_path):
    names = [name for path in ["", *MODULES.split()] for name in public(path)]
    assert len(names) > 1900
    imports = "".join(f"import tritorch.{path}\n" for path in MODULES.split())
    text = PROGRAM + imports + "\n".join(names) + "\n" + WRONG
    refused = dict(complaints(tmp_path, text))
    assert refused.keys() == set(WRONG.splitlines()), refused
