"""The LSTM whose layers are quantized."""

from __future__ import annotations

from typing import Any, ClassVar

import tritorch as torch
from tritorch.ao.nn import quantizable

__all__ = ["LSTM"]


class LSTM(quantizable.LSTM):
    """A quantizable LSTM after conversion."""

    _FLOAT_MODULE: ClassVar[Any] = quantizable.LSTM

    def _get_name(self) -> str:
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args: Any, **kwargs: Any) -> Any:
        """Raises NotImplementedError: it must have been observed."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-observed LSTM module. Please, see the "
            "examples on quantizable LSTMs."
        )

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        """The quantized module of an observed one."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"Expected module type {cls._FLOAT_MODULE}, got {type(other)}")
        converted = torch.ao.quantization.convert(other, inplace=False, remove_qconfig=True)
        converted.__class__ = cls
        return converted
