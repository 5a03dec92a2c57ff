"""_C.pyi says what the module has: no more, no less, with the same parameters."""

import ast
import inspect
import pathlib
import re

import pytest

import tritorch
from tritorch import _C

STUB = ast.parse((pathlib.Path(tritorch.__file__).parent / "_C.pyi").read_text())


def declared(body):
    return {
        node.name: node
        for node in body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__")
    }


def public(owner):
    """Of a module, without files of Python that some import put there."""
    return {
        name
        for name, value in vars(owner).items()
        if not name.startswith("__")
        and not (inspect.ismodule(value) and hasattr(value, "__file__"))
    }


def test_every_name_is_declared_and_every_declared_name_is_there():
    fields = {n.target.id for n in STUB.body if isinstance(n, ast.AnnAssign)} - {"_Array"}
    assert declared(STUB.body).keys() | fields == public(_C)


CLASSES = [
    "Array", "CpuGenerator", "Event", "Graph", "Launcher", "Kernel", "distributed", "simulator",
]  # fmt: skip
PLAIN = ["Shared", "TensorBase", "NodeBase", "OperatorBase"]  # their fields are not all public


@pytest.mark.parametrize("name", CLASSES)
def test_every_member_is_declared_and_every_declared_member_is_there(name):
    import tritorch.cuda  # noqa: F401  (adds the Python half of Array)

    nodes = declared(STUB.body)[name].body
    fields = {n.target.id for n in nodes if isinstance(n, ast.AnnAssign)}
    assert declared(nodes).keys() | fields == public(getattr(_C, name))


@pytest.mark.parametrize("name", PLAIN)
def test_every_field_of_the_tensor_types_is_declared(name):
    nodes = declared(STUB.body)[name].body
    fields = {n.target.id for n in nodes if isinstance(n, ast.AnnAssign)}
    assert declared(nodes).keys() | fields == public(getattr(_C, name))


def parameters(node):
    arguments = node.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def nanobind_parameters(function):
    signature = function.__doc__.splitlines()[0]
    inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
    return re.findall(r"(?:^|, )\*?(\w+):", inside)


@pytest.mark.parametrize("name", sorted(declared(STUB.body)))
def test_parameters_have_the_same_names(name):
    node, value = declared(STUB.body)[name], getattr(_C, name)
    if isinstance(node, ast.FunctionDef) and type(value).__name__ == "nb_func":
        assert parameters(node) == nanobind_parameters(value)
    for member, method in declared(getattr(node, "body", [])).items():
        actual = inspect.getattr_static(value, member)
        if type(actual).__name__ in ("nb_func", "nb_method") and isinstance(
            method, ast.FunctionDef
        ):
            names = [p for p in parameters(method) if p != "self"]
            if not method.args.vararg:
                assert names == nanobind_parameters(actual), member
