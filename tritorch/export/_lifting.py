"""A module's state as inputs of a graph: what stands in for it while the module runs, and names."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

from tritorch.compat.torch_private._subclasses.fake_tensor import as_it_is
from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module
from tritorch.utils._pytree import SequenceKey, tree_flatten_with_path

_TABLES = ("_parameters", "_buffers", "_modules")


def written_name(text: str) -> str:
    """A name of a node."""
    return re.sub(r"[^a-zA-Z0-9]", "_", text)


def input_names(arguments: dict[str, Any]) -> list[str]:
    """The names of the inputs that the leaves of a call's arguments are."""
    found = []
    for path, _ in tree_flatten_with_path(arguments)[0]:
        parts = []
        for key in path:
            if isinstance(key, SequenceKey):
                parts.append(str(key.idx))
            else:
                parts.append(str(getattr(key, "key", getattr(key, "name", key))))
        name = written_name("_".join(parts))
        found.append(name.lower() if len(parts) > 1 else name)
    return found


def state_of(module: Module) -> tuple[dict[str, Tensor], dict[str, Tensor], set[str]]:
    """All parameters and buffers by their names, tied ones too; names that no state dict has."""
    parameters: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    buffers = dict(module.named_buffers(remove_duplicate=False))
    hidden = set()
    for prefix, each in module.named_modules(remove_duplicate=False):
        for name in each._non_persistent_buffers_set:
            hidden.add(f"{prefix}.{name}" if prefix else name)
    return parameters, buffers, hidden & buffers.keys()


class Swapped:
    """A module whose parameters and buffers are others for a while.

    What the module's code assigns meanwhile is undone; buffers that are others afterwards are
    `assigned`."""

    def __init__(self, module: Module, stand_ins: dict[int, Tensor]) -> None:
        self.module, self.stand_ins = module, stand_ins
        self.assigned: list[tuple[Tensor, Tensor]] = []

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, the stand-ins are in their places."""
        kept = []
        for name, each in self.module.named_modules():
            fields = dict(each.__dict__)
            tables = {
                key: dict(each.__dict__[key]) for key in ("_parameters", "_buffers", "_modules")
            }
            lists = {
                key: type(value)(value)
                for key, value in fields.items()
                if type(value) in (list, dict) and key not in tables
            }  # fmt: skip
            kept.append((name, each, fields, tables, lists))
            for key in ("_parameters", "_buffers"):
                table = each.__dict__[key]
                table.update({n: self.stand_ins.get(id(x), x) for n, x in table.items()})
        try:
            yield
        finally:
            with as_it_is():
                for entry in kept:
                    self._restore(*entry)

    def _restore(self, prefix: str, module: Module, fields: Any, tables: Any, lists: Any) -> None:
        for name, before in tables["_buffers"].items():
            now = module.__dict__["_buffers"].get(name)
            stand_in = self.stand_ins.get(id(before))
            if isinstance(now, Tensor) and stand_in is not None and now is not stand_in:
                self.assigned.append((stand_in, now))
        new = [
            name for name, value in module.__dict__.items()
            if isinstance(value, Tensor) and fields.get(name) is not value
        ]  # fmt: skip
        if new:
            where = f"self.{prefix}.{new[0]}" if prefix else f"self.{new[0]}"
            warnings.warn(
                f"The tensor attribute {where} was assigned during export. Such attributes must be "
                "registered as buffers using the `register_buffer` API "
                "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_buffer).",
                stacklevel=2,
            )
        for key, table in tables.items():
            current = fields[key]
            current.clear()
            current.update(table)
        module.__dict__.clear()
        module.__dict__.update(fields)
        for key, value in lists.items():
            if type(value) is list:
                fields[key][:] = value
            else:
                fields[key].clear()
                fields[key].update(value)


def attribute_names(module: Module) -> dict[int, str]:
    """The names of tensors that are plain attributes of a module and of those inside."""
    found: dict[int, str] = {}
    for prefix, each in module.named_modules():
        for name, value in each.__dict__.items():
            if isinstance(value, Tensor):
                found.setdefault(id(value), f"{prefix}.{name}" if prefix else name)
    return found
