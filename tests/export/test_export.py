"""torch.export: programs as graphs, what their inputs and outputs are, and which sizes are open."""

import io
import json
import zipfile

import pytest

import tritorch as torch
from tritorch._dynamo.exc import UserError
from tritorch.export import Dim, export


class Model(torch.nn.Module):
    """Parameters, buffers, a constant, statistics, a write into a view, a size as output."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 8)
        self.bn = torch.nn.BatchNorm1d(8)
        self.register_buffer("c", torch.zeros(()), persistent=False)
        self.k = torch.arange(8.0)

    def forward(self, x, *, scale=None):
        self.c.add_(1)
        y = self.bn(self.lin(x)).relu() * self.k
        y[0] = 0
        y = y.reshape(-1, 4, 2) + torch.tensor([1.0, 2.0])
        if scale is not None:
            y = y * scale["s"]
        return {"y": y, "n": x.shape[0] * 2}


KWARGS = {"scale": {"s": torch.ones(())}}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


@pytest.fixture
def program(model):
    shapes = {"x": {0: Dim("batch", max=1024)}, "scale": {"s": None}}
    return export(model, (torch.randn(6, 4),), KWARGS, dynamic_shapes=shapes)


# What torch 2.13 prints of the signature of the same program, but for the constants: a fill by a
# number is one of a tensor there.
INPUTS = """p_lin_weight: PARAMETER target='lin.weight'
p_lin_bias: PARAMETER target='lin.bias'
p_bn_weight: PARAMETER target='bn.weight'
p_bn_bias: PARAMETER target='bn.bias'
b_c: BUFFER target='c' persistent=False
b_bn_running_mean: BUFFER target='bn.running_mean' persistent=True
b_bn_running_var: BUFFER target='bn.running_var' persistent=True
b_bn_num_batches_tracked: BUFFER target='bn.num_batches_tracked' persistent=True
c_k: CONSTANT_TENSOR target='k'
c_lifted_tensor_0: CONSTANT_TENSOR target='lifted_tensor_0'
x: USER_INPUT
scale_s: USER_INPUT"""


def test_the_signature_is_torchs(program):
    assert "\n".join(map(str, program.graph_signature.input_specs)) == INPUTS
    assert str(list(program.range_constraints.values())) == "[VR[0, 1024]]"
    names = list(program.state_dict)
    assert names == [
        "lin.weight", "lin.bias", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var",
        "bn.num_batches_tracked",
    ]  # fmt: skip
    assert sorted(program.constants) == ["c", "k", "lifted_tensor_0"]


def test_a_graph_has_atens_operators_in_the_programs_order(program):
    targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    aten = [t for t in targets if t.startswith("aten") and "sym_size" not in t]
    assert aten == [
        "aten.add_.Tensor", "aten.linear.default", "aten.add_.Tensor", "aten.batch_norm.default",
        "aten.relu.default", "aten.mul.Tensor", "aten.select.int", "aten.fill_.Scalar",
        "aten.view.default", "aten.lift_fresh_copy.default", "aten.add.Tensor", "aten.mul.Tensor",
    ]  # fmt: skip
    assert all("val" in node.meta for node in program.graph.nodes if node.op != "output")


def test_a_program_computes_what_the_module_does_and_updates_its_state(model, program):
    twin = Model()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(9, 4)
    found, wanted = program.module()(x, **KWARGS), twin(x, **KWARGS)
    assert found["n"] == wanted["n"] == 18
    assert torch.allclose(found["y"], wanted["y"])
    assert torch.equal(model.bn.running_mean, twin.bn.running_mean)
    assert model.c == 1 and model.bn.num_batches_tracked == 1


def test_the_run_of_an_export_leaves_the_module_as_it_was(model):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    export(model, (torch.randn(6, 4),))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.c == 0 and type(model.bn.running_mean) is torch.Tensor


def test_without_writes_what_was_written_is_returned(program):
    pure = program.run_decompositions({})
    kinds = [(spec.kind.name, spec.target) for spec in pure.graph_signature.output_specs]
    assert kinds == [
        ("BUFFER_MUTATION", "c"), ("BUFFER_MUTATION", "bn.running_mean"),
        ("BUFFER_MUTATION", "bn.running_var"), ("BUFFER_MUTATION", "bn.num_batches_tracked"),
        ("USER_OUTPUT", None), ("USER_OUTPUT", None),
    ]  # fmt: skip
    targets = [n.target for n in pure.graph.nodes if n.op == "call_function"]
    assert not any(getattr(getattr(t, "_schema", None), "is_mutable", False) for t in targets)
    assert torch.ops.aten.select_scatter.default in targets


@pytest.mark.parametrize("table", [None, {}])
def test_without_writes_it_computes_the_same(model, program, table):
    state = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(3, 4)
    wanted = model(x, **KWARGS)["y"]
    after = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    found = program.run_decompositions(table).module()(x, **KWARGS)["y"]
    assert torch.allclose(found, wanted, atol=1e-6)
    for name, value in model.state_dict().items():
        assert torch.allclose(value, after[name])


def test_small_operators_are_of_the_core_set(model):
    model.eval()
    small = export(model, (torch.randn(6, 4),)).run_decompositions()
    core = {
        str(n.target) for n in small.graph.nodes
        if n.op == "call_function" and torch.Tag.core in getattr(n.target, "tags", ())
    }  # fmt: skip
    assert {"aten.mm.default", "aten.relu.default", "aten.select_scatter.default"} <= core
    assert "linear" not in small.graph_module.code


# ---- sizes ---------------------------------------------------------------------------------------


class Sum(torch.nn.Module):
    def forward(self, x, y):
        return x + y


FOUR_BY_FIVE = (torch.ones(4, 5), torch.ones(4, 5))
# What torch 2.13 says in its violations.
VIOLATIONS = [
    (({0: Dim("b")}, {0: Dim("c", min=3, max=10)}),
     ["The values of c = L['y'].size()[0] and b = L['x'].size()[0] must always be equal.",
      "c = b"]),
    (({0: Dim("b")}, None),
     ["You marked b as dynamic but your code specialized it to be a constant (4).", "b = 4"]),
    (({0: Dim.DYNAMIC}, None),
     ["You marked L['x'].size()[0] as dynamic but your code specialized"]),
]  # fmt: skip


@pytest.mark.parametrize(("shapes", "said"), VIOLATIONS)
def test_a_violation_says_what_would_mend_it(shapes, said):
    with pytest.raises(UserError) as error:
        export(Sum(), FOUR_BY_FIVE, dynamic_shapes=shapes)
    assert all(text in str(error.value) for text in said), str(error.value)


def test_sizes_left_to_the_export_follow_the_program():
    shapes = {"x": {0: Dim.AUTO, 1: Dim.AUTO}, "y": {0: Dim.AUTO}}
    program = export(Sum(), FOUR_BY_FIVE, dynamic_shapes=shapes)
    sizes = [n.meta["val"]._array.shape for n in program.graph.nodes if n.op == "placeholder"]
    assert str(sizes) == "[(s0, 5), (s0, 5)]"
    module = program.module()
    assert module(torch.ones(3, 5), torch.ones(3, 5)).shape == (3, 5)
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[1\] == 5"):
        module(torch.ones(3, 4), torch.ones(3, 4))
    with pytest.raises(AssertionError, match=r"Guard failed: y.size\(\)\[0\] == x.size\(\)\[0\]"):
        module(torch.ones(3, 5), torch.ones(4, 5))
    with pytest.raises(ValueError, match="exported input tree spec"):
        module(torch.ones(3, 5))


def test_a_range_is_looked_at_in_each_run():
    c = Dim("c", min=3, max=10)
    module = export(Sum(), FOUR_BY_FIVE, dynamic_shapes=({0: c}, {0: c})).module()
    for size, said in ((2, ">= 3"), (11, "<= 10")):
        with pytest.raises(AssertionError, match=rf"Guard failed: x.size\(\)\[0\] {said}"):
            module(torch.ones(size, 5), torch.ones(size, 5))


def test_a_size_may_be_a_multiple_of_another():
    class Shifted(torch.nn.Module):
        def forward(self, x):
            return x[:-1] + x[1:]

    program = export(Shifted(), (torch.ones(4),), dynamic_shapes={"x": {0: 2 * Dim("d")}})
    assert program.module()(torch.ones(8)).tolist() == [2.0] * 7
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(7))


def test_sizes_that_depend_on_data_are_looked_at_in_each_run():
    class Counted(torch.nn.Module):
        def forward(self, x):
            n = x.sum().int().item()
            torch._check(n >= 2)
            torch._check(n < 9)
            return torch.ones(n), x.nonzero()

    program = export(Counted(), (torch.ones(2, 3),), dynamic_shapes=({0: Dim.AUTO},))
    ranges = {str(key): str(value) for key, value in program.range_constraints.items()}
    assert ranges["u0"] == "VR[2, 8]"
    assert [x.shape[0] for x in program.module()(torch.eye(3))] == [3, 3]
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 >= 2"):
        program.module()(torch.zeros(2, 3))


# ---- control flow, modules -----------------------------------------------------------------------


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = x * 2
        z = torch.cond(x.sum() > 0, lambda x: self.l(x) + y, lambda x: x - 1, (x,))
        start = torch.zeros((), dtype=torch.int64), x
        _, c = torch.while_loop(lambda i, c: i < 4, lambda i, c: (i + 1, c * y), start)
        return z, c


def test_branches_and_loops_are_operators_of_graphs():
    module, x = Branches(), torch.randn(4, 3)
    program = export(module, (x,), dynamic_shapes=({0: Dim.DYNAMIC},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for run in (program.module(), torch.export.load(file).module()):
        for given in (x.abs(), -x.abs(), torch.randn(7, 3)):
            assert all(map(torch.allclose, run(given), module(given)))


def test_modules_come_back_with_their_names():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
            self.b = torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.b(self.a(self.a(x)) + x)

    module, x = Twice(), torch.randn(5, 4)
    made = torch.export.unflatten(export(module, (x,)))
    assert torch.allclose(made(x), module(x))
    assert list(made.state_dict()) == list(module.state_dict())
    assert [name for name, _ in made.named_modules()] == ["", "a", "a.0", "a.1", "b"]
    assert torch.allclose(made.b(x), module.b(x))  # its state is its own


class Scaled(torch.nn.Module):
    """What it is given and gives is nested; it computes something else the second time."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, factors, scale=1.0):
        return {"scaled": self.linear(x) * factors["used"], "rest": (x + scale, 3)}


