"""Packages of compiled programs: without the model's source, Triton or tracing, eager's bits."""

import copy
import io
import json
import os
import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import tritorch as torch
from tests.export.test_export import KWARGS, Model
from tritorch import nn
from tritorch.compilation.package.archive import Archive, Writer
from tritorch.compilation.package.checking import require_consistent
from tritorch.compilation.package.plan import Plan
from tritorch.compilation.plan.coding import PackageError
from tritorch.export import Dim, export
from tritorch.nn import functional as F
from tritorch.utils._pytree import tree_flatten, tree_map

GPT = """
    import torch
    from torch import nn
    from torch.export import Dim

    class Block(nn.Module):
        def __init__(self, d=32, heads=4):
            super().__init__()
            self.a, self.b, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
            self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

        def forward(self, x):
            n, t, d = x.shape
            parts = self.qkv(self.a(x)).split(d, 2)
            q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in parts)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(n, t, d))
            return x + self.mlp(self.b(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)

        def forward(self, ids):
            x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    def model():
        torch.manual_seed(0)
        return GPT().eval()

    def program():
        return model(), (torch.zeros(2, 16, dtype=torch.int64),), None, {"ids": {0: Dim("batch")}}
"""


def run(*arguments, folder):
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, check=False, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip


def test_a_gpt_runs_without_its_source_and_without_triton(tmp_path):
    (tmp_path / "the_gpt.py").write_text(textwrap.dedent(GPT))
    done = run(
        "-m", "tritorch", "precompile", "--plan", "the_gpt:program", "--pack", "gpt.pt2",
        folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    eager = """
        import tritorch
        tritorch.as_torch()
        import torch, the_gpt
        model, found = the_gpt.model(), []
        for n in 1, 2, 5, 16:
            ids = torch.arange(n * 16).reshape(n, 16) % 50
            found += [ids, model(ids).detach()]
        torch.save(found, "eager.pt")
    """
    done = run("-c", textwrap.dedent(eager), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "the_gpt.py").unlink()
    loaded = """
        import sys
        import tritorch as torch
        model = torch.load_package("gpt.pt2")
        found = torch.load("eager.pt")
        for ids, wanted in zip(found[::2], found[1::2]):
            got = model(ids)
            assert torch.equal(got, wanted) and got.stride() == wanted.stride()
        here = {name.partition(".")[0] for name in sys.modules}
        assert "triton" not in here and "the_gpt" not in here
        assert not any(name.startswith(("tritorch.export", "tritorch.fx")) for name in sys.modules)
        print(len(found) // 2, "equal")
    """
    done = run("-c", textwrap.dedent(loaded), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4 equal\n"


def test_what_is_no_program_is_refused_by_the_command(tmp_path):
    (tmp_path / "given.py").write_text(
        "def alone():\n    import torch\n    return torch.nn.ReLU()\n"
    )
    for name, said in ("given:alone", "a module alone is no program"), ("given:other", "no other"):
        done = run(
            "-m", "tritorch", "precompile", "--plan", name, "--pack", "a.pt2", folder=tmp_path
        )
        assert done.returncode == 1 and said in done.stderr
    done = run("-m", "tritorch", "precompile", "--plan", "given:alone", folder=tmp_path)
    assert done.returncode == 2 and "--pack FILE" in done.stderr
    assert not (tmp_path / "a.pt2").exists()


# ---- values --------------------------------------------------------------------------------------


def module(function):
    class Of(nn.Module):
        def forward(self, *args):
            return function(*args)

    return Of()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru = nn.LSTM(4, 8, batch_first=True), nn.GRU(8, 4)

    def forward(self, x):
        y, state = self.lstm(x)
        return self.gru(y)[0], state


def _writes(x):
    x.mul_(2)
    return x, x[0], x.t()


def _many(x):
    return (
        x.softmax(-1).topk(2), x.sort(), x.cumsum(0), torch.where(x > 0, x, 0), x.std(),
        x.to(torch.bfloat16), torch.stack([x, x]), x.chunk(2, 1), torch.einsum("ij,kj->ik", x, x),
        x[:, None].expand(-1, 3, -1), F.pad(x, (1, 1)), torch.linspace(0, 1, 5), torch.zeros(3),
        torch.full((2,), float("inf")), {"max": x.max(), "rows": x.shape[0]},
    )  # fmt: skip


CONV = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
IMAGES = (torch.randn(2, 3, 8, 8),)
CASES = {
    "state": (Model(), (torch.randn(6, 4),), KWARGS, {"x": {0: Dim("b")}, "scale": {"s": None}}),
    "images": (copy.deepcopy(CONV).eval(), IMAGES, {}, {"input": {0: Dim.DYNAMIC}}),
    "statistics": (CONV, IMAGES, {}, None),
    "recurrent": (Recurrent(), (torch.randn(2, 5, 4),), {}, None),
    "attention": (nn.TransformerEncoderLayer(16, 2, 32).eval(), (torch.randn(2, 5, 16),), {}, None),
    "drawn": (nn.Sequential(nn.Linear(4, 4), nn.Dropout()), (torch.randn(2, 4),), {}, None),
    "writes": (module(_writes), (torch.randn(3, 4),), {}, None),
    "checks": (module(F.cross_entropy), (torch.randn(6, 4), torch.arange(6) % 4), {}, None),
    "many": (module(_many), (torch.randn(6, 4),), {}, None),
    "strided": (module(lambda x: x * 2 + x.t()), (torch.randn(4, 4).t(),), {}, None),
    "number": (module(lambda x, y: x * y), (torch.randn(3), 2.5), {}, None),
}  # fmt: skip


def fresh(data):
    return tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, data)


def packaged(program):
    file = io.BytesIO()
    torch.save_package(program, file)
    file.seek(0)
    return torch.load_package(file)


@pytest.mark.parametrize("name", CASES)
def test_values_layouts_and_writes_are_those_of_the_exported_program(name):
    model, args, kwargs, shapes = CASES[name]
    program = export(copy.deepcopy(model), args, kwargs, dynamic_shapes=shapes)
    found, wanted = packaged(program), program.module()
    for seed in range(2):  # what a run leaves in buffers, the next one reads
        mine, theirs = fresh(args), fresh(args)
        torch.manual_seed(seed)
        got, structure = tree_flatten(found(*mine, **kwargs))
        torch.manual_seed(seed)
        with torch.no_grad():
            expected, other = tree_flatten(wanted(*theirs, **kwargs))
        assert structure == other
        for x, y in zip([*got, *mine], [*expected, *theirs], strict=True):
            if isinstance(y, torch.Tensor):
                assert torch.equal(x, y) and (x.dtype, x.stride()) == (y.dtype, y.stride())
                assert not x.requires_grad
            else:
                assert x == y


def test_what_is_given_back_is_what_it_is_a_part_of():
    x = torch.randn(3, 4)
    same, row, turned = packaged(export(module(_writes), (x.clone(),)))(x)
    assert same is x and row._shared is x._shared and turned._shared is x._shared
    assert x._version == 1


def test_a_value_that_is_no_argument_is_an_error_as_in_eager():
    found = packaged(export(CASES["checks"][0], CASES["checks"][1]))
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        found(torch.randn(6, 4), torch.full((6,), 7))


# ---- arguments -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linear():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    shapes = {"input": {0: 2 * Dim("half", max=8)}}
    return model, packaged(export(model, (torch.randn(6, 4),), dynamic_shapes=shapes))


def test_arguments_are_looked_at(linear):
    model, found = linear
    for n in 2, 4, 16:
        x = torch.randn(n, 4)
        assert torch.equal(found(x), model(x))
        assert torch.equal(found(x.t().contiguous().t()), model(x))  # it lies otherwise
    for x, said in (
        (torch.randn(5, 4), "size 0 of input is 5: it has to be a multiple of 2"),
        (torch.randn(18, 4), "size 0 of input is 18: the package is for sizes from .* to 16"),
        (torch.randn(4, 5), "size 1 of input is 5: the package is for 4"),
        (torch.randn(4), "input has 1 dims: the package is for 2"),
        (torch.randn(4, 4).double(), "input is of .*float64: the package is for .*float32"),
        (3, "input is a int: the package takes a tensor"),
        ((torch.randn(4, 4),), "the arguments are built as"),
    ):
        with pytest.raises(ValueError, match=said):
            found(x)


def test_several_sizes_and_several_models_lie_in_one_file(tmp_path):
    model = nn.Linear(4, 3)
    sizes = [export(model, (torch.randn(n, 4),)) for n in (2, 7)]
    torch.save_package({"a": sizes, "b": export(nn.ReLU(), (torch.randn(2),))}, tmp_path / "two")
    found = torch.load_package(tmp_path / "two", "a")
    for n in 2, 7:
        x = torch.randn(n, 4)
        assert torch.equal(found(x), model(x))
    with pytest.raises(ValueError, match="no plan fits"):
        found(torch.randn(3, 4))
    assert torch.equal(
        torch.load_package(tmp_path / "two", "b")(torch.tensor([-1.0, 2.0])),
        torch.tensor([0.0, 2.0]),
    )
    with pytest.raises(PackageError, match="no model 'c', but a, b"):
        torch.load_package(tmp_path / "two", "c")


def test_weights_are_replaced(linear):
    model, found = linear[0], packaged(export(linear[0], (torch.randn(6, 4),)))
    assert found.get_constant_fqns() == ["0.weight", "0.bias"]
    other, x = copy.deepcopy(model), torch.randn(6, 4)
    with torch.no_grad():
        other[0].weight.add_(1)
    found.load_constants({"0.weight": other[0].weight}, check_full_update=False)
    assert torch.equal(found(x), other(x)) and not torch.equal(found(x), model(x))
    found.load_constants(other.state_dict(), check_full_update=True, user_managed=True)
    with torch.no_grad():
        other[0].bias.add_(1)
    assert torch.equal(found(x), other(x))
    with pytest.raises(RuntimeError, match="missing: 0.weight"):
        found.load_constants({"0.bias": other[0].bias}, check_full_update=True)
    with pytest.raises(RuntimeError, match="no weight 'x'"):
        found.load_constants({"x": x}, check_full_update=False)
    with pytest.raises(RuntimeError, match="0.bias is"):
        found.load_constants({"0.bias": x}, check_full_update=False)


def test_weights_of_a_file_are_mapped_and_the_file_is_never_written(tmp_path):
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(3))

        def forward(self, x):
            self.n.add_(x)
            return self.n.clone()

    path = tmp_path / "counts.pt2"
    torch.save_package(export(Counts(), (torch.ones(3),)), path)
    before = path.read_bytes()
    found = torch.load_package(path)
    assert [found(torch.ones(3)).tolist() for _ in range(2)] == [[1.0] * 3, [2.0] * 3]
    assert torch.load_package(path)(torch.ones(3)).tolist() == [1.0] * 3
    assert path.read_bytes() == before


