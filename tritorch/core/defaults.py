"""The default dtype and device, and the other switches that operators ask for."""

from __future__ import annotations

import warnings
from typing import Any

from tritorch import _C
from tritorch.core import dtype as dtypes
from tritorch.core.device import device as Device, entered

_default_dtype = dtypes.float32
_default_device: Device | None = None
_CPU = Device("cpu")


def dtype() -> dtypes.dtype:
    """The dtype of floating-point tensors that are created without one."""
    return _default_dtype


def get_default_dtype() -> dtypes.dtype:
    """The dtype of floating-point tensors that are created without one."""
    return _default_dtype


def set_default_dtype(d: dtypes.dtype) -> None:
    """Sets the dtype of floating-point tensors that are created without one."""
    global _default_dtype
    if not isinstance(d, dtypes.dtype):
        raise TypeError(
            "invalid dtype object: only floating-point types are supported as the default type"
        )
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    if d.name.startswith("float8"):
        raise TypeError(f"couldn't find storage object F{d.name[1:]}Storage")
    _C.ambient_changes()
    _default_dtype = d


def device() -> Device:
    """Where tensors are created when nobody says where."""
    if entered.devices:
        return entered.devices[-1]
    return _default_device or _CPU


def get_default_device() -> Device:
    """Where tensors are created when nobody says where."""
    where = device()
    if where.type == "cuda" and where.index is None:
        return Device("cuda", _C.current_device())
    return where


def set_default_device(device: Any) -> None:
    """Sets where tensors are created when nobody says where; None: the CPU."""
    global _default_device
    _C.ambient_changes()
    _default_device = None if device is None else Device(device)


# ---- determinism and precision -------------------------------------------------------------------

_deterministic = False
_deterministic_warn_only = False
_warn_always = False


def require_bool(function: str, name: str, value: Any, position: int | None = None) -> None:
    """Raises a TypeError in PyTorch's words unless an argument is a bool."""
    if not isinstance(value, bool):
        place = "" if position is None else f" (position {position})"
        raise TypeError(
            f"{function}(): argument '{name}'{place} must be bool, not {type(value).__name__}"
        )


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Sets whether operators raise (or warn) that have no deterministic form in PyTorch.

    Every operator of tritorch is deterministic: `utils.deterministic.keep_own = True` keeps those.
    """
    global _deterministic, _deterministic_warn_only, fills_memory
    require_bool("_set_deterministic_algorithms", "mode", mode, 1)
    require_bool("_set_deterministic_algorithms", "warn_only", warn_only)
    _C.ambient_changes()
    _deterministic, _deterministic_warn_only = mode, mode and warn_only
    fills_memory = mode and _fill_uninitialized


keeps_own_deterministic = False  # whether operators that only PyTorch lacks a form of may run


def alert_not_deterministic(caller: str) -> None:
    """Raises, or warns, where deterministic algorithms are asked for and PyTorch has none."""
    if not _deterministic or keeps_own_deterministic:
        return
    said = f"{caller} does not have a deterministic implementation, but you set "
    ask = "file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize "
    ask += "adding deterministic support for this operation."
    if _deterministic_warn_only:
        warn(
            f"{said}'torch.use_deterministic_algorithms(True, warn_only=True)'. You can {ask}",
            stacklevel=3,
        )
        return
    raise RuntimeError(
        f"{said}'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for "
        "this operation, or you can use the 'warn_only=True' option, if that's acceptable for "
        f"your application. You can also {ask}"
    )


typed_home = "cpu"  # where `Tensor([1])` lies: set_default_tensor_type says it
fills_memory = False  # whether memory that nobody has written yet is filled: NaN, or the largest
_fill_uninitialized = True


def get_fill_uninitialized_memory() -> bool:
    """Whether deterministic algorithms fill memory that nobody has written yet."""
    return _fill_uninitialized


def set_fill_uninitialized_memory(mode: bool) -> None:
    """Sets it; it counts while `use_deterministic_algorithms` is on."""
    global _fill_uninitialized, fills_memory
    if not isinstance(mode, bool):
        raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
    _C.ambient_changes()
    _fill_uninitialized, fills_memory = mode, mode and _deterministic


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was given."""
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was given warn_only."""
    return _deterministic_warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 "default", 1 "warn", 2 "error"."""
    names = {"default": 0, "warn": 1, "error": 2}
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """0: off, 1: warn, 2: error."""
    return 0 if not _deterministic else 1 if _deterministic_warn_only else 2


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once are given each time."""
    global _warn_always
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _C.ambient_changes()
    _warn_always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given."""
    return _warn_always


def warn(message: str, category: type[Warning] = UserWarning, stacklevel: int = 1) -> None:
    """`warnings.warn` for operators: a call that warns gets no plan, so that it warns again."""
    _C.unrecordable("it warns")
    warnings.warn(message, category, stacklevel + 1)


_warned: set[str] = set()


def warn_once(
    message: str, category: type[Warning] = UserWarning, stacklevel: int = 3, *, of: str = ""
) -> None:
    """A warning that a process sees once, or each time after `set_warn_always(True)`.

    of: what it is about, where the words vary."""
    if _warn_always or (of or message) not in _warned:
        _warned.add(of or message)
        warn(message, category, stacklevel=stacklevel)


def forget_warning(message: str) -> None:
    """A warning of `warn_once` is given again the next time."""
    _warned.discard(message)


kernels = 0  # changes with the functions that compute operators, and with how they are launched


def kernels_change() -> None:
    """Is called when a program replaces an operator's kernel, or takes that back, and by tuners."""
    global kernels
    _C.ambient_changes()
    kernels += 1
