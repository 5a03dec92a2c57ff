"""Packed parameters: weights and biases of quantized layers, as objects that operators take.

PyTorch packs a weight into a library's own layout, which `unpack` reverts.  Here the object keeps
the tensors, and what products need of them beside (`sums`, `largest`).
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, TypeVar

import numpy as np

from tritorch.core.dtype import STORED, float32, int8, int16, int32, uint8
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret.quantized import (
    QuantizedTensor,
    Quantizer,
    integers_of,
    of_integers,
    per_channel_affine,
    per_tensor_affine,
)
from tritorch.ops.shape.factory import tensor
from tritorch.schema.types import ClassType

PREFIX = "__torch__.torch.classes."
QINT8 = STORED["qint8"]


class Packed:
    """Parameters of a kind; subclasses say which."""

    name: ClassVar[str]
    methods: ClassVar[dict[str, str]] = {}  # the type of the result of each
    state_type: ClassVar[str]

    def state(self) -> Any:
        """The contents of a pickle, as PyTorch has them."""
        raise NotImplementedError

    @classmethod
    def of_state(cls, state: Any) -> Packed:
        """The parameters of a pickle."""
        raise NotImplementedError


KINDS: dict[str, type[Packed]] = {}
Kind = TypeVar("Kind", bound=type[Packed])


def known(kind: Kind) -> Kind:
    """Registers a kind by its name in `torch.classes`."""
    KINDS[PREFIX + kind.name] = kind
    return kind


class ScriptObject:
    """An object of a native class, with the methods of the class."""

    _packed: Packed
    _awaited: str  # the class of one whose state is still to be read

    def __init__(self, packed: Packed) -> None:
        self._packed = packed

    def _type(self) -> Any:
        return ClassType(PREFIX + self._packed.name)

    def _method_names(self) -> list[str]:
        return ["__getstate__", "__setstate__", *self._packed.methods]

    def _has_method(self, name: str) -> bool:
        return name in self._method_names()

    def __getattr__(self, name: str) -> Any:
        packed = self.__dict__.get("_packed")
        if packed is not None and name in packed.methods:
            return getattr(packed, name)
        raise AttributeError(f"'torch.ScriptObject' object has no attribute '{name}'")

    def __getstate__(self) -> Any:
        return self._packed.state(), PREFIX + self._packed.name

    def __setstate__(self, state: Any) -> None:
        contents, name = state
        if name not in KINDS:
            raise RuntimeError(f"there is no native class {name}")
        self._packed = KINDS[name].of_state(contents)

    def __deepcopy__(self, memo: Any) -> ScriptObject:
        made = ScriptObject.__new__(ScriptObject)
        contents, name = self.__getstate__()
        made.__setstate__((copy.deepcopy(contents, memo), name))
        return made

    def __repr__(self) -> str:
        return f"<torch.ScriptObject object at {id(self):#x}>"


ScriptObject.__module__ = "tritorch"


def packed_of(given: Any, kind: type[Any], name: str) -> Any:
    """The parameters that an operator was called with."""
    packed = getattr(given, "_packed", None)
    if not isinstance(packed, kind):
        raise RuntimeError(f"{name}: expected packed parameters {kind.name}, got {given!r}")
    return packed


def _plain(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach()


class Weight:
    """A quantized weight: integers, and a scale and zero point for all or for each output.

    axis: the dim of outputs.  largest: the largest distance of an integer from its zero point."""

    def __init__(self, q: Any, axis: int = 0) -> None:
        self.q = q
        self.integers = integers_of(q).contiguous()
        by: Quantizer = q._quantizer
        self.by_channel = by.axis is not None
        if by.axis is None:
            self.scale: Any = float(np.float32(by.scale))
            self.zero: Any = by.zero_point
            self.has_zero = by.zero_point != 0
        else:
            shape = [-1 if dim == axis else 1 for dim in range(q.ndim)]
            self.scale = by.scale.float()
            self.zero = by.zero_point.to(int32).reshape(shape)
            self.has_zero = bool((by.zero_point != 0).any())
        self._centred: Any = None

    @property
    def centred(self) -> Tensor:
        """Integers less their zero points, as float32."""
        if self._centred is None:
            wide = self.integers.float()
            self._centred = wide - self.zero if self.has_zero else wide
        return self._centred

    @property
    def largest(self) -> int:
        """The largest magnitude of a centred integer."""
        return int(self.centred.abs().max()) if self.integers.numel() else 0

    def scales(self, ndim: int, axis: int) -> Any:
        """The scale, or the scales along a dim of a result."""
        if not self.by_channel:
            return self.scale
        return self.scale.reshape([-1 if dim == axis else 1 for dim in range(ndim)])


@known
class LinearParams(Packed):
    """A linear layer's int8 weight and bias, or its float16 weight."""

    name = "quantized.LinearPackedParamsBase"
    methods: ClassVar = {"bias": "Tensor?", "unpack": "(Tensor, Tensor?)"}
    state_type = "(Tensor, Tensor?)"

    def __init__(self, weight: Any, bias: Tensor | None) -> None:
        self.bias_tensor = _plain(bias)
        self.half = not isinstance(weight, QuantizedTensor)
        self.weight = weight
        self.rows = None if self.half else Weight(weight)

    def unpack(self) -> tuple[Any, Tensor | None]:
        """The weight and the bias."""
        return self.weight, self.bias_tensor

    def bias(self) -> Tensor | None:
        """The bias."""
        return self.bias_tensor

    def state(self) -> Any:
        return self.weight, self.bias_tensor

    @classmethod
    def of_state(cls, state: Any) -> Packed:
        return cls(*state)


