"""What differs between eager and compiled runs of a program, and the smallest such program."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tritorch as torch

from .random_programs import Program
from .worlds import Seen, observe


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes {value[:16].hex(' ', 4)}"
    text = repr(value)
    return text if len(text) <= 160 else text[:160] + "..."


_NODE = re.compile(r",(\s|\\n)*grad_fn=<\w+>")
_WHOSE = re.compile(r"(, which is o| is at version ).*")


def _alike(path: str, one: Any, other: Any, seen: Seen, near: float) -> bool:
    """Whether two things that are seen are the same: a node of what was compiled has a name of its
    own, as in PyTorch.  near: how near numbers have to be."""
    if isinstance(one, str) and isinstance(other, str):
        texts = [_WHOSE.sub("", " ".join(_NODE.sub("", text).split())) for text in (one, other)]
        return texts[0] == texts[1]
    if near and isinstance(one, tuple) and one[:1] == ("float",) == other[:1]:
        a, b = float.fromhex(one[1].strip("'")), float.fromhex(other[1].strip("'"))
        return bool(np.isclose(a, b, near, near, equal_nan=True))
    if near and isinstance(one, tuple) and one[:1] == ("ndarray",) and one[:3] == other[:3]:
        return _near(one[3], other[3], one[1], near)
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(_alike(path, a, b, seen, near) for a, b in zip(one, other))
    layout = seen.get(path.removesuffix(".contents") + ".layout")
    if near and isinstance(one, bytes) and isinstance(other, bytes) and layout:
        return _near(one, other, layout[0].rsplit(".")[-1], near)
    return one == other


_NARROW = {"bfloat16": 2**-6, "float16": 2**-9}  # seen as float32


def _near(one: bytes, other: bytes, kind: str, near: float) -> bool:
    """Whether numbers are near each other, of a kind that rounds so; narrow ones, two roundings."""
    if kind not in ("float32", "float64", *_NARROW) or len(one) != len(other):
        return one == other
    if kind in _NARROW:
        kind, near = "float32", max(near, _NARROW[kind])
    a, b = np.frombuffer(one, kind), np.frombuffer(other, kind)
    return np.allclose(a, b, near, near, equal_nan=True)


def _numbers(path: str, value: Any, seen: Seen) -> str:
    """The numbers of a tensor's contents, where their type is known."""
    layout = seen.get(path.removesuffix(".contents") + ".layout")
    if not isinstance(value, bytes) or not layout:
        return _short(value)
    name = layout[0].rsplit(".")[-1]
    name = "float32" if name in ("bfloat16", "float16") else name
    return _short(np.frombuffer(value, name).tolist())


def differences(eager: list[Seen], compiled: list[Seen], near: float = 0.0) -> list[str]:
    """A line for each thing that is seen otherwise."""
    found = []
    for index, (one, other) in enumerate(zip(eager, compiled)):
        if " backward: " in one["error"] and _WHOSE.sub("", one["error"]) == _WHOSE.sub(
            "", other["error"]
        ):
            break  # how far a pass came that raises is nobody's promise
        when = f"call {index}" if index < len(eager) - 1 else "at the end"
        for path in dict.fromkeys([*one, *other]):
            if path not in one or path not in other:
                found.append(
                    f"{when}, {path}: only in the {'eager' if path in one else 'compiled'} run"
                )
            elif not _alike(path, one[path], other[path], one, near):
                first, second = _numbers(path, one[path], one), _numbers(path, other[path], other)
                found.append(f"{when}, {path}: eager {first}, compiled {second}")
    return found


def compare(
    program: Program,
    compiler: Callable | None = None,
    device: str = "cpu",
    eager: list[Seen] | None = None,
    near: float = 0.0,
) -> list[str]:
    """What differs between eager and compiled; the eager half may be known already.

    near: how near numbers have to be, if not the same."""
    if eager is None:
        eager = observe(program, None, device)
    found: list[str] = []
    for _ in range(1 + program.again):
        try:
            compiled = observe(program, compiler or torch.compile, device)
        except Exception as error:
            return [f"the compiled world raised {type(error).__name__}: {error}"]
        found = found or differences(eager, compiled, near)
    return found


def failing(
    program: Program, compiler: Callable | None = None, device: str = "cpu", near: float = 0.0
) -> list[str]:
    """What differs, for a program that has all names that it uses: not every part of one has."""
    eager = observe(program, None, device)
    if any("NameError" in seen["error"] or "UnboundLocal" in seen["error"] for seen in eager):
        return []
    return compare(program, compiler, device, eager, near)


# -- the smallest program --------------------------------------------------------------------------


def _bodies(tree: ast.AST) -> Iterator[list]:
    """The statement lists of a program, inner ones too, outermost first."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _reductions(source: str) -> Iterator[str]:
    """The program without some statements, without what stands around some, returning less."""
    tree = ast.parse(source)
    for number, body in enumerate(_bodies(tree)):
        for length in sorted({len(body), len(body) // 2, 3, 2, 1}, reverse=True):
            for start in range(len(body) - length, -1, -1) if length else ():
                smaller = copy.deepcopy(tree)
                inner = list(_bodies(smaller))[number]
                inner[start : start + length] = [] if len(inner) > length else [ast.Pass()]
                yield ast.unparse(ast.fix_missing_locations(smaller))
        for start, statement in enumerate(body):
            if isinstance(statement, ast.With | ast.If | ast.For | ast.Try):
                smaller = copy.deepcopy(tree)
                inner = list(_bodies(smaller))[number]
                inner[start : start + 1] = inner[start].body
                yield ast.unparse(ast.fix_missing_locations(smaller))
            if isinstance(statement, ast.Return) and isinstance(
                statement.value, ast.Tuple | ast.List | ast.Dict
            ):
                parts = statement.value
                for part in parts.values if isinstance(parts, ast.Dict) else parts.elts:
                    smaller = copy.deepcopy(tree)
                    list(_bodies(smaller))[number][start] = ast.Return(part)
                    yield ast.unparse(ast.fix_missing_locations(smaller))


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that are a little smaller in one way."""
    for count in range(1, len(program.calls)):
        yield program.but(calls=program.calls[:count])
    for index in range(1, len(program.calls)):
        if program.calls[index] != program.calls[index - 1]:
            same = list(program.calls)
            same[index] = same[index - 1]
            yield program.but(calls=tuple(same))
    simplest = {
        "backward": "none",
        "again": False,
        "writing": False,
        "held": False,
        "watched": True,
    }
    for name, value in simplest.items():
        if getattr(program, name) != value:
            yield program.but(**{name: value})
    for source in _reductions(program.source):
        if source + "\n" != program.source:
            yield program.but(source=source + "\n")


def minimise(program: Program, fails: Callable[[Program], Any], attempts: int = 600) -> Program:
    """The smallest program found that still fails: each step takes away what is not needed."""
    going = True
    while going:
        going = False
        for candidate in _smaller(program):
            attempts -= 1
            if attempts < 0:
                return program
            try:
                failing = fails(candidate)
            except Exception:  # what is left is no program: a name or an input is missing
                continue
            if failing:
                program, going = candidate, True
                break
    return program


def report(
    program: Program, compiler: Callable | None = None, device: str = "cpu", shrink: bool = True,
    near: float = 0.0,
) -> str:  # fmt: skip
    """A failing program in its smallest form, and what differs."""
    if shrink:
        program = minimise(program, lambda p: failing(p, compiler, device, near))
    found = compare(program, compiler, device, near=near)
    lines = [f"{len(found)} differences", *found[:12], "", str(program)]
    return "\n".join(lines)
