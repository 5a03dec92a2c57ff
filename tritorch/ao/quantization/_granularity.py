"""Affine quantization in blocks, as torchao's observers describe it; public in `observer`."""

from __future__ import annotations

import itertools
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import tritorch as torch
from tritorch import Tensor, nn


class MappingType(Enum):
    """Ranges around zero (with one scale, or with the greater of two), or as they are."""

    SYMMETRIC = auto()
    SYMMETRIC_NO_CLIPPING_ERR = auto()
    ASYMMETRIC = auto()


class ZeroPointDomain(Enum):
    """Numbers that zero points are: integers, floats at the middle of the range, or none."""

    INT = auto()
    FLOAT = auto()
    NONE = auto()


class TorchAODType(Enum):
    """Integers below 8 bits, from before they were dtypes."""

    INT1 = auto()
    INT2 = auto()
    INT3 = auto()
    INT4 = auto()
    INT5 = auto()
    INT6 = auto()
    INT7 = auto()


@dataclass(frozen=True)
class Granularity:
    """Base of descriptions of the elements that share a scale."""


@dataclass(frozen=True)
class PerBlock(Granularity):
    """A scale for each block of this shape."""

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerTensor(Granularity):
    """One scale for a tensor."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """A scale for each index of a dim."""

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """A scale for each group_size elements of a row."""

    group_size: int


class PerRow(Granularity):
    """A scale for each row, as matrix products in float8 have it."""


class PerToken(Granularity):
    """A scale for each row of the last dim."""


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """Returns the shape of the blocks that share a scale."""
    if not isinstance(granularity, Granularity):
        raise AssertionError("Please provide an instance of Granularity, not subclass of it")
    match granularity:
        case PerTensor():
            return input_shape
        case PerAxis(axis=axis):
            shape = list(input_shape)
            shape[axis] = 1
            return tuple(shape)
        case PerRow() | PerToken():
            return (1,) * (len(input_shape) - 1) + (input_shape[-1],)
        case PerGroup(group_size=group_size):
            if len(input_shape) != 2:
                raise AssertionError(
                    "Expecting input shape dim to be 2 for per group quantization, "
                    f"gotinput shape: {input_shape}"
                )
            return (1, group_size)
    raise ValueError(f"Unsupported Granularity: {granularity}")


def _attribute(model: Any, prefix: str, value: Any) -> Any:
    """A node of a graph that reads a value, which the model keeps as a new buffer."""
    numbers = itertools.count()
    name = next(each for i in numbers if not hasattr(model, each := f"{prefix}{i}"))
    model.register_buffer(name, torch.as_tensor(value).detach().clone())
    return model.graph.create_node("get_attr", name)


class AffineQuantizedObserverBase(ABC, nn.Module):
    """Base of observers for affine quantization in blocks.

    Subclasses' `forward` sets `block_size` and `original_dtype` beside what it observes."""

    with_args: Any  # set in `observer`

    def __init__(
        self,
        mapping_type: MappingType,
        target_dtype: torch.dtype,
        granularity: Granularity,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float | None = None,
        scale_dtype: torch.dtype | None = None,
        zero_point_dtype: torch.dtype | None = None,
        preserve_zero: bool = True,
        zero_point_domain: ZeroPointDomain | None = ZeroPointDomain.INT,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if granularity is None:
            raise AssertionError("granularity is None")
        self.mapping_type = mapping_type
        self.target_dtype = target_dtype
        self.granularity = granularity
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.eps = eps
        self.scale_dtype = scale_dtype
        self.zero_point_dtype = zero_point_dtype
        self.preserve_zero = preserve_zero
        self.zero_point_domain = zero_point_domain
        self.block_size: tuple[int, ...] | None = None
        self.original_dtype: torch.dtype | None = None

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Observes a tensor and returns it."""

    @abstractmethod
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Returns scale and zero point of what was observed."""

    def convert(self, model: Any, observer_node: Any) -> None:
        """Puts quantize and dequantize into a graph in an observer's place."""
        for name in ("block_size", "original_dtype"):
            if getattr(self, name) is None:
                raise AssertionError(f"Expecting {name} to be populated")
        ops = torch.ops.pt2e_quant
        domain = getattr(self.zero_point_domain, "name", None)
        bounds = (self.target_dtype, self.quant_min, self.quant_max)
        call = model.graph.call_function
        with model.graph.inserting_before(observer_node):
            tensor = observer_node.args[0]
            if getattr(self, "is_dynamic", False):
                chosen = call(
                    ops.choose_qparams_affine,
                    (
                        tensor,
                        self.mapping_type.name,
                        self.block_size,
                        *bounds,
                        self.eps,
                        self.scale_dtype,
                        self.zero_point_dtype,
                        self.preserve_zero,
                        domain,
                    ),
                )
                qparams = [call(operator.getitem, (chosen, i)) for i in range(2)]
            else:
                qparams = [
                    _attribute(model, name, value)
                    for name, value in zip(("_scale", "_zero_point"), self.calculate_qparams())
                ]
            rest = (self.block_size, *qparams, *bounds, domain)
            quantized = call(ops.quantize_affine, (tensor, *rest), {})
            floats = call(
                ops.dequantize_affine, (quantized, *rest), {"output_dtype": self.original_dtype}
            )
            observer_node.replace_all_uses_with(floats)
            model.graph.erase_node(observer_node)
