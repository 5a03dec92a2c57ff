"""Scopes, of which all that is set for a time is made: Note [Scopes] in src/scopes.cpp."""

from __future__ import annotations

import ast
import functools
import importlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import tritorch
from tests.interrupts import points
from tritorch import _C
from tritorch.core.scopes import Scope, ScopeItself, scoped, set_back, sets

PACKAGE = Path(tritorch.__file__).parent


def test_changes_are_set_and_set_back():
    box = SimpleNamespace(a=1)
    scope = Scope((box, "a", 2), (box, "b", 3), (_C.set_grad_enabled, False))
    with scope:
        assert (box.a, box.b, tritorch.is_grad_enabled()) == (2, 3, False)
        with scope:
            assert scope.prev == 2
        assert (box.a, box.b) == (2, 3)
    assert vars(box) == {"a": 1} and tritorch.is_grad_enabled()


def test_what_fails_half_way_is_taken_back():
    box = SimpleNamespace(a=1)
    with pytest.raises(TypeError), Scope((box, "a", 2), (_C.unfollow, "no number")):
        pass
    assert box.a == 1
    with pytest.raises(RuntimeError, match="not entered"):
        Scope().__exit__(None, None, None)


def test_all_is_set_back_whatever_fails():
    box = SimpleNamespace(a=1)

    def fail():
        raise ValueError("once")

    with pytest.raises(ValueError, match="once"), Scope((box, "a", 2), set_back(fail)):
        pass
    assert box.a == 1


def test_a_python_function_that_sets_back_is_called_again_where_it_is_interrupted():
    called = []

    def back():
        called.append(None)
        len(called)
        called[0] = "done"

    def run():
        with Scope(set_back(back)):
            pass

    for place in range(points.count(run)):
        called.clear()
        points.interrupt(run, place)
        assert not called or called[0] == "done"


def test_threads_leave_what_they_have_entered():
    scope = Scope((_C.set_grad_enabled, False))
    inside, done = threading.Event(), threading.Event()

    def other():
        with tritorch.no_grad(), scope:
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    with scope:
        thread.start()
        assert inside.wait(10)
    assert tritorch.is_grad_enabled()
    done.set()
    thread.join()


class Around(ScopeItself):
    """A class with an `__enter__` in Python around the native one."""

    changes = ((_C.set_grad_enabled, False),)

    def __enter__(self):
        len("before")
        super().__enter__()
        len("after")
        return self

    def __exit__(self, *exception):
        len("before")
        super().__exit__(*exception)
        len("after")


class Mode(tritorch.overrides.TorchFunctionMode):
    """A mode of a program, with more to do when it is entered."""

    def __enter__(self):
        super().__enter__()
        len("after")
        return self


@scoped
def made():
    return Scope((_C.set_grad_enabled, False))


@made()
def decorated():
    return len("inside")


@tritorch.no_grad()
def decorated_by_mode():
    return len("inside")


@pytest.mark.parametrize(
    "enter",
    [
        tritorch.no_grad, tritorch.inference_mode, lambda: tritorch.set_grad_enabled(False),
        lambda: tritorch.autocast("cpu"), Around, Mode, made,
        lambda: tritorch.autograd.set_detect_anomaly(True),
        lambda: tritorch.random.fork_rng(), lambda: tritorch.device("meta"),
    ],
)  # fmt: skip
def test_no_place_of_a_with_leaves_anything_set(enter):
    def state():
        return (
            tritorch.is_grad_enabled(), tritorch.is_inference_mode_enabled(),
            tritorch.is_autocast_enabled("cpu"), tritorch.is_anomaly_enabled(),
            tritorch.get_default_device(), tritorch.overrides._get_current_function_mode_stack(),
        )  # fmt: skip

    def run():
        with enter():
            len("inside")
        decorated()
        decorated_by_mode()

    run()
    before = state()
    for place in range(points.count(run)):
        points.interrupt(run, place)
        assert state() == before, place


def test_what_a_call_has_set_stays():
    tritorch.set_grad_enabled(False)
    assert not tritorch.is_grad_enabled()
    tritorch.set_grad_enabled(True)
    assert tritorch.is_grad_enabled()


# ---- the package ---------------------------------------------------------------------------------


@functools.cache
def _files():
    return [
        (path, ast.parse(text)) for path in sorted(PACKAGE.rglob("*.py"))
        if "finally:" in (text := path.read_text()) or "def __enter__" in text
    ]  # fmt: skip


def _root(node):
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


_CHANGING = {"append", "acquire", "release", "__enter__", "__exit__", "set_state"}


def _sets(statements, own=("self",)):
    """The names of what statements set that is not their object's own, or of a list of it."""
    for node in (each for statement in statements for each in ast.walk(statement)):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign) else targets
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(each, ast.Attribute) and _root(each) not in own:
                    yield ast.unparse(each)
        if isinstance(node, ast.Global):
            yield from node.names
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            native = _root(node.func) == "_C" and name.startswith(
                ("set_", "unfollow", "hold_flushes")
            )
            if native or (name in _CHANGING and "super" not in ast.unparse(node.func)):
                yield ast.unparse(node.func)


def test_classes_that_set_something_are_scopes():
    for path, tree in _files():
        for cls in tree.body:
            if not isinstance(cls, ast.ClassDef):
                continue
            methods = [
                each for each in cls.body
                if isinstance(each, ast.FunctionDef) and each.name in ("__enter__", "__exit__")
            ]  # fmt: skip
            found = [name for each in methods for name in _sets(each.body)]
            if not found:
                continue
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            module = importlib.import_module(".".join(p for p in parts if p != "__init__"))
            kind = getattr(module, cls.name)
            assert issubclass(kind, _C.Scope), (path, cls.name, found)


def test_nothing_native_is_set_back_by_finally():
    found = [
        (str(path), node.lineno, names)
        for path, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        and (names := [n for n in _sets(node.finalbody) if n.startswith("_C.")])
    ]
    assert not found


def test_python_functions_change_through_scopes():
    """`sets` is for what a `set_back` before it takes back."""
    box = SimpleNamespace(a=1)
    with Scope(set_back(setattr, box, "a", 1), sets(setattr, box, "a", 2)):
        assert box.a == 2
    assert box.a == 1
