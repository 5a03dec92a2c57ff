"""torch.backends.quantized: the engine, by which default settings of quantization are chosen.

Operators of quantized tensors are tritorch's own under each name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tritorch.backends import _flags
from tritorch.ops.interpret.quantized import Engine

if TYPE_CHECKING:  # what is made at run time
    from tritorch.backends.quantized_made import *  # noqa: F403


_ENGINES = ("none", "fbgemm", "qnnpack", "onednn", "x86")


def _get_qengine_id(qengine: str | None) -> int:
    """The number of an engine of PyTorch's."""
    if not qengine:
        return 0
    if qengine not in _ENGINES:
        raise RuntimeError(f"{qengine} is not a valid value for quantized engine")
    return _ENGINES.index(qengine)


def _get_qengine_str(qengine: int) -> str:
    """The name of an engine of PyTorch's."""
    return _ENGINES[qengine] if 0 <= qengine < len(_ENGINES) else "*undefined"


def _choose_engine(name: str) -> None:
    if not _get_qengine_id(name):
        raise RuntimeError("quantized engine NoQEngine is not supported")
    Engine.name = name


class quantized:
    """The settings."""

    engine = _flags.Flag("x86", effect=_choose_engine, free=True)

    @property
    def supported_engines(self) -> list[str]:
        """PyTorch's engines: programs choose by these names, and tritorch's operators compute."""
        return ["qnnpack", "onednn", "x86", "fbgemm"]


_flags.install(__name__, quantized)
