"""Normalisation: batch, instance, layer, group, RMS."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from tritorch.core.dtype import int64
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions, init
from tritorch.nn.modules._functions import SyncBatchNorm as _SyncBatchNorm
from tritorch.nn.modules.linear import parameter
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.ops.shape.factory import ones, tensor, zeros

F: Any = _functions


class _NormBase(Module):
    """Weights and running statistics of one number for each channel."""

    _version = 2
    weight: Parameter
    bias: Parameter
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _dims: tuple[int, ...] = ()
    _dims_text = ""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, wanted in (("weight", self.affine), ("bias", self.affine and bias)):
            self.register_parameter(name, parameter(num_features, **where) if wanted else None)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, **where))
            self.register_buffer("running_var", ones(num_features, **where))
            counter = tensor(0, dtype=int64, device=device)
            self.register_buffer("num_batches_tracked", counter)
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        starts = (self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)
        for statistic, start in starts if self.track_running_stats else ():
            if statistic is not None:
                statistic.fill_(start)

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            raise ValueError(f"expected {self._dims_text} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                counter = self.num_batches_tracked
                state_dict[key] = tensor(0) if counter is None else counter
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys,
                                      unexpected_keys, error_msgs)  # fmt: skip


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """Normalised by the batch's statistics while training, by the running ones else."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        running = not self.training or self.track_running_stats
        return self._normalised(
            input, self.running_mean if running else None, self.running_var if running else None,
            by_batch, factor,
        )  # fmt: skip

    def _normalised(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, factor: float
    ) -> Tensor:
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch norm of vectors and sequences."""

    _dims, _dims_text = (2, 3), "2D or 3D"


class BatchNorm2d(_BatchNorm):
    """Batch norm of images."""

    _dims, _dims_text = (4,), "4D"


class BatchNorm3d(_BatchNorm):
    """Batch norm of volumes."""

    _dims, _dims_text = (5,), "5D"


class SyncBatchNorm(_BatchNorm):
    """Batch norm over all processes of a group; with a single process, batch norm."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias=bias)  # fmt: skip
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _normalised(
        self, input: Tensor, mean: Tensor | None, var: Tensor | None, by_batch: bool, factor: float
    ) -> Tensor:
        if by_batch and self.training:
            from tritorch import distributed

            if distributed.is_initialized():
                group = self.process_group or distributed.group.WORLD
                size = distributed.get_world_size(group)
                if size > 1:
                    return _SyncBatchNorm.apply(
                        input, self.weight, self.bias, mean, var, self.eps, factor, group, size
                    )
        return super()._normalised(input, mean, var, by_batch, factor)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The same module with every batch norm replaced by a synchronised one."""
        out = module
        if isinstance(module, _BatchNorm):
            out = cls(module.num_features, module.eps, module.momentum, module.affine,
                      module.track_running_stats, process_group)  # fmt: skip
            if module.affine:
                out.weight, out.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(out, name, getattr(module, name))
            out.training = module.training
            if hasattr(module, "qconfig"):  # of torch.ao.quantization
                out.qconfig = module.qconfig
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class _InstanceNorm(_NormBase):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = False, track_running_stats: bool = False, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype,
                         bias=bias)  # fmt: skip

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            raise ValueError(f"expected {self._dims_text} input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """Normalised for each example and channel."""
        self._check_input_dim(input)
        single = input.dim() == self._dims[0]
        at = 0 if single else 1
        if input.size(at) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={at} to match num_features "
                    f"({self.num_features}), but got: {input.size(at)}."
                )
            warnings.warn(
                f"input's size at dim={at} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        out = F.instance_norm(
            input.unsqueeze(0) if single else input, self.running_mean, self.running_var,
            self.weight, self.bias, self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0, self.eps,
        )  # fmt: skip
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of sequences."""

    _dims, _dims_text = (2, 3), "2D or 3D"


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of images."""

    _dims, _dims_text = (3, 4), "3D or 4D"


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of volumes."""

    _dims, _dims_text = (4, 5), "4D or 5D"


def _shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) over the last dims, scaled and shifted."""

    weight: Parameter
    bias: Parameter

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5,
        elementwise_affine: bool = True, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = _shape_of(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        new = lambda: parameter(*self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", new() if elementwise_affine else None)
        self.register_parameter("bias", new() if elementwise_affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        if self.elementwise_affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalised over the last dims."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class GroupNorm(Module):
    """Layer norm over groups of channels."""

    weight: Parameter
    bias: Parameter

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        new = lambda: parameter(num_channels, device=device, dtype=dtype)
        self.register_parameter("weight", new() if affine else None)
        self.register_parameter("bias", new() if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalised over groups of channels."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) over the last dims, scaled."""

    weight: Parameter

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None,
        elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = _shape_of(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        weight = parameter(*self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", weight if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised over the last dims."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class CrossMapLRN2d(Module):
    """Divided by what the neighbouring channels have, as in old networks."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """The normalised images."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        squares, reach = input.square(), int((self.size - 1) / 2 + 1)
        channels = input.shape[1]
        total = squares
        for step in range(1, min(reach, channels)):
            before, after = squares[:, :-step], squares[:, step:]
            total = total + F.pad(after, (0, 0, 0, 0, 0, step))
            total = total + F.pad(before, (0, 0, 0, 0, step, 0))
        if channels > reach:  # as in PyTorch, which never takes the first channel out again
            first = squares[:, :1].expand(-1, channels - reach, -1, -1)
            total = total + F.pad(first, (0, 0, 0, 0, reach, 0))
        return input * (total * (self.alpha / self.size) + self.k).pow(-self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
