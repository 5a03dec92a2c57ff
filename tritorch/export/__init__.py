"""torch.export: a module and example arguments as a graph of ATen's operators.

    program = export(model, (x,), dynamic_shapes={"x": {0: Dim("batch")}})
    program.module()(torch.randn(7, 3))

The program runs once on descriptions of its inputs, dynamic sizes as symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tritorch.export._draft_export import draft_export
from tritorch.export.decomp_utils import CustomDecompTable
from tritorch.export.dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from tritorch.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
)
from tritorch.export.graph_signature import ExportBackwardSignature, ExportGraphSignature
from tritorch.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten
from tritorch.nn.modules.module import Module

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.export import (
        decomp_utils as decomp_utils,
        dynamic_shapes as dynamic_shapes,
        exported_program as exported_program,
        graph_signature as graph_signature,
    )


__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature",
    "ExportGraphSignature", "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry",
    "ModuleCallSignature", "ShapesCollection", "UnflattenedModule", "default_decompositions",
    "dims", "draft_export", "export", "load", "register_dataclass", "save", "unflatten",
]  # fmt: skip


def export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *,
    dynamic_shapes: Any = None, strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:  # fmt: skip
    """The program that a module is for arguments like these.

    dynamic_shapes: which sizes are dynamic, by arguments (`dynamic_shapes.py`).  strict: Python
    runs in either case, so there is nothing that it would see and the other way would not.
    preserve_module_call_signature: modules that `unflatten` calls as the original program does,
    so that others may take their places."""
    from tritorch.export._trace import export as traced

    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    known = {name for name, _ in mod.named_modules(remove_duplicate=False)}
    for name in preserve_module_call_signature:
        if name not in known:
            raise AttributeError(f"{type(mod).__name__} has no module {name!r}")
    return traced(mod, args, kwargs, dynamic_shapes, tuple(preserve_module_call_signature))


def save(
    ep: ExportedProgram, f: Any, *, extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None, pickle_protocol: int = 2,
) -> None:  # fmt: skip
    """Writes a program to a file, which PyTorch 2.13 reads too.

    extra_files: contents that go along, by names.  opset_version, pickle_protocol: the ones of
    PyTorch 2.13 are written."""
    from tritorch.export._serde import archive

    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    archive.save(ep, f, extra_files)


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:  # fmt: skip
    """The program of a file, PyTorch's too.  No code of the file runs.

    extra_files: names of contents that went along, which it gets.  expected_opset_version: there
    is one."""
    from tritorch.export._serde import archive

    return archive.load(f, extra_files)


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Makes a dataclass a tree of its fields, which exported programs take and give."""
    from tritorch.utils._pytree import register_dataclass as register

    register(cls, serialized_type_name=serialized_type_name)
