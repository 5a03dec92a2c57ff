"""What a reduction does: ReduceOp, and the options of PyTorch's methods of a group."""

from __future__ import annotations

import dataclasses
import enum
import warnings
from datetime import timedelta
from typing import Any

from tritorch.distributed.constants import default_pg_timeout

__all__ = ["ReduceOp"]


class RedOpType(enum.Enum):
    """The operations by number."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __call__(self, factor: Any) -> ReduceOp:
        """PREMUL_SUM with a factor: each member's part is multiplied by it before the sum."""
        if self is not RedOpType.PREMUL_SUM:
            raise TypeError(f"{self} takes no factor: only PREMUL_SUM does")
        made = ReduceOp(self)
        made.factor = factor
        return made


class ReduceOp:
    """An operation, with its factor if it has one."""

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM
    UNUSED = RedOpType.UNUSED

    def __init__(self, op: Any = RedOpType.SUM) -> None:
        self.op: Any = op.op if isinstance(op, ReduceOp) else op
        self.factor: Any = op.factor if isinstance(op, ReduceOp) else None
        if not isinstance(self.op, RedOpType):
            raise TypeError(f"ReduceOp needs a RedOpType, not {type(op).__name__}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ReduceOp):
            return self.op is other.op
        return self.op is other

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return repr(self.op)

    def __reduce__(self) -> Any:
        return (self.op, (self.factor,)) if self.factor is not None else (ReduceOp, (self.op,))


for _type in (ReduceOp, RedOpType):
    _type.__module__ = "tritorch.distributed.distributed_c10d"
RedOpType.__qualname__ = "ReduceOp.RedOpType"


def as_type(op: ReduceOp | RedOpType) -> tuple[RedOpType, Any]:
    """An operation's type and factor."""
    return (op.op, op.factor) if isinstance(op, ReduceOp) else (op, None)


class _ReduceOpNames:
    """The former name of ReduceOp's members."""

    def __getattribute__(self, name: str) -> Any:
        if name in RedOpType.__members__:
            warnings.warn(
                "`torch.distributed.reduce_op` is deprecated, please use "
                "`torch.distributed.ReduceOp` instead",
                FutureWarning,
                stacklevel=2,
            )
            return RedOpType[name]
        if name == "__members__":
            return RedOpType.__members__
        return object.__getattribute__(self, name)


reduce_op = _ReduceOpNames()


@dataclasses.dataclass
class _Options:
    timeout: timedelta = default_pg_timeout
    asyncOp: bool = True


def _options(name: str, **fields: tuple[Any, Any]) -> Any:
    """A class of PyTorch's options: fields with their types and defaults."""
    parts = [
        (field, kind, dataclasses.field(default=value)) for field, (kind, value) in fields.items()
    ]
    made = dataclasses.make_dataclass(name, parts, bases=(_Options,))
    made.__module__ = "tritorch.distributed.distributed_c10d"
    made.__doc__ = f"What a group's method needs: {', '.join(fields) or 'a timeout'}."
    return made


_SUM = ("reduceOp", (Any, RedOpType.SUM))
_ROOT = {"rootRank": (int, 0), "rootTensor": (int, 0)}
BroadcastOptions = _options("BroadcastOptions", **_ROOT)
AllreduceOptions = _options("AllreduceOptions", **dict([_SUM]), sparseIndices=(Any, None))
AllreduceCoalescedOptions = _options("AllreduceCoalescedOptions", **dict([_SUM]))
ReduceOptions = _options("ReduceOptions", **dict([_SUM]), **_ROOT)
AllgatherOptions = _options("AllgatherOptions")
GatherOptions = _options("GatherOptions", rootRank=(int, 0))
ScatterOptions = _options("ScatterOptions", rootRank=(int, 0))
ReduceScatterOptions = _options("ReduceScatterOptions", **dict([_SUM]))
AllToAllOptions = _options("AllToAllOptions")
BarrierOptions = _options("BarrierOptions", device_ids=(Any, None), device=(Any, None))
