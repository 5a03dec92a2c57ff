"""Operators as modules, so that what they compute can be observed and quantized."""

from __future__ import annotations

from typing import Any

import tritorch as torch
from tritorch.ao.nn.quantized.modules.utils import load_qparams, save_qparams, set_qparams
from tritorch.core.tensor import Tensor

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


class FloatFunctional(torch.nn.Module):
    """Operators of floats; `activation_post_process` sees their results."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = torch.nn.Identity()

    def forward(self, x: Any) -> Any:
        """Raises RuntimeError: call an operator."""
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        return self.activation_post_process(torch.add(x, y))

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum of a tensor and a number, which is not observed."""
        return torch.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product."""
        return self.activation_post_process(torch.mul(x, y))

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product of a tensor and a number, which is not observed."""
        return torch.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """The tensors, joined."""
        return self.activation_post_process(torch.cat(x, dim=dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The relu of the sum."""
        return self.activation_post_process(torch.nn.functional.relu(torch.add(x, y)))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of matrices."""
        return self.activation_post_process(torch.matmul(x, y))


class FXFloatFunctional(torch.nn.Module):
    """The same operators for tracing by fx, which inserts observers itself."""

    def forward(self, x: Any) -> Any:
        """Raises RuntimeError: call an operator."""
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        return torch.add(x, y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum of a tensor and a number."""
        return torch.add(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product."""
        return torch.mul(x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product of a tensor and a number."""
        return torch.mul(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """The tensors, joined."""
        return torch.cat(x, dim=dim)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The relu of the sum."""
        return torch.nn.functional.relu(torch.add(x, y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of matrices."""
        return torch.matmul(x, y)


class QFunctional(torch.nn.Module):
    """Operators of quantized tensors, whose results have this scale and zero point."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0
        self.zero_point = 0
        self.activation_post_process = torch.nn.Identity()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_qparams(self, destination, prefix)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        load_qparams(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        """The scale and the zero point."""
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Any) -> Any:
        """Raises RuntimeError: call an operator."""
        raise RuntimeError(
            "Functional is not intended to use the 'forward'. Please use the underlying operation"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum."""
        r = torch.ops.quantized.add(x, y, scale=self.scale, zero_point=self.zero_point)
        return self.activation_post_process(r)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """The sum of a tensor and a number, with a scale and zero point that follow from them."""
        return torch.ops.quantized.add_scalar(x, y)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product."""
        r = torch.ops.quantized.mul(x, y, scale=self.scale, zero_point=self.zero_point)
        return self.activation_post_process(r)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """The product of a tensor and a number, with a scale that follows from them."""
        return torch.ops.quantized.mul_scalar(x, y)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """The tensors, joined."""
        r = torch.ops.quantized.cat(x, scale=self.scale, zero_point=self.zero_point, dim=dim)
        return self.activation_post_process(r)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """The relu of the sum."""
        r = torch.ops.quantized.add_relu(x, y, scale=self.scale, zero_point=self.zero_point)
        return self.activation_post_process(r)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of matrices, which is not observed."""
        return torch.ops.quantized.matmul(x, y, scale=self.scale, zero_point=self.zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """The operators with the scale and zero point that a FloatFunctional has observed."""
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                "QFunctional.from_float expects an instance of FloatFunctional, got "
                f"{type(mod).__name__}"
            )
        return set_qparams(QFunctional(), *mod.activation_post_process.calculate_qparams())
