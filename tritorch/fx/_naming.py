"""Names of functions and types in generated code.

What is the package's is written `torch.<path>`, by the path under which a program knows it: a
public one where there is one (`torch.Size`, wherever the class is defined).
"""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from typing import Any

from tritorch import _C
from tritorch.compat import names
from tritorch.core import gates, naming
from tritorch.ops.record.overloads import OpOverload, OpOverloadPacket

package = naming.package  # what `torch` means in generated code


def reached(path: str) -> Any:
    """What a dotted path that begins with "torch." gives; None if there is nothing."""
    found: Any = package()
    for part in path.split(".")[1:]:
        # The extension gives names that it does not hold.
        plain = isinstance(found, types.ModuleType) and found is not _C
        found = vars(found).get(part) if plain else getattr(found, part, None)
        if found is None:
            return None
    return found


def public(name: str) -> Any:
    """A function at the top of the package, as programs know it."""
    return gates.GATES["tritorch"][name]


@functools.lru_cache(maxsize=4096)
def torch_name(thing: Any) -> str | None:
    """The path under which the package has something, "torch.nn.functional.relu"; else None."""
    if isinstance(thing, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{thing}"
    module = getattr(thing, "__module__", None)
    if not isinstance(module, str) or module.partition(".")[0] not in ("tritorch", "torch"):
        return None
    qualified = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    if not isinstance(qualified, str):
        return None
    rest = module.partition(".")[2]
    if rest == "compat.native.names":  # Python's part of the extension's names
        rest = "_C"
    inner = f"torch.{rest}" if rest else "torch"
    name = qualified.rpartition(".")[2]
    # A file of ours that is none of PyTorch's: its public home comes first.
    private = rest.startswith(("arrays", "autograd", "compat", "core", "host", "ops", "trees"))
    paths = [f"torch.{name}", f"torch.nn.functional.{name}", f"{inner}.{qualified}"]
    if not private:
        paths = paths[::-1]
    if qualified.startswith("Tensor."):
        paths.insert(0, f"torch.{qualified}")
    # An object that names its class (`Dyn`) is known by it.
    kinds = (thing, type(thing))
    return next((path for path in paths if any(reached(path) is each for each in kinds)), None)


def pytorch_name(thing: Any) -> str:
    """The dotted name that PyTorch has for a function or a type of the package, by the file where
    PyTorch defines it (`torch.nn.modules.batchnorm.BatchNorm2d`); dictionaries of passes have such
    keys.  The name of anything else."""
    found = qualified_name(thing)
    path, _, name = found.rpartition(".")
    file = names.defined_in("nn.modules.").get(name) if path.startswith("torch.nn.") else None
    return found if file is None or not isinstance(thing, type) else f"torch.{file}.{name}"


def is_ours(thing: Any) -> bool:
    """Whether generated code reaches something from `torch`, without a global of its own."""
    try:
        return torch_name(thing) is not None
    except TypeError:  # of what has no hash
        return False


def qualified_name(func: Any) -> str:
    """The dotted name by which generated code calls a function."""
    name = getattr(func, "__name__", None)
    if name is not None and getattr(builtins, name, None) is func:
        return str(name)
    with_path = torch_name(func) if func.__hash__ is not None else None
    if with_path is not None:
        return with_path
    if isinstance(func, types.MethodDescriptorType):
        return f"{func.__objclass__.__name__}.{func.__name__}"
    if name == "<lambda>":
        try:
            name = inspect.getsource(func).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    if name is None:
        raise AttributeError(f"{func!r} has no __name__, by which code could call it")
    module = getattr(func, "__module__", None)
    if module is None:
        raise RuntimeError(f"cannot find module for {func}")
    module = naming.torch_name(module)
    if isinstance(func, type):
        name = func.__qualname__
    return f"{module}.{name}"
