"""Jit functions of source that was written while a program ran.

Triton reads a function's source from its file.  Ours has one beside the compiled kernels, where
errors and debuggers find it; where nothing can be written, `linecache` has the text.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import linecache
import os
from typing import Any

from tritorch.triton import cache, names

# What each source was first written for: comments at the end of its file, which change neither its
# lines nor what it is compiled to.
origins: dict[str, str] = {}
sources: dict[str, str] = {}  # of functions that were made, by their module's name


def _file(source: str, digest: str) -> str:
    root = cache.root()
    if root is not None:
        path = root / "written" / f"{digest}.py"
        beside = path.with_name(f".{digest}.{os.uname().nodename}.{os.getpid()}")
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                beside.write_text(source, encoding="utf-8")
                os.replace(beside, path)
            if path.read_text(encoding="utf-8").startswith(source.partition("\n# For ")[0]):
                return str(path)
        except OSError:
            pass
    name = f"<written {digest}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    return name


def _is_plain(source: str) -> bool:
    """Whether a source does nothing but define a jit function, of Triton's and of kernels/: it may
    come from a file."""
    module = ast.parse(source)
    *imports, found = module.body[ast.get_docstring(module) is not None :]
    for each in imports:
        if isinstance(each, ast.Import):
            if any(alias.name not in ("triton", "triton.language") for alias in each.names):
                return False
        elif (
            not isinstance(each, ast.ImportFrom)
            or each.level
            or not (each.module or "").startswith("tritorch.kernels.")
        ):
            return False
    if not isinstance(found, ast.FunctionDef) or found.returns is not None:
        return False
    given, (decorator, *others) = found.args, found.decorator_list
    if others or given.defaults or given.vararg or given.kwarg:
        return False
    if given.posonlyargs or given.kwonlyargs:
        return False
    if any(ast.unparse(x.annotation) != "tl.constexpr" for x in given.args if x.annotation):
        return False
    options = []
    if isinstance(decorator, ast.Call):
        options = [*decorator.args, *(each.value for each in decorator.keywords)]
        decorator = decorator.func
    constant = (ast.List, ast.Constant, ast.Load)
    return ast.unparse(decorator) == "triton.jit" and all(
        isinstance(node, constant) for option in options for node in ast.walk(option)
    )


@functools.lru_cache(1024)
def function(source: str) -> Any:
    """The one function that a source defines; for `names.Name`."""
    if not _is_plain(source):
        raise ValueError(f"this is more than a kernel:\n{source}")
    digest = hashlib.sha256(source.encode()).hexdigest()[:20]
    space: dict[str, Any] = {"__name__": f"tritorch_written_{digest}"}
    text = source + origins.get(source, "")
    exec(compile(source, _file(text, digest), "exec"), space)
    sources[space["__name__"]] = source
    (found,) = (x for x in space.values() if getattr(x, "__module__", "") == space["__name__"])
    return found


def named(source: str) -> names.Name:
    """The function of a source, as launches carry it."""
    return names.named("tritorch.triton.written", "function", source)
