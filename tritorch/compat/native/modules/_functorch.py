"""torch._C._functorch: batches and levels of gradients, as programs look into them."""

from __future__ import annotations

from typing import Any

from tritorch import _C
from tritorch.arrays.batched import BatchedArray
from tritorch.autograd.duals import primal_of
from tritorch.core.tensor import Tensor
from tritorch.ops.interpret import vmap


def is_batchedtensor(tensor: Tensor, /) -> bool:
    """Whether a tensor has a hidden batch dim."""
    return type(tensor._array) is BatchedArray


def is_gradtrackingtensor(tensor: Tensor, /) -> bool:
    """False: gradients of transforms are recorded like all others, by no wrapper."""
    return False


def is_functionaltensor(tensor: Tensor, /) -> bool:
    """False: no tensor here hides that it is written."""
    return False


def is_legacy_batchedtensor(tensor: Tensor, /) -> bool:
    """False: there is one kind of batches."""
    return False


is_dead_tensor_wrapper = is_legacy_batchedtensor


def is_functorch_wrapped_tensor(tensor: Tensor, /) -> bool:
    """Whether a transform has something of its own inside of a tensor."""
    return is_batchedtensor(tensor)


def get_unwrapped(tensor: Tensor, /) -> Tensor:
    """What is inside of a batch: the whole, its dim being the first one."""
    if not is_batchedtensor(tensor):
        raise RuntimeError("No wrappers present!")
    return _C.wrap(tensor._array.array)


def unwrap_if_dead(tensor: Tensor, /) -> Tensor:
    """The tensor: what outlives its transform is plain here."""
    return tensor


def maybe_get_level(tensor: Tensor, /) -> int:
    """The level of a batch; -1 for a plain tensor."""
    return tensor._array.level if is_batchedtensor(tensor) else -1


def maybe_get_bdim(tensor: Tensor, /) -> int:
    """The place of the hidden dim, which is always the first; -1 for a plain tensor."""
    return 0 if is_batchedtensor(tensor) else -1


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int, /) -> Tensor:
    """A tensor one of whose dims is hidden."""
    return vmap.to_batched(tensor.movedim(in_dim, 0), level)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int, /) -> Tensor:
    """A tensor whose hidden dim is a plain one again."""
    return vmap.from_batched(tensor, level, batch_size).movedim(0, out_dim)


def _unwrap_batched(tensor: Tensor, level: int, /) -> tuple[Tensor, int | None]:
    """What is inside of a batch of a level, and its dim; the tensor and None of another."""
    if is_batchedtensor(tensor) and tensor._array.level == level:
        return _C.wrap(tensor._array.array), 0
    return tensor, None


def _vmap_increment_nesting(batch_size: int, randomness: str, /) -> int:
    """Begins a vmap; gives its level."""
    level = len(vmap.active.levels)
    vmap.active.levels = [*vmap.active.levels, (level, batch_size)]
    vmap.active.modes = [*vmap.active.modes, randomness]
    return level


def _vmap_decrement_nesting() -> int:
    """Ends the innermost vmap; gives its level."""
    (level, _) = vmap.active.levels[-1]
    vmap.active.levels, vmap.active.modes = vmap.active.levels[:-1], vmap.active.modes[:-1]
    return level


def maybe_current_level() -> int | None:
    """The level of the innermost vmap; None outside of all."""
    return vmap.active.levels[-1][0] if vmap.active.levels else None


def current_level() -> int:
    """The level of the innermost vmap."""
    level = maybe_current_level()
    if level is None:
        raise RuntimeError("current_level() was called outside of all transforms")
    return level


def get_dynamic_layer_stack_depth() -> int:
    """How many vmaps are around."""
    return len(vmap.active.levels)


def peek_interpreter_stack() -> Any:
    """What interprets operators now; None outside of all transforms."""
    return vmap.active.levels[-1] if vmap.active.levels else None


def get_interpreter_stack() -> Any:
    """All that interpret operators now, the outermost one first; None outside of all."""
    return list(vmap.active.levels) or None


def _unwrap_for_grad(tensor: Tensor, level: int, /) -> Tensor:
    """A tensor without its tangent."""
    return tensor if tensor._tangent is None else primal_of(tensor)
