"""Graphs as closures against a walk over their nodes; what calls, errors and limits do."""

import random

import pytest

import tritorch
from tritorch.jit import Error
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Graph
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.ir.operators import find
from tritorch.jit.ir.types import InterfaceType, NamedTupleType, ScriptClassType
from tritorch.jit.run.executor import entry, runner
from tritorch.jit.run.limits import Budget
from tritorch.jit.run.text import formatted, text_of
from tritorch.schema import types
from tritorch.schema.parser import parse_schema

INT, BOOL, STR = types.IntType.get(), types.BoolType.get(), types.StringType.get()


# ---- random programs of ints ---------------------------------------------------------------------

OPERATORS = {
    "aten::add": lambda a, b: a + b,
    "aten::sub": lambda a, b: a - b,
    "aten::lt": lambda a, b: a < b,
    "aten::__and__": lambda a, b: a & b,
}


def walk(block, values):
    """Evaluates the nodes of a block one after the other."""
    for node in block.nodes():
        inputs = [values[v] for v in node.inputs()] if node.kind() != "prim::Constant" else []
        if node.kind() == "prim::Constant":
            results = [node.constant()]
        elif node.kind() == "prim::If":
            results = walk(node.blocks()[0 if inputs[0] else 1], values)
        elif node.kind() == "prim::Loop":
            most, goes_on, *results = inputs
            count, body = 0, node.blocks()[0]
            while goes_on and count < most:
                values.update(zip(body.inputs(), [count, *results]))
                goes_on, *results = walk(body, values)
                count += 1
        elif node.kind() == "prim::CallFunction":
            callee = node.function.graph
            results = walk(callee, dict(zip(callee.inputs(), inputs[1:])))
        else:
            results = [OPERATORS[node.kind()](*inputs)]
        values.update(zip(node.outputs(), results, strict=True))
    return [values[v] for v in block.outputs()]


class Programs:
    """Makes random graphs of ints and bools.

    callees: the functions that they may call."""

    def __init__(self, seed, results=2, callees=()):
        self.draw, self.callees = random.Random(seed), callees
        self.graph = Graph()
        ints = [self.graph.addInput(f"x{i}").setType(INT) for i in range(3)]
        ints, _ = self.fill(self.graph, ints, [], 0)
        for value in self.draw.sample(ints, results):
            self.graph.registerOutput(value)

    def fill(self, block, ints, bools, depth):
        ints, bools = list(ints), list(bools)
        self.graph.setInsertPoint(block)
        bools.append(self.graph.insertConstant(self.draw.random() < 0.5))
        for _ in range(self.draw.randint(2, 6)):
            self.graph.setInsertPoint(block)
            kind = self.draw.choice(["constant", "add", "sub", "lt", "and", "if", "loop", "call"])
            if kind == "constant":
                ints.append(self.graph.insertConstant(self.draw.randint(-3, 3)))
            elif kind in ("add", "sub"):
                pair = [self.draw.choice(ints), self.draw.choice(ints)]
                ints.append(self.node(f"aten::{kind}", pair, INT))
            elif kind == "lt":
                pair = [self.draw.choice(ints), self.draw.choice(ints)]
                bools.append(self.node("aten::lt", pair, BOOL))
            elif kind == "and":
                pair = [self.draw.choice(bools), self.draw.choice(bools)]
                bools.append(self.node("aten::__and__", pair, BOOL))
            elif kind == "call":
                if self.callees:
                    ints.append(self.make_call(ints))
            elif depth < 3:
                made_ints, made_bools = getattr(self, f"make_{kind}")(ints, bools, depth)
                ints += made_ints
                bools += made_bools
        return ints, bools

    def node(self, kind, inputs, result):
        return self.graph.insert(kind, inputs).output().setType(result)

    def make_call(self, ints):
        given = [self.draw.choice(ints) for _ in range(3)]
        node = self.graph.insert("prim::CallFunction", [self.graph.insertConstant(None), *given])
        node.function = self.draw.choice(self.callees)
        return node.output().setType(INT)

    def make_if(self, ints, bools, depth):
        node = self.graph.insert("prim::If", [self.draw.choice(bools)], 3)
        for _ in range(2):
            block = node.addBlock()
            inner_ints, inner_bools = self.fill(block, ints, bools, depth + 1)
            for choices in (inner_ints, inner_ints, inner_bools):
                block.registerOutput(self.draw.choice(choices))
        a, b, c = node.outputs()
        return [a.setType(INT), b.setType(INT)], [c.setType(BOOL)]

    def make_loop(self, ints, bools, depth):
        most = self.graph.insertConstant(self.draw.randint(0, 4))
        carried = [self.draw.choice(ints), self.draw.choice(ints), self.draw.choice(bools)]
        node = self.graph.insert("prim::Loop", [most, self.draw.choice(bools), *carried], 3)
        body = node.addBlock()
        count = body.addInput().setType(INT)
        a, b, c = (body.addInput().setType(v.type()) for v in carried)
        inner_ints, inner_bools = self.fill(
            body, [*ints, count, a, b, a, b], [*bools, c, c], depth + 1
        )
        body.registerOutput(self.draw.choice(inner_bools))
        for choices in (inner_ints, inner_ints, inner_bools):
            body.registerOutput(self.draw.choice(choices))
        a, b, c = node.outputs()
        return [a.setType(INT), b.setType(INT)], [c.setType(BOOL)]


