"""Graphs as text, and texts as graphs: PyTorch's own texts are read and written again."""

import re
from pathlib import Path

import pytest

import tritorch
from tritorch.jit._sources import SourceRangeFactory
from tritorch.jit.ir.graph import Graph
from tritorch.jit.ir.parsing import parse_ir
from tritorch.jit.ir.types import InterfaceType, ScriptClassType, ScriptEnumType
from tritorch.schema import ListType, TensorType, types

RECORDED = (Path(__file__).parent / "recorded_graphs.txt").read_text(encoding="ascii")
INTERFACES, ENUMS = ("Runs",), ("Color",)


class Types(dict):
    """Types that texts name, made when they are asked for."""

    def __missing__(self, name):
        stem = name.rpartition(".")[2]
        if stem in INTERFACES:
            kind = InterfaceType(name)
        elif stem in ENUMS:
            kind = ScriptEnumType(name, types.IntType.get(), {"RED": 1, "GREEN": 2})
        else:
            kind = ScriptClassType(name)
        self[name] = kind
        return kind


def normal(text):
    """The text without places, its unnamed values numbered from 0."""
    numbers = {}
    text = re.sub(r" # \S+:\d+:\d+\n", "\n", text)
    return re.sub(r"%(\d+)\b", lambda m: f"%{numbers.setdefault(m[1], len(numbers))}", text)


GRAPHS = RECORDED.split("\ngraph(")


@pytest.mark.parametrize("number", range(len(GRAPHS)))
def test_recorded_graphs_are_read_and_written_as_they_are(number):
    text = ("graph(" if number else "") + GRAPHS[number].rstrip("\n") + "\n"
    graph = parse_ir(text, Types().__getitem__)
    assert normal(str(graph)) == normal(text)
    assert normal(str(graph.copy())) == normal(text)
    graph.lint()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1."),
        (0.1, "0.10000000000000001"),
        (1e10, "10000000000"),
        (-0.0, "-0."),
        (float("inf"), "inf"),
        (1 + 2.5j, "1.+2.5j"),
        (True, "1"),
        ("a'b\"c\\n\n é", r'"a\'b\"c\\n\n \0)+\/.)"'),
        ([1, 2], "[1, 2]"),
        ([], "[]"),
        ([True, False], "[True, False]"),
        ([None, 1], "annotate(List[Optional[int]], [None, 1])"),
        ((1,), "(1,)"),
        ({"a": [1.0, 2.0]}, '{"a": [1., 2.]}'),
        ({1: 2.5}, "{1: 2.5}"),
        (tritorch.device("cpu"), '"cpu"'),
        ((tritorch.device("cpu"), None), '(torch.device("cpu"), None)'),
        (tritorch.tensor(2.5), "{2.5}"),
        (tritorch.tensor([True]), "{1}"),
        (tritorch.tensor(1e10), "{1e+10}"),
        (tritorch.tensor(1 + 2j), "{(1,2)}"),
        (tritorch.arange(20.0), "<Tensor>"),
        (tritorch.arange(6.0).view(2, 3), " 0  1  2  3  4  5 [ CPUFloatType{2,3} ]"),
        (tritorch.tensor([-1.5, 2]), "-1.5000  2.0000 [ CPUFloatType{2} ]"),
        (tritorch.tensor([1.5, 1e-7, 1e8]),
         " 1.5000e+00  1.0000e-07  1.0000e+08 [ CPUFloatType{3} ]"),
        (tritorch.tensor([1e6 + 0.5, 2e5]), "1000000 *  1.0000  0.2000 [ CPUFloatType{2} ]"),
        (tritorch.arange(8).view(2, 2, 2),
         "(1,.,.) =   0  1   2  3  (2,.,.) =   4  5   6  7 [ CPULongType{2,2,2} ]"),
        (tritorch.ones(0), "[ CPUFloatType{0} ]"),
        ([tritorch.ones(2)], "[<Tensors>]"),
        ([types.IntType.get(), ListType.ofInts()], "[int, int[]]"),
    ],
)  # fmt: skip
def test_attributes_are_written_as_in_pytorch(value, text):
    graph = Graph()
    node = graph.insert("prim::X")
    node.set("a", value)
    assert str(node) == f"%0 : Tensor = prim::X[a={text}]()\n"


def test_types_show_what_is_known_of_tensors():
    graph = Graph()
    x = graph.addInput("x")
    x.inferTypeFrom(tritorch.ones(2, 3))
    text = "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"
    assert str(graph) == f"graph(%x : {text}):\n  return ()\n"
    x.setType(TensorType.get().with_dtype(tritorch.int64))
    assert str(graph) == "graph(%x : LongTensor):\n  return ()\n"
    x.setType(TensorType.get().with_sizes((2, None)))
    assert str(graph) == "graph(%x : Tensor(2, *)):\n  return ()\n"


def test_places_are_written_behind_nodes_and_in_blocks_always():
    source = SourceRangeFactory("a\n  b\n", "f.py", 5, 0)
    graph = Graph()
    graph._source = source.make_range(2, 2, 3)
    condition = graph.insertConstant(True)
    node = graph.insert("prim::If", [condition], 0)
    for _ in range(2):
        node.addBlock().addNode("aten::rand")
    lines = graph.str(False).splitlines()
    assert lines[1] == "  %0 : bool = prim::Constant[value=1]()"
    assert lines[4] == "      %1 : Tensor = aten::rand() # f.py:6:2"
    assert graph.str().splitlines()[1].endswith("() # f.py:6:2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph(%x : Tensor):\n  return (%y)\n", "a value that was computed before"),
        ("graph(%x : Tensor):\n  %y = aten::f(%x\n", "expected ','"),
        ("graph(%x : __torch__.M):\n  return ()\n", "there is no type __torch__.M"),
        ("graph():\n  %t : Tensor = prim::Constant[value=<Tensor>]()\n  return ()\n", "elements"),
        ("graph(%x : Tensor):\n  %y : Tensor = ^f()(%x)\n  return ()\n", "Python's functions"),
        ("nothing", "expected 'graph'"),
    ],
)
def test_texts_that_are_no_graphs_are_refused(text, message):
    with pytest.raises(RuntimeError, match=re.escape(message)):
        parse_ir(text)
