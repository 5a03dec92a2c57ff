"""torch.backends.quantized: which library computes on quantized tensors. There is none here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tritorch.backends import _flags

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


def _require_none(name: Any) -> None:
    if _get_qengine_id(name):
        raise RuntimeError(f"quantized engine {name.upper()} is not supported")


class quantized:
    """The settings."""

    engine = _flags.Flag("none", effect=_require_none)

    @property
    def supported_engines(self) -> list[str]:
        """["none"]: tritorch computes on quantized tensors by itself."""
        return ["none"]


_flags.install(__name__, quantized)
