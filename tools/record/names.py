#!/usr/bin/env python3
"""Records the names of PyTorch, module by module, in tritorch/compat/names.txt.

    PYTHON_WITH_TORCH tools/record/names.py                     write the file
    PYTHON_WITH_TORCH tools/record/names.py --check [PYTHON]    import them all from its tritorch

One line a module, private ones and those of the extension too, without the leading "torch":

    path: name ~inner +moved; home name as=original; >typing Any; @torch . @F nn.functional

What stands before the first ";" is the module's own, or of no place that is known; after that come
names of objects that live in another module: in one of PyTorch (`home`, the shortest public path),
in one of anybody else (`>`).  `@` lists modules under the names that they have here, and `>@` those
that are not PyTorch's.  "~" marks a name that the module does not offer (merely uses); "+" one that
was defined here and is known by a package around (torch.nn.Linear in torch.nn.modules.linear).
Of the module's own names, `^` lists the classes, `!` the exceptions, `*` enumerations with their
members, and `#` those that are a number, a word or None, with what they are; the others are
functions and all else.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recording import ROOT, parser

TARGET = ROOT / "tritorch" / "compat" / "names.txt"
_PLAIN = (types.BuiltinFunctionType, types.MethodType)  # torch.add and friends: of no module
_SHARED = (type, types.FunctionType, *_PLAIN)  # what has one place, whoever else imports it


def files(root: Path) -> Iterator[tuple[str, Path]]:
    """The path below torch of every file of Python there, as a module."""
    for file in sorted(root.rglob("*.py")):
        parts = list(file.relative_to(root).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if parts and parts[-1] != "__main__" and all(part.isidentifier() for part in parts):
            if parts[0] not in ("bin", "include", "lib", "share"):
                yield ".".join(parts), file


def written(file: Path) -> tuple[set[str], set[str]]:
    """What a file defines or imports at its top; and what of it only some builds get."""
    try:
        tree = ast.parse(file.read_text())
    except SyntaxError:  # of a newer Python
        return set(re.findall(r"^(?:def|class) (\w+)", file.read_text(), re.MULTILINE)), set()
    every: set[str] = set()
    sometimes: set[str] = set()
    deleted: set[str] = set()

    def visit(body: list[Any], found: tuple[set[str], ...]) -> None:
        for node in body:
            mine: set[str] = set()
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                mine.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                mine |= {(a.asname or a.name).split(".")[0] for a in node.names}
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                mine |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
            elif isinstance(node, ast.Delete):
                deleted.update(n.id for n in node.targets if isinstance(n, ast.Name))
            elif isinstance(node, (ast.If, ast.Try)):
                if "TYPE_CHECKING" not in ast.dump(getattr(node, "test", node)):
                    for part in ("body", "orelse", "finalbody"):
                        visit(getattr(node, part, []), (every, sometimes))
                    for handler in getattr(node, "handlers", ()):
                        visit(handler.body, (every, sometimes))
            for names in found:
                names |= {name for name in mine - {"*"} if not _is_special(name)}

    visit(tree.body, (every,))
    return every - deleted, sometimes - deleted


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def load(torch: Any) -> tuple[dict[str, Any], dict[str, set[str]]]:
    """The modules that can be imported, by path; and more names of them, and of the others."""
    root = Path(torch.__path__[0])
    loaded: dict[str, Any] = {"": torch}
    more: dict[str, set[str]] = {}
    for path, file in files(root):
        every, sometimes = written(file)
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                module = importlib.import_module(f"torch.{path}")
        except BaseException:  # what it needs is not installed: it exists nevertheless
            more[path] = every
        else:
            loaded[path] = module
            more[path] = sometimes
    pending = [torch._C]
    while pending:  # what the extension has below it is in no file
        module = pending.pop()
        path = module.__name__.removeprefix("torch.")
        loaded[path] = module
        for value in vars(module).values():
            if isinstance(value, types.ModuleType) and value.__name__.startswith("torch._C."):
                if value.__name__.removeprefix("torch.") not in loaded:
                    pending.append(value)
    for stub in sorted((root / "_C").glob("*.pyi")):  # has the names of builds with CUDA, too
        path = "_C" if stub.stem == "__init__" else f"_C.{stub.stem}"
        nodes = ast.parse(stub.read_text()).body
        kinds = (ast.FunctionDef, ast.ClassDef)
        more.setdefault(path, set()).update(n.name for n in nodes if isinstance(n, kinds))
    return loaded, more


def names(module: Any) -> Iterator[str]:
    """What a module has: in its dict, and what it loads when it is asked for."""
    for name, value in vars(module).items():
        if name.isidentifier() and (not _is_special(name) or isinstance(value, _PLAIN)):
            yield name
    yield from (n for n in getattr(module, "__all__", ()) if n not in vars(module))


def offered(module: Any) -> Iterator[str]:
    """What a module offers: its __all__, and what is of torch and not merely imported there."""
    listed = set(getattr(module, "__all__", ()))
    package = hasattr(module, "__path__") or not listed
    for name, value in vars(module).items():
        if name.startswith("__") or isinstance(value, types.ModuleType):
            continue
        home = _home(value)
        mine = home == module.__name__ and not isinstance(value, _PLAIN)
        of_torch = home.startswith("torch") or type(value).__module__.startswith("torch")
        public = not name.startswith("_") or name.startswith("_foreach_")
        seen = package and public and (of_torch or isinstance(value, _PLAIN))
        if name in listed or mine or seen:
            yield name
    yield from (n for n in listed if n not in vars(module) and hasattr(module, n))


def _home(value: Any) -> str:
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else ""


def _rank(value: Any, path: str, name: str) -> tuple[Any, ...]:
    """The less, the better a place is to find an object at: where it was made, or around that."""
    home = _home(value).removeprefix("torch").lstrip(".")
    strange = not f"{home}.".startswith(f"{path}.".lstrip("."))
    if isinstance(value, _PLAIN) or home.split(".")[0] == "_C":  # made in the extension
        strange = False
    private = any(part.startswith("_") for part in [*path.split("."), name])
    return strange, private, path.count(".") + bool(path), len(path), path


def places(loaded: dict[str, Any]) -> dict[int, tuple[str, str]]:
    """Where each class and function of PyTorch is to be found, by its id."""
    found: dict[int, tuple[str, str]] = {}
    for path, module in loaded.items():
        for name, value in vars(module).items():
            if not isinstance(value, _SHARED) or name.startswith("__"):
                continue
            if not _home(value).startswith("torch") and not isinstance(value, _PLAIN):
                continue
            best = found.get(id(value))
            if best is None or _rank(value, path, name) < _rank(value, *best):
                found[id(value)] = path, name
    return found


def outside(name: str, value: Any) -> tuple[str, str] | None:
    """Where an object of neither PyTorch nor this module is to be imported from."""
    home = _home(value)
    if not home or home.startswith(("torch", "builtins")):
        return None
    original = getattr(value, "__qualname__", None) or getattr(value, "_name", None) or name
    for known in (original, name):
        if getattr(sys.modules.get(home), str(known), None) is value:
            return home, str(known)
    return None


def imports(module: Any) -> dict[str, tuple[str, str]]:
    """Where a module of PyTorch has names from, by its `from torch.x import y as z`."""
    found = {}
    file = getattr(module, "__file__", None) or ""
    for node in ast.walk(ast.parse(Path(file).read_text())) if file.endswith(".py") else ():
        if isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            with contextlib.suppress(ImportError):
                source = importlib.util.resolve_name(source, module.__package__)
                for alias in node.names:
                    name = alias.asname or alias.name
                    value = vars(module).get(name)
                    theirs = getattr(sys.modules.get(source), alias.name, None)
                    if source.startswith("torch") and value is theirs is not None:
                        found[name] = source.removeprefix("torch").lstrip("."), alias.name
    return found


_LITERAL = re.compile(r"None|True|False|-?\d{1,9}|'[\w./:+-]{0,40}'")


def enumerated(value: Any) -> dict[str, Any]:
    """The members of an enumeration, Python's or the extension's; nothing of all else."""
    found = getattr(value, "__members__", None) if isinstance(value, type) else None
    if not isinstance(found, (dict, types.MappingProxyType)):
        return {}
    values = {n: getattr(m, "value", m) for n, m in found.items() if n.isidentifier()}
    plain = all(_LITERAL.fullmatch(repr(v)) for v in values.values())
    return values if plain and values else {}


def kind(value: Any) -> tuple[str, str]:
    """The section that says what a module's own name is, and what that adds to the name."""
    members = enumerated(value)
    if members:
        return "*", "=" + ",".join(f"{member}:{number!r}" for member, number in members.items())
    if isinstance(value, type):
        return ("!" if issubclass(value, BaseException) else "^"), ""
    if isinstance(value, (bool, int, str, type(None))) and type(value).__module__ == "builtins":
        if _LITERAL.fullmatch(repr(value)):
            return "#", f"={value!r}"
    return "", ""