def as_tensors(block):
    """Calls all values tensors, whose slots are given on and cleared; they stay ints."""
    for value in block.inputs():
        value.setType(tritorch.schema.TensorType.get())
    for node in block.nodes():
        if node.kind().startswith("aten::"):
            overload = "bool" if node.kind() == "aten::__and__" else "int"
            node._schema = find(node.kind(), overload)
        for value in node.outputs():
            value.setType(tritorch.schema.TensorType.get())
        for inner in node.blocks():
            as_tensors(inner)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("block", range(10))
def test_random_programs_compute_what_a_walk_computes(block, typed):
    for seed in range(20 * block, 20 * block + 20):
        callees = [GraphFunction("g", Programs(seed + at, 1).graph) for at in (1000, 2000)]
        callees.append(GraphFunction("h", Programs(seed + 3000, 1, callees).graph))
        graph = Programs(seed, callees=callees).graph
        graph.lint()
        if not typed:
            for each in (graph, *(callee.graph for callee in callees)):
                as_tensors(each)
        run = runner(GraphFunction("f", graph))
        for inputs in ((1, 2, 3), (-5, 0, 4)):
            wanted = walk(graph, dict(zip(graph.inputs(), inputs)))
            assert list(run(*inputs)) == wanted, f"seed {seed}\n{graph}"


# ---- calls ---------------------------------------------------------------------------------------


def function(name, inputs, build, schema=None):
    """A function whose graph is built by build(graph, *inputs)."""
    graph = Graph()
    values = [graph.addInput(key).setType(kind) for key, kind in inputs.items()]
    graph.registerOutput(build(graph, *values))
    return GraphFunction(name, graph, None if schema is None else parse_schema(schema))


def test_a_call_of_a_known_function_is_inlined_and_its_branches_decided():
    def chosen(graph, x, flag):
        node = graph.insert("prim::If", [flag])
        node.output().setType(INT)
        for kind in ("aten::add", "aten::sub"):
            block = node.addBlock()
            graph.setInsertPoint(block)
            block.registerOutput(graph.insert(kind, [x, x]).output().setType(INT))
        return node.output()

    callee = function("callee", {"x": INT, "flag": BOOL}, chosen)

    def calls(graph, x):
        results = []
        for flag in (True, False):
            name = graph.insertConstant(None)
            node = graph.insert("prim::CallFunction", [name, x, graph.insertConstant(flag)])
            node.function = callee
            results.append(node.output().setType(INT))
        return graph.insert("aten::sub", results).output().setType(INT)

    run = runner(function("f", {"x": INT}, calls))
    assert run(21) == 42
    assert callee.runner is None  # it was never called