def test_threads_share_a_package(linear):
    model, found = linear
    inputs = [torch.randn(2 * (i % 8 + 1), 4) for i in range(64)]
    wanted, problems = [model(x) for x in inputs], []

    def work(first):
        for i in range(first, len(inputs), 4):
            if not torch.equal(found(inputs[i]), wanted[i]):
                problems.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_the_names_that_pytorch_has(tmp_path):
    import tritorch._inductor as inductor
    from tritorch._inductor.package import load_package

    x = torch.randn(2, 3)
    path = inductor.aoti_compile_and_package(
        export(nn.Tanh(), (x,)), package_path=str(tmp_path / "m.pt2")
    )
    for found in inductor.aoti_load_package(path), load_package(path, "model"):
        assert torch.equal(found(x), x.tanh())
        assert found.get_metadata()["AOTI_DEVICE_KEY"] == "cpu"
    with pytest.raises(ValueError, match="Only ExportedProgram"):
        inductor.aoti_compile_and_package(nn.Tanh())
    with pytest.raises(AssertionError, match="ending in .pt2"):
        inductor.aoti_compile_and_package(export(nn.Tanh(), (x,)), package_path="m.so")


# ---- files that are not as they were written -----------------------------------------------------


def _mlp():
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Flatten(), nn.LayerNorm(8)).eval()
    return export(model, (torch.randn(6, 4),), dynamic_shapes={"input": {0: Dim("n", max=64)}})


