"""Weights of dynamically quantized recurrent networks."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch import nn
from tritorch.ao.nn.quantized.modules.utils import _quantize_weight, weight_observer_of
from tritorch.core.tensor import Tensor


def float_module_dtype(mod: Any) -> Any:
    """The dtype of weights that a float module's qconfig wants."""
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    dtype = weight_observer_of(mod)().dtype
    if dtype not in (torch.qint8, torch.float16):
        raise RuntimeError(f"Unsupported dtype for dynamic RNN quantization: {dtype}")
    return dtype


def quantized(weight: Tensor, mod: Any, dtype: Any) -> Tensor:
    """A weight of a float module, as an observer of its own says."""
    if dtype != torch.qint8:
        return weight.float()
    observer = weight_observer_of(mod)()
    observer(weight)
    return _quantize_weight(weight.float(), observer)


def random_weights(rows: int, sizes: tuple[int, int], dtype: Any, scale: float) -> list[Tensor]:
    """Weights of inputs and of states for a new module."""
    weights = [torch.randn(rows, columns).to(torch.float) for columns in sizes]
    if dtype != torch.qint8:
        return weights
    return [
        torch.quantize_per_tensor(weight, scale=scale, zero_point=0, dtype=torch.qint8)
        for weight in weights
    ]


class Network(nn.Module):
    """Checks of a recurrent network's arguments."""

    input_size: int
    hidden_size: int
    num_layers: int
    batch_first: bool
    bidirectional: bool

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """RuntimeError if the input has other dims or features."""
        expected_input_dim = 2 if batch_sizes is not None else 3
        if input.dim() != expected_input_dim:
            raise RuntimeError(
                f"input must have {expected_input_dim} dimensions, got {input.dim()}"
            )
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, "
                f"got {input.size(-1)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of hidden states for an input."""
        if batch_sizes is not None:
            mini_batch = int(batch_sizes[0])
        else:
            mini_batch = input.size(0) if self.batch_first else input.size(1)
        num_directions = 2 if self.bidirectional else 1
        return (self.num_layers * num_directions, mini_batch, self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """RuntimeError if hidden states have another shape."""
        if hx.size() != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def permute_hidden(self, hx: Tensor, permutation: Tensor | None) -> Tensor:
        """Hidden states in another order of the batch."""
        if permutation is None:
            return hx
        return hx.index_select(1, permutation)


class Cell(nn.Module):
    """Checks of a cell's arguments."""

    input_size: int
    hidden_size: int

    def zeros(self, input: Tensor) -> Tensor:
        """States before the first step."""
        return torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def check_forward_input(self, input: Tensor) -> None:
        """RuntimeError if the input has other features."""
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)}, "
                f"expected {self.input_size}"
            )

    def check_forward_hidden(self, input: Tensor, hx: Tensor, hidden_label: str = "") -> None:
        """RuntimeError if states have another shape."""
        if input.size(0) != hx.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} "
                f"batch size {hx.size(0)}"
            )
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, "
                f"expected {self.hidden_size}"
            )