def line(path: str, loaded: dict[str, Any], more: set[str], places: Any) -> str:
    """The line of a module, without its path."""
    module = loaded.get(path)
    offers = set(offered(module)) if module else set()
    sections: dict[str, list[str]] = {"": []}
    imported = imports(module)
    for name in sorted({*names(module), *more} if module else more):
        value = vars(module).get(name) if module else None
        home, original, mark = "", name, "" if name in offers else "~"
        if isinstance(value, types.ModuleType):
            where = value.__name__
            below = where.removeprefix("torch").lstrip(".")
            if below in loaded and where == f"torch.{path}.{name}".replace("..", "."):
                continue  # found by its own line
            if below in loaded and loaded[below] is value:
                home, original = "@", below or "."
            elif sys.modules.get(where) is value and not where.startswith("torch."):
                home, original = ">@", where
            if home:  # but not torch.ops and torch.classes, which are no modules
                sections.setdefault(home, []).extend([name, original])
                continue
        place = places.get(id(value), imported.get(name))
        if place is not None and place != (path, name):
            home, original = place[0] or ".", place[1]
            around = not place[0] or path.startswith(place[0] + ".")
            if mark == "" and around and (_home(value) == module.__name__):
                mark = "+"
        elif place is None and module and (found := outside(name, value)):
            home, original = ">" + found[0], found[1]
        token = name if original == name else f"{name}={original}"
        section, addition = (
            kind(value) if not home and module and name in vars(module) else ("", "")
        )
        if section:
            sections.setdefault(section, []).append(name + addition)
        sections.setdefault(home, []).append(mark + token)
    parts = [" ".join([key, *found]).strip() for key, found in sorted(sections.items())]
    return "; ".join(parts)