@pytest.fixture(scope="module")
def plan():
    file = io.BytesIO()
    torch.save_package(_mlp(), file)
    file.seek(0)
    archive = Archive(file)
    return archive.plans("model")[0], archive.weights("model")


def written(plan, weights):
    file = io.BytesIO()
    writer = Writer(file)
    writer.model("model", [plan], weights)
    writer.close()
    file.seek(0)
    return file


def _change(path, value):
    def change(plan):
        *path_to, last = path
        for step in path_to:
            plan = plan[step]
        plan[last] = value

    return change


UNKNOWN = {"open": ["s0", [["n", 9]]]}
HOSTILE = {
    "a function by its name": (_change(("notes", 0, 1), "os.system"), "no record 'os.system'"),
    "a check by its name": (_change(("notes", 0, 0), "check"), "no record"),
    "an enum to import": (_change(("structure", 0), {"__enum__": True, "fqn": "os:x"}), "is none"),
    "a type to import": (_change(("structure", 0), ["os.system", None, []]), "no structure"),
    "a value that is not there": (_change(("notes", 0, 2, 0), {"value": 10**6}), "no integer"),
    "a value below none": (_change(("notes", 0, 4, 0), -5), "no integer"),
    "a value too early": (_change(("notes", 0, 2, 0), {"value": 7}), "not computed yet"),
    "another shape": (_change(("forms", 5, 2), [6, 1 << 40]), "not what the plan says"),
    "another dtype": (_change(("forms", 5, 1), "float64"), "not what the plan says"),
    "strides outside": (_change(("forms", 5, 3), [1 << 40, 1]), "not dense"),
    "no dtype": (_change(("forms", 5, 1), "__class__"), "no dtype"),
    "a weight's size": (_change(("forms", 0, 2), [800, 4]), "another one than in the plan|says"),
    "an unknown number": (_change(("layouts", 0, 1, 0, 0), UNKNOWN), "no integer"),
    "deep data": (_change(("notes", 0, 3), json.loads("[" * 50 + "]" * 50)), "too deeply"),
    "no notes": (lambda plan: plan.pop("notes"), "other parts"),
    "results of others": (_change(("results", 0, 1), 10**6), "no integer"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_plan_is_an_error_that_says_why(plan, name):
    data, weights = copy.deepcopy(plan[0]), plan[1]
    torch.load_package(written(data, weights))  # as it is, it is one
    change, said = HOSTILE[name]
    change(data)
    with pytest.raises(PackageError, match=said):
        torch.load_package(written(data, weights))


def _places(x, path=()):
    yield path
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def test_plans_with_anything_anywhere_raise_or_run(plan):
    chosen = random.Random(0)
    places = [path for path in _places(plan[0]) if path]
    values = [None, True, -1, 0, 1, 3, 2**31, 2**70, 1e300, "", "x", [], {}, [0], {"value": 0},
              {"dtype": "int8"}, {"slice": [0, 1, 2]}, {"open": ["s", [["n", 0]]]}]  # fmt: skip
    refused = 0
    for _ in range(400):
        data = copy.deepcopy(plan[0])
        _change(chosen.choice(places), chosen.choice(values))(data)
        try:
            found = torch.load_package(written(data, plan[1]))
        except PackageError:
            refused += 1
            continue
        try:
            found(torch.randn(6, 4))
        except Exception as error:
            assert str(error)
    assert refused > 200


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "m.pt2"
    torch.save_package(_mlp(), path)
    whole = path.read_bytes()
    for length in 0, 10, len(whole) // 2, len(whole) - 30:
        path.write_bytes(whole[:length])
        with pytest.raises(PackageError):
            torch.load_package(path)
    at = whole.index(b"model/plans/0.json") + 40
    path.write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
    with pytest.raises(PackageError):
        torch.load_package(path)
    with pytest.raises(FileNotFoundError):
        torch.load_package(tmp_path / "none")


def test_what_cannot_be_packaged_says_why():
    class Custom(nn.Module):
        def forward(self, x):
            return {frozenset((1,)): x + 1}

    with pytest.raises(PackageError, match="texts and integers for keys"):
        packaged(export(Custom(), (torch.ones(2),)))
    program = export(nn.ReLU(), (torch.ones(2),))
    program.example_inputs = None
    with pytest.raises(PackageError, match="no example inputs"):
        packaged(program)
    with pytest.raises(TypeError, match="not a ReLU"):
        torch.save_package(nn.ReLU(), io.BytesIO())


def test_plans_keep_their_words():
    """A plan that an earlier version wrote is read, and written again as it was."""
    data = json.loads(Path(__file__).with_name("recorded_plan.json").read_text(encoding="ascii"))
    plan = Plan.from_json(data, torch.device("cpu"))
    require_consistent(plan)
    assert json.loads(json.dumps(plan.to_json())) == data
    assert {note.form.value for note in plan.notes} == {"call", "pointwise", "in place"}
    assert [given.kind.value for given in plan.given] == ["tensor", "constant"]
    assert {result.kind.value for result in plan.results} == {"value", "same", "constant"}
