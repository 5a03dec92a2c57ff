"""TorchScript's modules, as far as programs name them.

Nothing is compiled: a ScriptModule is a module that runs as it is, as what `script` returns is.
"""

from __future__ import annotations

from typing import Any, NoReturn

from tritorch.jit._errors import refuse
from tritorch.nn.modules.module import Module


class ScriptModule(Module):
    """A module that derives from torch.jit.ScriptModule: it runs as it is."""

    def save(self, f: Any, **kwargs: Any) -> NoReturn:
        """Not there yet."""
        refuse("torch.jit.ScriptModule.save")

    def save_to_buffer(self, **kwargs: Any) -> NoReturn:
        """Not there yet."""
        refuse("torch.jit.ScriptModule.save_to_buffer")

    def define(self, src: str) -> NoReturn:
        """Not there yet."""
        refuse("torch.jit.ScriptModule.define")


class RecursiveScriptModule(ScriptModule):
    """What `torch.jit.script` makes of a module in PyTorch; here nobody makes one."""


def load(f: Any, map_location: Any = None, _extra_files: Any = None, **kwargs: Any) -> NoReturn:
    """Not there yet: archives of TorchScript."""
    refuse("torch.jit.load")


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Not there yet: archives of TorchScript."""
    refuse("torch.jit.save")


def export_opnames(m: Any) -> NoReturn:
    """Not there yet: the operators of a compiled module."""
    refuse("torch.jit.export_opnames")


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself."""
    return mod


def run_frozen_optimizations(mod: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing is to be optimised."""


class strict_fusion:
    """Inside, what PyTorch could not fuse is an error; nothing is compiled here, so nothing is."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


class CompilationUnit:
    """The functions of a source, of which there are none yet."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        if lang is not None:
            self.define(lang)

    def define(self, lang: str, rcb: Any = None, _frames_up: int = 0) -> NoReturn:
        """Not there yet."""
        refuse("torch.jit.CompilationUnit.define")

    def find_function(self, name: str) -> None:
        """None: nothing was defined."""

    def get_functions(self) -> list[Any]:
        """None: nothing was defined."""
        return []
