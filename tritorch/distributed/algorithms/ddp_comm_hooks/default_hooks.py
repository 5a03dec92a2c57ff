"""Communication hooks that average a bucket: as it is, or in half the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritorch.core.dtype import bfloat16, dtype, float16
from tritorch.core.tensor import Tensor
from tritorch.distributed.collectives import all_reduce
from tritorch.distributed.ddp.buckets import GradBucket
from tritorch.distributed.groups import _group_or_default_group
from tritorch.futures import Future

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]  # fmt: skip

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def _averaged(group: Any, flat: Tensor) -> Future[Tensor]:
    group = _group_or_default_group(group)
    work = all_reduce(flat.div_(group.size()), group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average of all processes."""
    return _averaged(process_group, bucket.buffer())


def _narrow(kind: dtype, group: Any, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    narrow = _averaged(group, buffer.to(kind))
    return narrow.then(lambda done: buffer.copy_(done.value()))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average, sent as float16."""
    return _narrow(float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average, sent as bfloat16."""
    return _narrow(bfloat16, process_group, bucket)


def _wrapped(kind: dtype, hook: Hook) -> Hook:
    def wrapper(state: Any, bucket: GradBucket) -> Future[Tensor]:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(kind))
        return hook(state, bucket).then(lambda done: buffer.copy_(done.value()))

    return wrapper


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Another hook, which gets float16."""
    return _wrapped(float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Another hook, which gets bfloat16."""
    return _wrapped(bfloat16, hook)