def record() -> None:
    """Writes the file."""
    warnings.filterwarnings("ignore")
    import torch

    loaded, more = load(torch)
    where = places(loaded)
    lines = [
        f"{path}: {line(path, loaded, more.get(path, set()), where)}".rstrip()
        for path in sorted({*loaded, *more})
    ]
    version = torch.__version__.split("+")[0]
    text = "\n".join([f"# The names of PyTorch {version}, by tools/record/names.py", *lines])
    TARGET.write_text(text + "\n")
    print(f"{TARGET}: {len(lines)} modules, {len(text)} bytes")


# Run by `python -m tritorch run`, with the names as JSON from its input.
_IMPORTS = """
import json, sys
wanted, failed, needing, there = json.load(sys.stdin), [], 0, 0
for path, names in wanted.items():
    module = f"torch.{path}".rstrip(".")
    for name in names:
        space = {}
        try:
            exec(f"import {module}\\nfrom {module} import {name}", space)
            there += not repr(type(space[name])).startswith("<class 'tritorch.compat.absent")
        except BaseException as error:
            if "needs the tensorboard package" in str(error):  # as PyTorch's does
                needing += 1
            else:
                failed.append(f"{module}.{name}: {error!r}")
print(*failed[:50], sep="\\n")
total = sum(map(len, wanted.values()))
print(f"{total - len(failed) - needing} of {total} names in {len(wanted)} modules import,")
print(f"{there} of them are there, {needing} need the tensorboard package")
sys.exit(bool(failed))
"""


def check(python: str) -> int:
    """Imports every name of every module of PyTorch from the tritorch that this Python has."""
    warnings.filterwarnings("ignore")
    import torch

    loaded, more = load(torch)
    wanted = {
        path: sorted({*names(loaded[path]), *more.get(path, ())} if path in loaded else more[path])
        for path in sorted({*loaded, *more})
    }
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(_IMPORTS)
        script.flush()
        command = [python, "-m", "tritorch", "run", script.name]
        return subprocess.run(command, input=json.dumps(wanted), text=True, check=False).returncode


def main() -> int:
    """Writes the file, or checks it."""
    options = parser(__doc__)
    options.add_argument(
        "--check", nargs="?", const=sys.executable, metavar="PYTHON", help="import all of them"
    )
    python = options.parse_args().check
    if python:
        return check(python)
    record()
    return 0


if __name__ == "__main__":
    sys.exit(main())