class Other(torch.nn.Module):
    """What may stand in its place."""

    def forward(self, x, factors, scale=1.0):
        return {"scaled": x * factors["unused"] * scale, "rest": (x - factors["used"], 3)}


class Calling(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scaled()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        first = self.inner(x, {"used": x + 1, "unused": x * 2}, scale=2.0)
        self.calls.add_(1)
        scaled = first["scaled"].relu_()
        second = self.inner(scaled, {"used": first["rest"][0], "unused": x.shape[0] * x}, scale=3.0)
        return second["scaled"] + second["rest"][0] * self.calls


def through_a_file(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize(
    "step",
    [
        lambda program: program,
        lambda program: program.run_decompositions({}),
        lambda program: program.run_decompositions(),
        lambda program: through_a_file(program.run_decompositions()),
    ],
    ids=["exported", "functional", "core", "file"],
)
@pytest.mark.parametrize("shapes", [None, ({0: Dim("batch", min=2)},)], ids=["fixed", "open"])
def test_modules_may_be_replaced_where_their_signature_is_kept(step, shapes):
    module, x = Calling(), torch.randn(3, 4)
    program = step(export(
        module, (x,), dynamic_shapes=shapes, preserve_module_call_signature=("inner",)
    ))  # fmt: skip
    entries = {entry.fqn: entry.signature for entry in program.module_call_graph}
    assert entries["inner.linear"] is None
    first, second = entries["inner"], entries["inner@1"]
    assert [type(x).__name__ for x in first.inputs] == [*["TensorArgument"] * 3, "ConstantArgument"]
    assert first.inputs[3].value == 2.0 and second.inputs[3].value == 3.0
    assert first.out_spec.context == ["scaled", "rest"] and first.in_spec == second.in_spec

    made = torch.export.unflatten(program)
    x = torch.randn(3 if shapes is None else 7, 4)

    def equal():
        found = []
        for each in (made, module):
            each.calls.fill_(1)  # which may be one tensor
            found.append(each(x))
        return torch.allclose(*found)

    assert equal()
    with pytest.raises(RuntimeError):
        made(torch.randn(3, 5))
    assert equal()  # a call that has failed leaves nothing behind
    made.inner = module.inner = Other()
    assert equal()


def test_a_signature_that_does_not_say_all_is_told():
    class Hidden(torch.nn.Module):
        def forward(self, x):
            self.kept = x * 2
            return x + 1

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = Hidden()

        def forward(self, x):
            return self.hidden(x) + self.hidden.kept

    x = torch.randn(2)
    program = export(Outer(), (x,), preserve_module_call_signature=("hidden",))
    with pytest.warns(UserWarning, match="signature of hidden cannot be preserved"):
        made = torch.export.unflatten(program)
    assert torch.equal(made(x), x + 1 + x * 2)
    with pytest.raises(AttributeError, match="no module 'missing'"):
        export(Outer(), (x,), preserve_module_call_signature=("missing",))


def test_state_of_another_module_is_shared():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    module, x = Tied(), torch.randn(2, 4)
    made = torch.export.unflatten(export(module, (x,)))
    assert torch.allclose(made(x), module(x))
    with torch.no_grad():
        made.first.weight.mul_(2)
    assert torch.allclose(made(x), module(x))  # the program's state is the module's


def test_a_draft_tells_what_kept_export_from_it():
    report = torch.export.draft_export(Sum(), FOUR_BY_FIVE, dynamic_shapes=({0: Dim("b")}, None))
    assert not report._report.successful() and "b = 4" in str(report._report)
    assert torch.export.draft_export(Sum(), FOUR_BY_FIVE)._report.successful()


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_gives_the_program_back(program):
    file = io.BytesIO()
    torch.export.save(program, file, extra_files={"note.txt": "hello"})
    file.seek(0)
    extra = {"note.txt": ""}
    loaded = torch.export.load(file, extra_files=extra)
    assert extra["note.txt"] == "hello"
    assert str(loaded.graph_signature) == str(program.graph_signature)
    assert loaded.graph_module.code == program.graph_module.code
    x = torch.randn(7, 4)
    found, wanted = loaded.module()(x, **KWARGS)["y"], program.module()(x, **KWARGS)["y"]
    assert torch.allclose(found, wanted)


def test_a_file_is_of_torchs_schema(program):
    """Keys and forms that torch 2.13's files have."""
    file = io.BytesIO()
    torch.export.save(program, file)
    archive = zipfile.ZipFile(file)
    read = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert read["archive_format"] == b"pt2" and read[".data/version"] == b"6\n"
    data = json.loads(read["models/model.json"])
    assert data["schema_version"] == {"major": 8, "minor": 20}
    assert data["verifiers"] == ["TRAINING"] and data["opset_version"] == {"aten": 10}
    graph = data["graph_module"]["graph"]
    size = {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)",
                        "hint": {"as_int": 6}}}  # fmt: skip
    assert graph["tensor_values"]["x"]["sizes"] == [size, {"as_int": 4}]
    linear = next(n for n in graph["nodes"] if n["target"] == "torch.ops.aten.linear.default")
    assert [(x["name"], x["arg"], x["kind"]) for x in linear["inputs"]] == [
        (name, {"as_tensor": {"name": node}}, 1)
        for name, node in (("input", "x"), ("weight", "p_lin_weight"), ("bias", "p_lin_bias"))
    ]
    weights = json.loads(read["data/weights/model_weights_config.json"])["config"]
    assert weights["lin.weight"]["path_name"] == "weight_0"
    assert len(read["data/weights/weight_0"]) == 4 * 8 * 4
