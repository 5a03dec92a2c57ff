"""The stub package of torch that `tritorch stand-in` writes, for type checkers.

Each module of it imports the names of tritorch's module from there, so that `torch.Tensor` and
`tritorch.Tensor` are one type.  Which names a checker takes for public is read from the files (PEP
561, "Library interface"), without an import.
"""

from __future__ import annotations

import ast
import functools
import importlib
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tritorch.compat import moved, names as _names

PACKAGE = Path(__file__).parents[1]
PRIVATE = PACKAGE / "compat" / "torch_private"  # has modules at PyTorch's private paths
FOLDER = "torch-stubs"


@functools.cache
def _file(path: str) -> Path | None:
    """The file that type checkers read of a module of tritorch, by its path below it."""
    first = path.partition(".")[0]
    root = PRIVATE if first and moved.is_private(first) else PACKAGE
    place = root.joinpath(*path.split(".")) if path else PACKAGE
    files = (place / "__init__.pyi", place / "__init__.py", place.with_suffix(".pyi"))
    return next((f for f in (*files, place.with_suffix(".py")) if f.is_file()), None)


@functools.cache
def exported(path: str, without_stubs: bool = False) -> frozenset[str]:
    """The names of a module that type checkers take for public: what it defines, imports as what it
    is called (`from x import y as y`), has in `__all__`, or has by a star from such a module.

    without_stubs: not those that a stub has alone, beside the module."""
    file = _file(path)
    if file is None:
        return frozenset()
    own: set[str] = set()
    for node in _statements(ast.parse(file.read_text(encoding="utf-8")).body):
        is_star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        if not (without_stubs and is_star and str(node.module).endswith("_made")):  # type: ignore[attr-defined]
            own.update(_bound(node))
    return frozenset(own)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those in conditions included."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            yield from _statements([*node.body, *node.orelse])


def _bound(node: ast.stmt) -> Iterator[str]:
    """The public names that one statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*" and node.module:
                yield from _starred(node.module)
            elif alias.asname == alias.name:
                yield alias.name
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.asname == alias.name)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        if "__all__" in names and node.value is not None:
            yield from _strings(node.value)
        yield from names - {"__all__"}


def _strings(value: ast.expr) -> Iterator[str]:
    """The strings in a list that is written out."""
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _starred(module: str) -> Iterator[str]:
    """What `from module import *` gives."""
    top, _, path = module.partition(".")
    if top != PACKAGE.name:  # Python's own
        yield from importlib.import_module(module).__all__
        return
    path = path.removeprefix("compat.torch_private.")
    yield from (name for name in exported(path) if not name.startswith("_"))


def _modules() -> Iterator[tuple[str, bool]]:
    """The modules of tritorch by their paths below it, and whether each is a package."""
    seen = set()
    for file in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]):
        root = PRIVATE if PRIVATE in file.parents else PACKAGE
        parts = file.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        path = ".".join(parts[: len(parts) - is_package])
        if (
            _names.is_module(path)
            and path not in seen
            and all(part.isidentifier() for part in parts)
        ):
            seen.add(path)
            yield path, is_package


@functools.cache
def _origins(path: str) -> dict[str, str]:
    """The modules from which a module imports its names, by name."""
    file = _file(path)
    found: dict[str, str] = {}
    for node in _statements(ast.parse(file.read_text(encoding="utf-8")).body) if file else ():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            module = str(node.module).partition(".")[2].removeprefix("compat.torch_private.")
            if node.names[0].name == "*":
                found.update({**_origins(module), **found})
            found.update({alias.asname or alias.name: module for alias in node.names})
    return found


def _elsewhere(path: str) -> Iterator[str]:
    """The imports of a module that PyTorch has and whose names tritorch keeps in others."""
    beside: dict[str, None] = {}  # the modules that have the others of them
    own = []
    for name, entry in _names._entries(path).items():
        home = entry.home.strip(".")
        if not entry.home and name.isidentifier():
            own.append(name)
        if not entry.home or entry.home[0] in "@>" or not name.isidentifier():
            continue
        if entry.original in exported(home):
            yield f"from {_ours(home)} import {entry.original} as {name}"
        if entry.mark == "+" and entry.original in _origins(home):
            beside[_origins(home)[entry.original]] = None
    for name in own:
        module = next((module for module in beside if name in exported(module)), None)
        if module is not None:
            yield f"from {_ours(module)} import {name} as {name}"


def _ours(path: str) -> str:
    first = path.partition(".")[0]
    where = f"{PACKAGE.name}.compat.torch_private" if moved.is_private(first) else PACKAGE.name
    return f"{where}.{path}".rstrip(".")


def modules() -> dict[str, str]:
    """The text of each module of the stub package, by its file's path in it."""
    own = dict(_modules())
    lines = {path: _of_module(path, own) for path in own}
    for path in _names._lines():
        if path not in own and (found := list(_elsewhere(path))):
            lines[path] = found
    for path in list(lines):  # those around
        while path:
            path = path.rpartition(".")[0]
            lines.setdefault(path, [])
    packages = {path.rpartition(".")[0] for path in lines if path}
    for path in sorted(lines):
        above, _, name = path.rpartition(".")
        if path and path not in own and above in own:  # PyTorch's, which has others in tritorch
            lines[above].append(f"from {_torch(above)} import {name} as {name}")
    texts = {}
    for path, found in sorted(lines.items()):
        place = path.replace(".", "/")
        file = f"{place}/__init__.pyi".lstrip("/") if path in packages else f"{place}.pyi"
        texts[file] = "".join(f"{line}\n" for line in found)
    return texts


def _of_module(path: str, own: dict[str, bool]) -> list[str]:
    """The imports of a module that tritorch has: modules from torch, other names from tritorch."""
    names = sorted(exported(path) - {"__all__", "__getattr__", "__dir__"})
    below = [name for name in names if f"{path}.{name}".lstrip(".") in own]
    imports = ((_ours(path), [n for n in names if n not in below]), (_torch(path), below))
    return [
        f"from {module} import {', '.join(f'{name} as {name}' for name in found)}"
        for module, found in imports
        if found
    ]


def _torch(path: str) -> str:
    return f"torch.{path}".rstrip(".")


def remove(site: Path) -> None:
    """Takes back what `write` did."""
    shutil.rmtree(site / FOLDER, ignore_errors=True)


def write(site: Path) -> list[Path]:
    """Writes the stub package into an environment's folder of packages; gives its files."""
    remove(site)
    files = []
    for name, text in modules().items():
        file = site / FOLDER / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        files.append(file)
    return files