def test_callers_are_compiled_again_when_a_function_gets_another_graph():
    def called(graph, x, callee):
        node = graph.insert("prim::CallFunction", [graph.insertConstant(None), x])
        node.function = callee
        return node.output().setType(INT)

    def computed(kind):
        return lambda graph, x: graph.insert(kind, [x, x]).output().setType(INT)

    inner = function("inner", {"x": INT}, computed("aten::add"))
    middle = function("middle", {"x": INT}, lambda graph, x: called(graph, x, inner))
    outer = function("outer", {"x": INT}, lambda graph, x: called(graph, x, middle))
    assert runner(outer)(3) == 6
    inner.graph = function("inner", {"x": INT}, computed("aten::mul")).graph
    assert runner(outer)(3) == 9


def test_a_recursive_method_ends_with_an_error():
    kind = ScriptClassType("__torch__.A")
    graph = Graph()
    owner = graph.addInput("self").setType(kind)
    node = graph.insert("prim::CallMethod", [owner]).s_("name", "run")
    graph.registerOutput(node.output())
    kind.methods["run"] = GraphFunction("run", graph)
    with pytest.raises(RuntimeError, match="maximum recursion depth exceeded"):
        runner(kind.methods["run"])(ScriptObjectData(kind))


def module_type(name, build):
    kind = ScriptClassType(f"__torch__.{name}", True)
    graph = Graph()
    owner, x = graph.addInput("self").setType(kind), graph.addInput("x").setType(INT)
    graph.registerOutput(build(graph, owner, x))
    kind.methods["forward"] = GraphFunction("forward", graph, parse_schema("forward(int x) -> int"))
    return kind


def test_interfaces_are_called_by_the_object():
    def doubled(graph, owner, x):
        return graph.insert("aten::add", [x, x]).output().setType(INT)

    kind = module_type("Doubler", doubled)

    interface = InterfaceType("__torch__.I", True)

    def outer(graph, owner, x):
        node = graph.insert("prim::CallMethod", [owner, x]).s_("name", "forward")
        return node.output().setType(INT)

    for declared in (kind, interface):
        run = runner(function("f", {"m": declared, "x": INT}, outer))
        assert run(ScriptObjectData(kind), 3) == 6


def test_named_tuples_lists_and_dicts():
    kind = NamedTupleType("__torch__.P", ["a", "b"], [INT, types.ListType(INT)])

    def build(graph, x):
        items = graph.insert("prim::ListConstruct", [x, x]).output().setType(types.ListType(INT))
        graph.insert("aten::append", [items, x])
        return graph.insert("prim::TupleConstruct", [x, items]).output().setType(kind)

    run = runner(function("f", {"x": INT}, build))
    assert run(2) == kind.python(2, [2, 2, 2])
    assert run(3).b == [3, 3, 3]  # a list of constants would have kept the first call's


def test_a_list_of_constants_is_made_once_where_only_operators_read_it():
    def build(graph, x):
        sizes = [graph.insertConstant(size) for size in (2, 3)]
        shape = graph.insert("prim::ListConstruct", sizes).output().setType(types.ListType(INT))
        return graph.insert("aten::view", [x, shape]).output()

    run = runner(function("f", {"x": tritorch.schema.TensorType.get()}, build))
    assert run(tritorch.arange(6)).shape == (2, 3)


# ---- errors --------------------------------------------------------------------------------------


def raising(graph, x):
    message = graph.insertConstant("no good")
    graph.insert("prim::RaiseException", [message, graph.insertConstant("builtins.ValueError")], 0)
    return x


def test_an_exception_of_the_program_is_a_torch_jit_error():
    run = runner(function("f", {"x": INT}, raising))
    with pytest.raises(Error) as raised:
        run(1)
    assert str(raised.value).startswith(
        "The following operation failed in the TorchScript interpreter.\n"
        "Traceback of TorchScript (most recent call last):\n"
    )
    assert str(raised.value).endswith("builtins.ValueError: no good\n")


def test_the_traceback_names_inlined_functions_the_innermost_last():
    from tritorch.jit._sources import SourceRangeFactory

    source = SourceRangeFactory("a\nb\nc\n", "file.py", 7, 0)
    inner = function("inner", {"x": INT}, raising)
    for node in inner.graph.nodes():
        node.source = source.make_range(3, 0, 1)

    def calls(graph, x):
        node = graph.insert("prim::CallFunction", [graph.insertConstant(None), x])
        node.function, node.source = inner, source.make_range(1, 0, 1)
        return node.output().setType(INT)

    with pytest.raises(Error) as raised:
        runner(function("outer", {"x": INT}, calls))(1)
    text = str(raised.value)
    assert text.index('File "file.py", line 7, in outer') < text.index("line 9, in inner")


