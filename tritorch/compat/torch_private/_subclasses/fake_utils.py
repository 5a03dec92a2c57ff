"""CrossRefFakeMode: whether fake tensors say of operators what real ones give."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tritorch.arrays.symbolic import ShapeEnv, SymInt
from tritorch.compat.torch_private._subclasses.fake_tensor import (
    FakeTensorMode,
    MetadataMismatchError,
    UnsupportedFakeTensorException,
)
from tritorch.core.tensor import Tensor
from tritorch.schema.tags import Tag
from tritorch.trees.walk import tree_leaves, tree_map
from tritorch.utils._python_dispatch import TorchDispatchMode

__all__ = ["CrossRefFakeMode"]

_UNLIKE = (Tag.dynamic_output_shape, Tag.inplace_view, Tag.data_dependent_output)


def _tensors(value: Any) -> list[Tensor]:
    return [x for x in tree_leaves(value) if isinstance(x, Tensor)]


def outputs_alias_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether a tensor of one value shares memory with one of another."""
    seen = {id(x._shared) for x in _tensors(inputs)}
    return any(id(x._shared) in seen for x in _tensors(outputs))


def outputs_are_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether a tensor of one value is one of another."""
    seen = {id(x) for x in _tensors(inputs)}
    return any(id(x) in seen for x in _tensors(outputs))


def output_alias_each_other(outputs: Any) -> bool:
    """Whether tensors of a value share memory."""
    memory = [id(x._shared) for x in _tensors(outputs)]
    return len(set(memory)) < len(memory)


def _require_same_aliases(
    context: str, real_out: Any, real_in: Any, fake_out: Any, fake_in: Any
) -> None:
    """What shares memory for real does so among fakes."""
    for question, given in (
        (outputs_alias_inputs, True), (outputs_are_inputs, True), (output_alias_each_other, False)
    ):  # fmt: skip
        real = question(real_out, *((real_in,) if given else ()))
        fake = question(fake_out, *((fake_in,) if given else ()))
        name = question.__name__
        if real != fake:
            raise MetadataMismatchError(f"{context} mismatch in {name} check {real} != {fake}")


def _known(a: Any, b: Any) -> bool:
    """True if two sizes are said to differ; a dynamic one may be anything."""
    return not isinstance(b, SymInt) and a != b


def _check_fake_real_tensors(
    real_out: Tensor, fake_out: Any, context: str = "", sizes: bool = True, strides: bool = False,
    storage_offset: bool = True, requires_grad: bool = True,
) -> None:  # fmt: skip
    """Refuses a fake that does not describe a tensor."""
    if requires_grad and real_out.requires_grad != fake_out.requires_grad:
        raise MetadataMismatchError(
            f"{context} mismatched requires_grad-ness of outputs. This usually means that you have "
            "added autograd support for your operator at a dispatch key other than Autograd, which "
            "will lead to problems"
        )
    if storage_offset and real_out.storage_offset() != fake_out.storage_offset():
        raise MetadataMismatchError(f"{context} mismatched storage offset")
    a, b = real_out.shape, fake_out.shape
    if sizes and (len(a) != len(b) or any(map(_known, a, b))):
        raise MetadataMismatchError(f"Shapes {a} and {b} are not equal!")
    for what, x, y in (
        ("Dtypes", real_out.dtype, fake_out.dtype),
        ("Devices", real_out.device, fake_out.device),
    ):
        if x != y:
            raise MetadataMismatchError(f"{what} {x} and {y} are not equal!")
    if strides and real_out.numel() > 0:
        for i, (n, own, other) in enumerate(zip(a, real_out.stride(), fake_out.stride())):
            if n > 1 and _known(own, other):
                raise MetadataMismatchError(
                    f"Stride mismatch! Strides are {real_out.stride()} and {fake_out.stride()} "
                    f"(mismatched at {i})!"
                )


class CrossRefFakeMode(TorchDispatchMode):
    """Runs each operator on fakes too, and refuses results that are not alike.

    ignore_op_fn: says of an operator whether it is left out."""

    def __init__(
        self,
        ignore_op_fn: Callable[[Any], bool] | None = None,
        *,
        check_strides: bool = True,
        check_aliasing: bool = True,
        only_check_ops_with_meta: bool = True,
    ) -> None:
        super().__init__()
        self.ignore_op_fn = ignore_op_fn or (lambda op: False)
        self.check_strides, self.check_aliasing = check_strides, check_aliasing
        self.only_check_ops_with_meta = only_check_ops_with_meta

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        fakes = None
        if not self.ignore_op_fn(func) and not any(tag in func.tags for tag in _UNLIKE):
            fakes = self._of_fakes(func, args, kwargs)
        result = func(*args, **kwargs)
        if fakes is not None:
            self._compare(func, result, (args, kwargs), *fakes)
        return result

    def _of_fakes(self, func: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """What an operator gives for fakes of its arguments, and these."""
        env = ShapeEnv()
        try:
            with FakeTensorMode(shape_env=env) as mode:

                def fake(x: Any) -> Any:
                    return mode.from_tensor(x, static_shapes=True) if isinstance(x, Tensor) else x

                given, named = tree_map(fake, (args, kwargs))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    return func(*given, **named), (given, named)
        except UnsupportedFakeTensorException:
            return None

    def _compare(self, func: Any, real: Any, real_in: Any, fake: Any, fake_in: Any) -> None:
        context = f"When comparing the output of {func} on FakeTensor and concrete Tensors, found"
        reals, fakes = tree_leaves(real), tree_leaves(fake)
        if len(reals) != len(fakes):
            raise AssertionError(
                f"{context} mismatch in number of returns {len(fakes)} != {len(reals)}"
            )
        if self.check_aliasing:
            _require_same_aliases(context, real, real_in, fake, fake_in)
        for place, (a, b) in enumerate(zip(reals, fakes)):
            if isinstance(a, Tensor) != isinstance(b, Tensor):
                raise AssertionError(f"{context} mismatched number of tensor outputs")
            if not isinstance(a, Tensor):
                continue
            try:
                _check_fake_real_tensors(a, b, strides=self.check_strides)
            except MetadataMismatchError as error:
                which = "" if len(reals) == 1 else f" for output[{place}]"
                raise MetadataMismatchError(
                    f"{context} mismatched tensor metadata{which}: {error}"
                ) from error
