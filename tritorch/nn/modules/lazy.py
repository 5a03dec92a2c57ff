"""Lazy modules: the first input decides the number of channels."""

from __future__ import annotations

from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.dtype import int64
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor
from tritorch.nn.modules import conv, norm
from tritorch.nn.modules.linear import Linear
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Parameters without shapes until the first call; then the class becomes `cls_to_become`."""

    cls_to_become: Any = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer still waits for its shape."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def initialize_parameters(self: Any, *args: Any, **kwargs: Any) -> None:
        """Gives all parameters their shapes."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any) -> None:
        module.initialize_parameters(*args, **kwargs)
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        for table in (self._parameters, self._buffers):
            for name, value in table.items():
                given = state_dict.get(prefix + name)
                if (
                    given is not None
                    and value is not None
                    and is_lazy(value)
                    and not is_lazy(given)
                ):
                    with no_grad():
                        value.materialize(given.shape)

    def _save_to_state_dict(self: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
        for table in (self._parameters, self._buffers):
            for name, value in table.items():
                if value is not None and name not in self._non_persistent_buffers_set:
                    keep = keep_vars or is_lazy(value)
                    destination[prefix + name] = value if keep else value.detach()


class LazyLinear(LazyModuleMixin, Linear):
    """Linear, with as many inputs as the first one has."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Once the shapes are known."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Shapes by the last dim of an input."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if not self.in_features:  # a state dict gave the shapes
            self.in_features = input.shape[-1]


class _LazyConv(LazyModuleMixin):
    _n: int

    def reset_parameters(self: Any) -> None:
        """Once the shapes are known."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Shapes by the channels of an input."""
        if not self.has_uninitialized_params():
            self.in_channels = self.in_channels or input.shape[-self._n - 1]
            return
        if input.dim() not in (self._n + 1, self._n + 2):
            raise RuntimeError(
                f"Expected {self._n + 1}D (unbatched) or {self._n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-self._n - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        shape = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            shape = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*shape, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


def _lazy_conv(name: str, base: Any) -> Any:
    def __init__(
        self: Any, out_channels: int, kernel_size: Any, *args: Any, bias: bool = True,
        device: Any = None, dtype: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        names = ("stride", "padding", "output_padding", "groups") if base._transposed else (
            "stride", "padding", "dilation", "groups")  # fmt: skip
        positional = dict(zip((*names, "bias"), args))
        bias = positional.pop("bias", bias)
        super(kind, self).__init__(0, 0, kernel_size, bias=False, **positional, **kwargs)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    fields = {
        "__init__": __init__, "cls_to_become": base, "__module__": __name__,
        "__doc__": f"{base.__name__}, with as many channels as the first input has.",
    }  # fmt: skip
    kind: Any = type(name, (_LazyConv, base), fields)
    return kind


class _LazyNorm(LazyModuleMixin):
    def __init__(
        self: Any, eps: float = 1e-5, momentum: Any = 0.1, affine: Any = None,
        track_running_stats: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype)
        where = {"device": device, "dtype": dtype}
        self.affine = self._affine if affine is None else affine
        tracks = self._tracks if track_running_stats is None else track_running_stats
        self.track_running_stats = tracks
        if self.affine:
            self.weight = UninitializedParameter(**where)
            if bias:
                self.bias = UninitializedParameter(**where)
        if tracks:
            self.running_mean = UninitializedBuffer(**where)
            self.running_var = UninitializedBuffer(**where)
            self.num_batches_tracked = PUBLIC["tensor"](0, dtype=int64, device=device)

    def reset_parameters(self: Any) -> None:
        """Once the shapes are known."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor) -> None:
        """Shapes by the channels of an input."""
        if not self.has_uninitialized_params():
            self.num_features = self.num_features or input.shape[1]
            return
        self.num_features = input.shape[1]
        for name in ("weight", "bias", "running_mean", "running_var"):
            value = getattr(self, name)
            if value is not None and is_lazy(value):
                value.materialize((self.num_features,))
        self.reset_parameters()


LAZY: dict[str, type[Module]] = {"LazyLinear": LazyLinear}
for _n in (1, 2, 3):
    for _kind in ("Conv", "ConvTranspose"):
        _base = getattr(conv, f"{_kind}{_n}d")
        LAZY[f"Lazy{_kind}{_n}d"] = _lazy_conv(f"Lazy{_kind}{_n}d", _base)
    for _kind in ("BatchNorm", "InstanceNorm"):
        _base = getattr(norm, f"{_kind}{_n}d")
        LAZY[f"Lazy{_kind}{_n}d"] = type(
            f"Lazy{_kind}{_n}d", (_LazyNorm, _base),
            {"cls_to_become": _base, "__module__": __name__,
             "__doc__": f"{_base.__name__}, with as many channels as the first input has."},
        )  # fmt: skip
globals().update(LAZY)