def test_errors_of_operators_are_runtime_errors_with_their_text():
    def build(graph, x):
        return graph.insert("aten::floordiv", [x, graph.insertConstant(0)]).output().setType(INT)

    made = function("f", {"x": INT}, build, "f(int x) -> int")
    with pytest.raises(RuntimeError, match=r"RuntimeError: division by 0\n$"):
        entry(made)((3,), {})


# ---- limits --------------------------------------------------------------------------------------


def endless(graph, x):
    true, most = graph.insertConstant(True), graph.insertConstant(2**62)
    node = graph.insert("prim::Loop", [most, true, x])
    body = node.addBlock()
    body.addInput().setType(INT)
    carried = body.addInput().setType(INT)
    graph.setInsertPoint(body)
    more = graph.insert("aten::add", [carried, carried]).output().setType(INT)
    body.registerOutput(true)
    body.registerOutput(more)
    graph.setInsertPoint(graph)
    return node.output().setType(INT)


def test_a_budget_ends_a_loop():
    run = runner(function("f", {"x": INT}, endless))
    with Budget(10_000), pytest.raises(RuntimeError, match="more steps than its budget"):
        run(1)


def test_a_budget_bounds_texts_of_containers():
    rows = [["x" * 500] * 500] * 500
    with Budget(100, elements=1000), pytest.raises(RuntimeError, match="larger than the budget"):
        text_of(rows)
    with Budget(100, elements=1000), pytest.raises(RuntimeError, match="larger than the budget"):
        formatted("{}{}", "x" * 600, "y" * 600)


def test_a_budget_counts_what_operators_of_lists_look_at():
    kind = types.ListType(types.ListType(INT))

    def build(graph, x):
        return graph.insert("aten::eq", [x, x]).output().setType(BOOL)

    rows = [[1] * 1000] * 1000
    made = function("f", {"x": kind}, build)
    made.graph.findNode("aten::eq")._schema = find("aten::eq", "int_list")
    with Budget(10_000), pytest.raises(RuntimeError, match="more steps than its budget"):
        runner(made)(rows)
    assert runner(made)(rows)


def test_a_budget_bounds_the_sizes_of_new_tensors():
    def build(graph, x):
        sizes = graph.insert("prim::ListConstruct", [x, x]).output().setType(types.ListType(INT))
        none = graph.insertConstant(None)
        return graph.insert("aten::zeros", [sizes, none, none, none, none]).output()

    run = runner(function("f", {"x": INT}, build))
    with Budget(100, elements=1000):
        assert run(10).shape == (10, 10)
        with pytest.raises(RuntimeError, match="larger than the budget"):
            run(1 << 40)


def test_calls_that_call_twice_are_not_inlined_without_end():
    made = function("f0", {"x": INT}, lambda graph, x: graph.insert("aten::add", [x, x]).output())
    for level in range(1, 25):

        def twice(graph, x, callee=made):
            for _ in range(2):
                node = graph.insert("prim::CallFunction", [graph.insertConstant(None), x])
                node.function = callee
                x = node.output().setType(INT)
            return x

        made = function(f"f{level}", {"x": INT}, twice)
    with Budget(10_000), pytest.raises(RuntimeError, match="more steps than its budget"):
        runner(made)(1)


@pytest.mark.parametrize("kind", ["list", "str", "range"])
def test_a_budget_bounds_what_repetition_makes(kind):
    def build(graph, x):
        if kind == "list":
            items = graph.insert("prim::ListConstruct", [x]).output().setType(types.ListType(INT))
            return graph.insert("aten::mul", [items, x]).output()
        if kind == "str":
            text = graph.insertConstant("x")
            fill = graph.insertConstant(" ")
            return graph.insert("aten::center", [text, x, fill]).output().setType(STR)
        return graph.insert("prim::rangelist", [x]).output()

    run = runner(function("f", {"x": INT}, build))
    assert len(run(5)) == 5
    with Budget(100, elements=1000):
        assert len(run(1000)) == 1000
        with pytest.raises(RuntimeError, match="larger than the budget"):
            run(10**15)