@known
class SparseLinearParams(LinearParams):
    """A linear layer's weight in which blocks are zero; it is kept whole."""

    name = "sparse.LinearPackedParamsBase"
    methods: ClassVar = {"bias": "Tensor?", "unpack": "(Tensor, Tensor?, int[])"}
    state_type = "(int, Tensor?, int, int, Tensor, Tensor, bool, Tensor, Tensor, Tensor, int, int)"

    def __init__(self, weight: Any, bias: Tensor | None, blocks: list[int]) -> None:
        super().__init__(weight, bias)
        self.blocks = [int(n) for n in blocks]

    def unpack(self) -> Any:
        """The weight, the bias and the sizes of a block."""
        return self.weight, self.bias_tensor, list(self.blocks)

    def state(self) -> Any:
        """Version, bias, block, scales, zero points, whether they are of all, and blocks that are
        not zero: where rows of blocks begin, columns, and values with 128 added; then the sizes."""
        by, integers = self.weight._quantizer, integers_of(self.weight).cpu().numpy()
        (rows, columns), (height, width) = integers.shape, self.blocks
        whole = by.axis is None
        zeros = np.atleast_1d(by.zero_point if whole else by.zero_point.cpu().numpy())
        scales = np.atleast_1d(by.scale if whole else by.scale.cpu().numpy())
        n, m = -(-rows // height), -(-columns // width)
        filled = np.zeros((n * height, m * width), np.int16)
        filled[:rows, :columns] = integers
        filled[:rows, columns:] = zeros[:, None]
        blocks = filled.reshape(n, height, m, width).transpose(0, 2, 1, 3)
        distance = np.zeros_like(filled)
        distance[:rows] = filled[:rows] - zeros[:, None]
        used = distance.reshape(n, height, m, width).any(axis=(1, 3))
        starts = np.concatenate([[0], used.sum(axis=1).cumsum()])
        parts = [
            tensor(values.tolist(), dtype=kind)
            for values, kind in (
                (scales, float32), (zeros, int8), (starts, int32), (np.nonzero(used)[1], int32),
                (blocks[used].reshape(-1) + 128, uint8),
            )
        ]  # fmt: skip
        return (2, self.bias_tensor, height, width, *parts[:2], whole, *parts[2:], rows, columns)

    @classmethod
    def of_state(cls, state: Any) -> Packed:
        version, bias, height, width, scales, zeros, whole, *blocks, rows, columns = state
        starts, places, values = (part.cpu().numpy().astype(np.int64) for part in blocks)
        n, m = -(-rows // height), -(-columns // width)
        if len(starts) != n + 1 or values.size != places.size * height * width or version > 2:
            raise RuntimeError("sparse packed parameters: blocks and sizes do not fit")
        dense = np.zeros((n, m, height, width), np.int64)
        if not whole:
            dense += np.resize(zeros.cpu().numpy(), (n, height))[:, None, :, None]
        else:
            dense += int(zeros[0])
        at = np.repeat(np.arange(n), np.diff(starts))
        dense[at, places] = values.reshape(-1, height, width) - 128
        dense = dense.transpose(0, 2, 1, 3).reshape(n * height, m * width)[:rows, :columns]
        if whole:
            by = Quantizer(QINT8, per_tensor_affine, float(scales[0]), int(zeros[0]))
        else:
            by = Quantizer(QINT8, per_channel_affine, scales.double(), zeros.long(), 0)
        weight = of_integers(tensor(dense.astype(np.int8)), by)
        return cls(weight, bias, [height, width])


class ConvParams(Packed):
    """A convolution's weight, bias and geometry.  n: how many spatial dims the tensors have."""

    methods: ClassVar = {
        "weight": "Tensor", "bias": "Tensor?", "unpack": "(Tensor, Tensor?)", "stride": "int[]",
        "padding": "int[]", "output_padding": "int[]", "dilation": "int[]", "groups": "int",
        "transpose": "bool",
    }  # fmt: skip
    state_type = "(str, Tensor[], Tensor?[])"
    n: ClassVar[int]

    def __init__(
        self, weight: Any, bias: Tensor | None, stride: Any, padding: Any, output_padding: Any,
        dilation: Any, groups: int, transposed: bool,
    ) -> None:  # fmt: skip
        self.q, self.bias_tensor = weight, _plain(bias)
        geometry = stride, padding, output_padding, dilation
        self.geometry = tuple([int(v) for v in values] for values in geometry)
        self.group_count, self.transposed = int(groups), bool(transposed)
        self.kernel = Weight(weight, 1 if transposed else 0)

    def unpack(self) -> tuple[Any, Tensor | None]:
        """The weight and the bias."""
        return self.q, self.bias_tensor

    def weight(self) -> Any:
        """The weight."""
        return self.q

    def bias(self) -> Tensor | None:
        """The bias."""
        return self.bias_tensor

    def stride(self) -> list[int]:
        """The stride of each dim."""
        return list(self.geometry[0])

    def padding(self) -> list[int]:
        """The padding of each dim."""
        return list(self.geometry[1])

    def output_padding(self) -> list[int]:
        """The output padding of each dim."""
        return list(self.geometry[2])

    def dilation(self) -> list[int]:
        """The dilation of each dim."""
        return list(self.geometry[3])

    def groups(self) -> int:
        """The number of groups."""
        return self.group_count

    def transpose(self) -> bool:
        """Tells a transposed convolution."""
        return self.transposed

    def state(self) -> Any:
        stride, padding, output_padding, dilation = self.geometry
        numbers = [self.n, *stride, *padding, *dilation, *output_padding, self.group_count]
        config = tensor([*numbers, int(self.transposed)], dtype=int16)
        return "2", [config, self.q], [self.bias_tensor]

    @classmethod
    def of_state(cls, state: Any) -> Packed:
        if not isinstance(state[0], (str, int)):
            weight, bias, stride, padding, dilation, groups = _first_version(state)
            return cls(weight, bias, stride, padding, [0] * len(stride), dilation, groups, False)
        if state[0] == "2":
            (config, weight), (bias,) = state[1:]
            numbers = config.tolist()
        else:  # 3, in which numbers are no tensor
            numbers, (_, weight, bias) = state[1:]
        n, *numbers = numbers
        stride, padding, dilation, output_padding = (numbers[i * n : (i + 1) * n] for i in range(4))
        groups, transposed = numbers[4 * n :]
        return cls(weight, bias, stride, padding, output_padding, dilation, groups,
                   bool(transposed))  # fmt: skip


def _first_version(state: Any) -> tuple[Any, ...]:
    """Weight, bias, stride, padding, dilation and groups of a pickle of the first version."""
    weight, bias, *numbers = state
    lists = [[int(v) for v in each] for each in numbers[:3]]
    return weight, bias, *lists, int(numbers[3].item() if len(numbers) > 3 else 1)


def _conv_kind(n: int) -> type[ConvParams]:
    kind = type(
        f"Conv{n}dParams",
        (ConvParams,),
        {"name": f"quantized.Conv{n}dPackedParamsBase", "n": n, "__doc__": ConvParams.__doc__},
    )
    known(kind)
    return kind


CONV = {n: _conv_kind(n) for n in (2, 3)}  # one spatial dim is two with a first of size 1


@known
class EmbeddingParams(Packed):
    """A table of rows of 8 or 4 bits, each with its scale and zero point."""

    name = "quantized.EmbeddingPackedParamsBase"
    methods: ClassVar = {"bit_rate": "int", "unpack": "Tensor", "version": "int"}
    state_type = "(int, Tensor[], float[], int[])"

    def __init__(self, weight: Any) -> None:
        self.weight = weight
        self.bits = 4 if weight.dtype.name == "quint4x2" else 8

    def unpack(self) -> Any:
        """The table."""
        return self.weight

    def bit_rate(self) -> int:
        """Bits of an element."""
        return self.bits

    def version(self) -> int:
        """The version of the packing."""
        return 1

    def state(self) -> Any:
        return 1, [self.weight], [], [self.bits]

    @classmethod
    def of_state(cls, state: Any) -> Packed:
        return cls(state[1][0])
