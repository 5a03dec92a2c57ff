"""PyTorch's names of what pickles refer to, and tritorch's objects behind them, both ways.

Checkpoints name `torch._utils._rebuild_tensor_v2` and the like, whoever writes them.  `allowed()`
is the list of those that `weights_only=True` accepts; `resolve` finds any other for
`weights_only=False`; `path_of` is the name that an object is written under.
"""

from __future__ import annotations

import functools
import importlib
import sys
from codecs import encode
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

from tritorch.core import dtype as dtypes, legacy, naming
from tritorch.core.device import device as Device
from tritorch.core.layout import memory_format
from tritorch.core.naming import is_ours, torch_name
from tritorch.core.size import Size
from tritorch.core.storage import UntypedStorage
from tritorch.core.tensor import Tensor
from tritorch.core.typed_storage import TypedStorage
from tritorch.ops.interpret import quantized
from tritorch.serialization import rebuild

# What PyTorch allows and tritorch does not have: the error says so, rather than "unsafe".
_LACKING = {
    f"torch.{name}"
    for name in (
        "_utils._rebuild_nested_tensor",
        "_utils._rebuild_wrapper_subclass", "_utils._rebuild_device_tensor_from_numpy",
        "_utils._rebuild_device_tensor_from_cpu_tensor",
    )
}  # fmt: skip
# Trees whose modules have PyTorch's names.
_SHARED_TREES = (
    "nn", "optim", "utils", "distributions", "amp", "autograd", "nested", "fx", "ao",
)  # fmt: skip
_RENAMED = {"torch.tensor": "torch._tensor"}  # a module of old versions


_NESTED = "torch.nested._internal.nested_tensor"
NESTED_TENSOR = f"{_NESTED}.NestedTensor"


def nested_tensor() -> type:
    """The class of jagged tensors, imported when a checkpoint has one."""
    from tritorch.ops.interpret.nested.tensor import NestedTensor

    return NestedTensor


@functools.cache
def allowed() -> dict[str, Any]:
    """Every name that weights_only=True accepts by default, and its object."""
    from tritorch.nn.parameter import Parameter

    table: dict[str, Any] = {
        f"{_NESTED}._rebuild_njt": rebuild._rebuild_njt,
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "torch.nn.parameter.Parameter": Parameter,
        "torch.serialization._get_layout": rebuild._get_layout,
        "torch.Size": Size,
        "torch.Tensor": Tensor,
        "torch.device": Device,
        "_codecs.encode": encode,
        "builtins.bytearray": bytearray,
        "builtins.set": set,
        "builtins.complex": complex,
        "torch.storage.TypedStorage": TypedStorage,
        "torch.storage.UntypedStorage": UntypedStorage,
        "torch.TypedStorage": TypedStorage,
        "torch.UntypedStorage": UntypedStorage,
        "torch._tensor._rebuild_from_type_v2": rebuild._rebuild_from_type_v2,
    }
    table |= {f"torch.{kind.name}": kind for kind in dtypes.all_dtypes}
    table |= {f"torch.{name}": kind for name, kind in dtypes.STORED.items()}
    for name in legacy.CPU_TYPES:
        table[f"torch.{name}"] = legacy.CPU_TYPES[name]
        table[f"torch.cuda.{name}"] = legacy.CUDA_TYPES[name]
    for name in rebuild._STORAGE_NAMES:
        table[f"torch.{name}"] = table[f"torch.cuda.{name}"] = rebuild.storage_type(name)
    for scheme in ("tensor_affine", "tensor_symmetric", "channel_affine", "channel_symmetric",
                   "channel_affine_float_qparams"):  # fmt: skip
        table[f"torch.per_{scheme}"] = getattr(quantized, f"per_{scheme}")
    table |= {f"torch._utils.{function.__name__}": function for function in rebuild.FUNCTIONS}
    return table


def is_lacking(path: str) -> bool:
    """Whether PyTorch allows a name that tritorch has nothing for."""
    return path.replace("torch.cuda.", "torch.") in _LACKING


@functools.cache
def _written() -> dict[int, str]:
    table: dict[int, str] = {}
    for path, known in allowed().items():
        if path.startswith("torch."):
            table.setdefault(id(known), path)
    return table


@functools.cache
def _homes() -> dict[str, list[tuple[str, str]]]:
    """By the name of a class: the module in which PyTorch defines it, and a package that has it.

    What PyTorch's own files name, and allow-lists of classes go by, is the module.
    """
    table: dict[str, list[tuple[str, str]]] = {}
    for line in (Path(__file__).parent / "homes.txt").read_text().splitlines():
        path, package = line.split(" ")
        home, _, name = path.rpartition(".")
        table.setdefault(name, []).append((home, package))
    return table


def path_of(obj: Any) -> tuple[str, str] | None:
    """(module, name) in PyTorch's tree, None for what is not tritorch's or has no place there."""
    path = _written().get(id(obj))
    if path is not None:
        module, _, name = path.rpartition(".")
        return module, name
    if isinstance(obj, memory_format):
        return "torch", obj.name
    module, name = getattr(obj, "__module__", None) or "", getattr(obj, "__qualname__", "")
    if not name or not is_ours(module):
        return None
    for home, package in _homes().get(name, ()) if isinstance(obj, type) else ():
        if getattr(importlib.import_module(f"tri{package}"), name, None) is obj:
            return home, name
    # Files within a tree may be cut otherwise than PyTorch's: its public names are the same.
    tritorch = naming.package()
    short = getattr(obj, "__name__", name)  # operators are made in functions
    for public in (short, short.lstrip("_")):
        if getattr(tritorch.nn.functional, public, None) is obj:
            return "torch.nn.functional", public
        if getattr(tritorch, public, None) is obj:
            return "torch", public
    tree = module.split(".")[1]
    if tree not in _SHARED_TREES:
        return None
    for package in (tree, "optim.lr_scheduler") if tree == "optim" else (tree,):
        if getattr(importlib.import_module(f"tritorch.{package}"), name, None) is obj:
            return f"torch.{package}", name
    return torch_name(module), name


def resolve(module: str, name: str) -> Any:
    """The object behind a name that starts with torch; AttributeError if tritorch has none."""
    module = _RENAMED.get(module, module)
    path = f"{module}.{name}"
    if path in allowed():
        return allowed()[path]
    if path == "torch._tensor._rebuild_from_type":
        return rebuild._rebuild_from_type
    for package in _and_parents("tri" + module):
        try:
            found: Any = importlib.import_module(package)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError):
            continue  # the name may live in another module of the same package
        return found
    if sys.modules.get("torch") is naming.package() and module in sys.modules:
        found = sys.modules[module]  # a program's own file that is called so, under the alias
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    raise AttributeError(
        f"the checkpoint needs {path}, which tritorch does not have; load it with PyTorch and save "
        f"its state_dict"
    )


def _and_parents(package: str) -> list[str]:
    parts = package.split(".")
    least = 1 if len(parts) == 1 else 2  # torch.nn.x.y: up to torch.nn
    return [".".join(parts[:end]) for end in range(len(parts), least - 1, -1)]


def python3_name(module: str, name: str) -> tuple[str, str]:
    """A name as protocol 2 writes it, in Python 3's terms."""
    import _compat_pickle

    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[(module, name)]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name
