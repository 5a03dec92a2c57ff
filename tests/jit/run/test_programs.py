"""Runs of scripted programs: with statements, forks, Python's functions, memory."""

import gc
import warnings
import weakref
from typing import Any

import pytest

import tritorch
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Graph
from tritorch.jit.run.executor import runner


def script(program):
    """torch.jit.script without the warning that it is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return tritorch.jit.script(program)


scripted = tritorch.jit.CompilationUnit


@script
class Logged:
    def __init__(self, log: list[str], name: str) -> None:
        self.log = log
        self.name = name

    def __enter__(self) -> int:
        self.log.append("enter " + self.name)
        return 5

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.log.append("exit " + self.name)


def test_a_with_statement_is_left_when_its_body_raises():
    log: list[str] = []

    def nested(log: list[str], fails: bool) -> int:
        with Logged(log, "a"):  # noqa: SIM117
            with Logged(log, "b") as n:
                if fails:
                    raise ValueError("no")
        return n

    function = script(nested)
    kept = tritorch.jit._containers.ScriptList(["begin"])
    assert function(kept, False) == 5
    assert list(kept) == ["begin", "enter a", "enter b", "exit b", "exit a"]
    kept.clear()
    with pytest.raises(tritorch.jit.Error):
        function(kept, True)
    assert list(kept) == ["enter a", "enter b", "exit b", "exit a"]
    assert log == []


def test_a_fork_raises_where_it_is_waited_for():
    def fails(x: tritorch.Tensor) -> tritorch.Tensor:
        return x.view(7)

    def main(x: tritorch.Tensor) -> tritorch.Tensor:
        later = tritorch.jit.fork(fails, x)
        return tritorch.jit.wait(later)

    with pytest.raises(RuntimeError, match="invalid for input of size 2"):
        script(main)(tritorch.ones(2))


def python_node(graph, function, inputs):
    node = graph.insert("prim::PythonOp", inputs)
    node.set("function", function)
    return node.output()


def test_intermediate_tensors_are_freed_after_their_last_use():
    alive = []

    def remember(x):
        made = x + 1
        alive.append(weakref.ref(made))
        return made

    def look(x):
        gc.collect()
        counts.append(sum(ref() is not None for ref in alive))
        return x + 1

    counts: list[int] = []
    graph = Graph()
    x = graph.addInput("x")
    value = x
    for _ in range(4):
        value = python_node(graph, remember, [value])
        value = python_node(graph, look, [value])
    graph.registerOutput(value)
    run = runner(GraphFunction("f", graph))
    assert run(tritorch.zeros(1)).item() == 8
    assert max(counts) == 1


def test_what_python_raises_is_shown_with_its_class_and_line():
    def fails(x):
        raise KeyError("k")

    graph = Graph()
    x = graph.addInput("x")
    graph.registerOutput(python_node(graph, fails, [x]))
    with pytest.raises(
        RuntimeError, match=r"RuntimeError: KeyError: 'k'\n\nAt:\n  .*\(\d+\): fails"
    ):
        runner(GraphFunction("f", graph))(tritorch.ones(1))


def test_results_of_python_are_of_the_declared_type():
    graph = Graph()
    x = graph.addInput("x")
    graph.registerOutput(python_node(graph, lambda x: 3, [x]))
    with pytest.raises(RuntimeError, match="expected value of type Tensor for return value but"):
        runner(GraphFunction("f", graph))(tritorch.ones(1))


def test_autocast_and_function_modes_see_the_operators_of_a_program():
    unit = scripted("def f(x: Tensor, y: Tensor) -> Tensor:\n    return torch.mm(x, y)\n")
    x = tritorch.ones(2, 2)
    with tritorch.autocast("cpu", dtype=tritorch.bfloat16):
        assert unit.f(x, x).dtype == tritorch.bfloat16

    class Seen(tritorch.overrides.TorchFunctionMode):
        names = ()

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Seen.names += (func.__name__,)
            return func(*args, **(kwargs or {}))

    with Seen():
        unit.f(x, x)
    assert Seen.names == ("mm",)


def test_gradients_and_vmap_go_through_a_program():
    unit = scripted("def f(x: Tensor) -> Tensor:\n    return (x * x).sum()\n")
    x = tritorch.arange(3.0).requires_grad_()
    unit.f(x).backward()
    assert x.grad.tolist() == [0, 2, 4]
    rows = tritorch.arange(6.0).view(2, 3)
    assert tritorch.vmap(unit.f)(rows).tolist() == [5, 50]
