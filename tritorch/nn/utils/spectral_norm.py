"""Weights divided by their largest singular value (torch.nn.utils.spectral_norm)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritorch.autograd import no_grad
from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions
from tritorch.nn.hooks import find_hook
from tritorch.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter, UninitializedParameter
from tritorch.ops.shape.factory import tensor

F: Any = _functions


def default_dim(module: Module, dim: int | None) -> int:
    """The dim of outputs: 1 of transposed convolutions."""
    if dim is not None:
        return dim
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


class SpectralNorm:
    """The hook that computes the weight before each call, by power iterations."""

    _version: int = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """(outputs, everything else)"""
        if self.dim != 0:
            weight = weight.movedim(self.dim, 0)
        return weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """weight / (u^T weight v), after some more iterations of u and v."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()  # the gradient needs them as they are now
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """One parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Adds the hook and the state of the iterations."""
        if find_hook(module._forward_pre_hooks, SpectralNorm, name) is not None:
            raise RuntimeError(
                f"Cannot register two spectral_norm hooks on the same parameter {name}"
            )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make "
                "sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            sizes = hook.reshape_weight_to_matrix(weight).shape
            u, v = (
                F.normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in sizes
            )
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormStateDictHook:
    """Notes the version in the metadata of a state dict."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.fn = hook

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Reads state dicts of PyTorch before 1.0, which have the weight instead of v."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.fn = hook

    def __call__(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        key = prefix + self.fn.name
        if version is not None and version >= 1:
            return
        now = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if version is None and now and key not in state_dict:
            return
        missing = [key + s for s in ("_orig", "", "_u") if key + s not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else [])
            return
        with no_grad():
            orig, u = state_dict[f"{key}_orig"], state_dict[f"{key}_u"]
            sigma = (orig / state_dict.pop(key)).mean()
            matrix = self.fn.reshape_weight_to_matrix(orig)
            v = _solve(matrix, u)
            state_dict[f"{key}_v"] = v * (sigma / u.dot(matrix.mv(v)))


def _solve(matrix: Tensor, u: Tensor) -> Tensor:
    """The least-squares v of matrix v = u."""
    found = np.linalg.pinv(matrix.detach().cpu().double().numpy()) @ u.cpu().double().numpy()
    return tensor(found, dtype=matrix.dtype, device=matrix.device)


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """A parameter as `<name>_orig` divided by its largest singular value."""
    SpectralNorm.apply(module, name, n_power_iterations, default_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Undoes spectral_norm."""
    key = find_hook(module._forward_pre_hooks, SpectralNorm, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    module._forward_pre_hooks.pop(key).remove(module)
    for hooks, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):  # fmt: skip
        key = find_hook(hooks, kind, name)
        if key is not None:
            del hooks[key]
    return module
