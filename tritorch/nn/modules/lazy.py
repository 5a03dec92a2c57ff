"""Lazy modules: the first input decides the number of channels."""

from __future__ import annotations

import inspect
from typing import Any

from tritorch.autograd import no_grad
from tritorch.core.dtype import int64
from tritorch.core.tensor import Tensor
from tritorch.nn.modules import conv, norm
from tritorch.nn.modules.linear import Linear
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from tritorch.ops.shape.factory import tensor


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
    weight: UninitializedParameter
    bias: UninitializedParameter

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


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that waits for the channels of its first input."""

    def reset_parameters(self: Any) -> None:
        """Once the shapes are known."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Shapes by the channels of an input."""
        if not self.has_uninitialized_params():  # a state dict gave the shapes
            self.in_channels = self.in_channels or self._get_in_channels(input)
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        shape = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            shape = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*shape, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self: Any, input: Tensor) -> int:
        n = self._get_num_spatial_dims()
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[-n - 1]

    def _get_num_spatial_dims(self) -> int:
        raise NotImplementedError


def _lazy_conv(name: str, base: Any) -> Any:
    """The lazy form of a convolution: its arguments, but for the channels of inputs."""
    whole = inspect.signature(base.__init__)
    without = [p for p in whole.parameters.values() if p.name != "in_channels"]
    signature = whole.replace(parameters=without)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}.__init__() {error}") from None
        given = bound.arguments
        del given["self"]
        out_channels, bias = given.pop("out_channels"), given.pop("bias", True)
        super(kind, self).__init__(0, 0, bias=False, **given)
        where: Any = {"device": given.get("device"), "dtype": given.get("dtype")}
        self.weight, self.out_channels = UninitializedParameter(**where), out_channels
        if bias:
            self.bias = UninitializedParameter(**where)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    fields = {
        "__init__": __init__, "cls_to_become": base, "__module__": __name__,
        "_get_num_spatial_dims": lambda self: base._n,
        "__doc__": f"{base.__name__}, with as many channels as the first input has.",
    }  # fmt: skip
    kind: Any = type(name, (_LazyConvXdMixin, base), fields)
    return kind


class _LazyNormBase(LazyModuleMixin, norm._NormBase):
    """A norm that waits for the channels of its first input."""

    def __init__(
        self: Any, eps: float = 1e-5, momentum: Any = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        where: Any = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **where)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(**where)
            if bias:
                self.bias = UninitializedParameter(**where)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**where)
            self.running_var = UninitializedBuffer(**where)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self: Any) -> None:
        """Once the shapes are known."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

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


def _lazy_norm(name: str, base: Any) -> Any:
    """The lazy form of a norm; in PyTorch it does not derive from the class that it becomes."""
    fields = {
        "cls_to_become": base, "__module__": __name__, "_dims": base._dims,
        "_dims_text": base._dims_text,
        "__doc__": f"{base.__name__}, with as many channels as the first input has.",
    }  # fmt: skip
    return type(name, (_LazyNormBase, base.__bases__[0]), fields)


LAZY: dict[str, type[Module]] = {"LazyLinear": LazyLinear}
for _n in (1, 2, 3):
    for _kind in ("Conv", "ConvTranspose"):
        _base = getattr(conv, f"{_kind}{_n}d")
        LAZY[f"Lazy{_kind}{_n}d"] = _lazy_conv(f"Lazy{_kind}{_n}d", _base)
    for _kind in ("BatchNorm", "InstanceNorm"):
        _base = getattr(norm, f"{_kind}{_n}d")
        LAZY[f"Lazy{_kind}{_n}d"] = _lazy_norm(f"Lazy{_kind}{_n}d", _base)
globals().update(LAZY)
