"""Binds functions of modules that load at the first call, for `core/late_bound.py`."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.core import late_bound
from tritorch.core.device import device
from tritorch.core.generator import default_generator
from tritorch.core.layout import layout, memory_format
from tritorch.ops.record.gradients import Spec


def _reduce_tensor(tensor: Any) -> Any:
    from tritorch.serialization.rebuild import reduce_tensor

    return reduce_tensor(tensor)


def _reduce_parameter(parameter: Any) -> Any:
    from tritorch.serialization.rebuild import reduce_parameter

    return reduce_parameter(parameter)


def _reduce_typed_storage(storage: Any) -> Any:
    from tritorch.serialization.storages import reduce_typed_storage

    return reduce_typed_storage(storage)


def _compile(*args: Any, **kwargs: Any) -> Any:
    from tritorch.compiler import compile

    return compile(*args, **kwargs)


def _do_bench(*args: Any, **kwargs: Any) -> Any:
    from tritorch.utils.benchmark import do_bench

    return do_bench(*args, **kwargs)


def _worker_info() -> Any:
    from tritorch.utils.data import get_worker_info

    return get_worker_info()


def _as_sparse_gradcheck(gradcheck: Any) -> Any:
    from tritorch.sparse.gradcheck import as_sparse_gradcheck

    return as_sparse_gradcheck(gradcheck)


def _make_tensor(*args: Any, **kwargs: Any) -> Any:
    from tritorch.testing import make_tensor

    return make_tensor(*args, **kwargs)


def _varlen(*args: Any) -> Any:
    from tritorch.ops.nn.varlen import varlen

    return varlen(*args)


def _served_library(path: str) -> str | None:
    from tritorch.compat.shims import served

    return served(path)


def _register_reductions() -> None:
    import tritorch.multiprocessing  # noqa: F401


def _declare_internal() -> None:
    from tritorch.compat.legacy_operators import internal, matrices  # noqa: F401
    from tritorch.ops.quantized import internal as of_quantized, packed_weights  # noqa: F401


def _declare_operators(space: str) -> None:
    if space in ("quantized", "_quantized", "sparse", "onednn"):
        import tritorch.ops.quantized
    elif space == "quantized_decomposed":
        import tritorch.ao.quantization.fx._decomposed  # noqa: F401


def _vmap(*args: Any, **kwargs: Any) -> Any:
    from tritorch.func.vmap import vmap

    return vmap(*args, **kwargs)


def _vmap_passing_none(*args: Any, **kwargs: Any) -> Any:
    from tritorch.func.vmap import vmap_passing_none

    return vmap_passing_none(*args, **kwargs)


def _device_interface() -> Any:
    from tritorch import cuda

    return cuda


def _collect_garbage() -> None:
    from tritorch.cuda.memory import collect_garbage

    collect_garbage()


late_bound.reduce_typed_storage = _reduce_typed_storage
late_bound.reduce_tensor, late_bound.reduce_parameter = _reduce_tensor, _reduce_parameter
late_bound.compile, late_bound.do_bench, late_bound.worker_info = _compile, _do_bench, _worker_info
late_bound.as_sparse_gradcheck, late_bound.make_tensor = _as_sparse_gradcheck, _make_tensor
late_bound.varlen, late_bound.served_library = _varlen, _served_library
late_bound.register_reductions, late_bound.declare_internal = (
    _register_reductions,
    _declare_internal,
)
late_bound.declare_operators = _declare_operators


def _settings() -> int:
    from tritorch.compilation.follow.ambient import number

    return number()


def _without_values(function: Any, args: Any, kwargs: Any, made: Any) -> bool:
    from tritorch.compilation.plan.meta_execution import calls_without_values

    return calls_without_values(function, args, kwargs, made)


def _random_state(state: bytes | None = None) -> Any:
    """The state of the CPU's generator, or sets it."""
    native = default_generator.native
    return native.get_state() if state is None else native.set_state(state)


class _ArrayMethod:
    """A method or property of `_C.Array` that is written in Python: its first use loads
    `gpu/arrays.py`, which puts its own in the place of all of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Any, kind: type) -> Any:
        from tritorch.gpu import arrays  # noqa: F401

        return getattr(kind if array is None else array, self.name)


ARRAY_METHODS = """
    __array__ __dlpack__ __dlpack_device__ __cuda_array_interface__ __repr__ __setitem__
    T astype clone contiguous copy_ device fill_ from_numpy is_cuda numpy record_stream reshape
    to_device view zero_
""".split()  # noqa: SIM905
for _name in ARRAY_METHODS:
    setattr(_C.Array, _name, _ArrayMethod(_name))
late_bound.vmap, late_bound.vmap_passing_none = _vmap, _vmap_passing_none
late_bound.device_interface = _device_interface
_C.set_garbage_collector(_collect_garbage)
# Call plans: docs/plans.md.
_C.set_plans((device, layout, memory_format, Spec), _settings, _without_values, _random_state)
