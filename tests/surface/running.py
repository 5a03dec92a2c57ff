"""Runs families of expressions in a process of its own, and writes what each gives as JSON.

    python -m tests.surface.running torch      with the real torch
    python -m tests.surface.running            with tritorch as torch

An expression may have statements before it, apart by "; ".  What it gives is its value's repr, or
the error's type and text, and behind it the warnings: their category and first words.  Errors that
list overloads are cut before the list.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import re
import sys
import warnings
from typing import Any

WORDS = 8  # of a warning that are compared
# Modules that load at the first use: loaded here, or each line's process would load them.
LATE = (
    "torch._dynamo.backends.inductor", "torch._functorch.aot_autograd", "torch._library.fake_impl",
    "torch._subclasses.fake_tensor", "torch._awaits", "torch.backends", "torch.cpu",
    "torch.fx.experimental.proxy_tensor", "torch.futures", "torch.masked", "torch.nested",
    "torch.utils.data._utils.worker", "torch.utils._foreach_utils", "torch.export",
    "tritorch.compat.legacy_operators.internal", "tritorch.compat.legacy_operators.layers",
    "tritorch.compat.legacy_operators.matrices",
)  # fmt: skip
# Addresses and paths differ from run to run.
_HEX = re.compile(r"0x[0-9a-f]+")
_MODULE = re.compile(r"<module '([^']*)' from '[^']*'>")
_INTERNAL = re.compile(r" \(Triggered internally at [^)]*\)")
_ANY_PATH = re.compile(r"(/[\w.+-]+)+/(site-packages/)?")


# Classes of errors that PyTorch lacks: they stand for the first class that they derive from.
_OURS = ("CudaUnavailableError", "UnfitError")


def _kind(error: Exception) -> str:
    return next(k.__name__ for k in type(error).__mro__ if k.__name__ not in _OURS)


def evaluated(source: str, space: dict[str, Any]) -> str:
    """What a line gives, as text."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as seen, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            tree = ast.parse(source)
            last = tree.body.pop()
            assert isinstance(last, ast.Expr), source
            exec(compile(tree, "<case>", "exec"), space)
            value = eval(compile(ast.Expression(last.value), "<case>", "eval"), space)
            text = repr(value)
        except Exception as error:
            text = f"{_kind(error)}: {error}".partition(" received an invalid comb")[0]
    text += printed.getvalue()
    text = _INTERNAL.sub("", text)  # where a C++ file warns
    for each in seen:
        words = " ".join(str(each.message).split()[:WORDS])
        text += f"\n{each.category.__name__}: {words}"
    text = text.replace("tritorch", "torch")
    text = _MODULE.sub(r"<module '\1'>", text)
    return _ANY_PATH.sub("", _HEX.sub("0x", text))


def apart(line: str, space: dict[str, Any]) -> str:
    """What a line gives in a forked process: what it sets, and once-only warnings, stay there."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with open(writing, "w") as file:
            file.write(evaluated(line, space))
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"process died: {status}"


def main() -> None:
    """Runs all families, or those that are named."""
    chosen = sys.argv[1:]
    if chosen[:1] == ["torch"]:
        chosen = chosen[1:]
    else:
        from tritorch.compat import as_torch

        as_torch.as_torch()
        for name in LATE:
            importlib.import_module(name)
    from tests.surface.cases import FAMILIES, PREPARE

    space: dict[str, Any] = {}
    exec(PREPARE, space)
    results: dict[str, dict[str, str]] = {}
    for family, lines in FAMILIES.items():
        if chosen and family not in chosen:
            continue
        results[family] = {}
        for line in lines:
            results[family][line] = apart(line, space)
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
