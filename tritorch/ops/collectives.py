"""Collectives as operators: each member of a group gives a tensor, and gets a new one.

# Note [Collectives as records]
A group goes by its name, so params are plain data, and what a result looks like follows without a
group: meta tensors, traces and compiled functions ask the record alone.  Who moves the data stands
above: `tritorch.distributed` fills `MOVERS`.  A call meets other processes, which wait for it.  So
nobody may drop it, make it twice, or change its place among others: its record `meets`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray, meta_of
from tritorch.core.published import INTERNAL
from tritorch.core.tensor import Tensor
from tritorch.ops.record.groups import Rules
from tritorch.ops.record.operator import Operator

# By the name of a record: (array, new array, *params) -> None.  "rank": (group_name) -> int.
MOVERS: dict[str, Callable[..., Any]] = {}


def _move(name: str) -> Callable[..., Any]:
    if name not in MOVERS:
        raise RuntimeError("there is no process group: tritorch.distributed was not imported")
    return MOVERS[name]


class Collective(Operator):
    """A collective's record: its backends follow from `infer`, and from who moves data."""

    meets = True

    def __init__(self, name: str, params: str, grad: Any, rules: Rules) -> None:
        call = ", ".join(["x", *params.split()])
        super().__init__(
            name, "x", params,
            schema=f"_c10d_functional::{name}({call})", kind="collective", cpu=self._run,
            gpu=self._run, grad=grad, layout="row-major", rules=rules,
        )  # fmt: skip

    def call(self, tensors: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
        """Runs; the group may be given itself, and sizes as a list."""
        *given, group = (tuple(each) if type(each) is list else each for each in params)
        return super().call(tensors, (*given, str(getattr(group, "group_name", group))))

    def _run(self, x: Any, *params: Any) -> Any:
        found = self.infer((meta_of(x),), params)
        out = arrays.empty(found.shape, found.dtype, arrays.device_of(x))
        _move(self.name)(x, out, *params)
        return out


# ---- shapes, and what is computed ----------------------------------------------------------------


def _same(x: MetaArray, *params: Any) -> MetaArray:
    return x.new(x.shape)


def _with_rows(x: MetaArray, rows: Any) -> MetaArray:
    return x.new((rows, *x.shape[1:]))


def _by_rows(x: MetaArray, *params: Any) -> str:
    """The axes where rows go to others."""
    columns = "abcdefghijklmnopqrstuvw"[: len(x.shape) - 1]
    return f"z~{columns}->z~{columns}"


def _none(outs: Sequence[MetaArray], x: MetaArray, *params: Any) -> Any:
    return 0


# ---- gradients: each movement's opposite, of what all members have -------------------------------


def _require_sum(name: str, reduce_op: str, *others: str) -> None:
    if reduce_op not in ("sum", *others):
        raise RuntimeError(f"{name} backward only supports 'sum' reduction, got '{reduce_op}'")


def _of_all_reduce(g: Tensor, reduce_op: str, group_name: str) -> Tensor:
    _require_sum("all_reduce", reduce_op, "avg")
    return wait_tensor(all_reduce(g.contiguous(), reduce_op, group_name))


def _of_all_gather(g: Tensor, group_size: int, group_name: str) -> Tensor:
    found = reduce_scatter_tensor(g.contiguous(), "sum", group_size, group_name)
    return wait_tensor(found)


def _of_reduce_scatter(g: Tensor, reduce_op: str, group_size: int, group_name: str) -> Tensor:
    _require_sum("reduce_scatter_tensor", reduce_op, "avg")
    found = wait_tensor(all_gather_into_tensor(g.contiguous(), group_size, group_name))
    return found / group_size if reduce_op == "avg" else found


def _of_all_to_all(
    g: Tensor, output_split_sizes: Any, input_split_sizes: Any, group_name: str
) -> Tensor:
    found = all_to_all_single(g.contiguous(), input_split_sizes, output_split_sizes, group_name)
    return wait_tensor(found)


def _of_broadcast(g: Tensor, src: int, group_name: str) -> Tensor:
    total = wait_tensor(all_reduce(g.contiguous(), "sum", group_name))
    return total if _move("rank")(group_name) == src else total.new_zeros(total.shape)


# ---- records -------------------------------------------------------------------------------------

_all_reduce = Collective(
    "all_reduce", "reduce_op group_name", _of_all_reduce,
    Rules(infer=_same, axes="...->...", cost=lambda outs, x, *params: x.numel()),
)  # fmt: skip
_broadcast = Collective(
    "broadcast", "src group_name", _of_broadcast, Rules(infer=_same, axes="...->...", cost=_none)
)
_all_gather = Collective(
    "all_gather_into_tensor", "group_size group_name", _of_all_gather,
    Rules(
        infer=lambda x, size, name: _with_rows(x, x.shape[0] * size), axes=_by_rows, cost=_none
    ),
)  # fmt: skip
_reduce_scatter = Collective(
    "reduce_scatter_tensor", "reduce_op group_size group_name", _of_reduce_scatter,
    Rules(
        infer=lambda x, op, size, name: _with_rows(x, x.shape[0] // size), axes=_by_rows,
        cost=lambda outs, x, *params: x.numel() - outs[0].numel(),
    ),
)  # fmt: skip
_all_to_all = Collective(
    "all_to_all_single", "output_split_sizes input_split_sizes group_name", _of_all_to_all,
    Rules(infer=lambda x, outs, ins, name: _with_rows(x, sum(outs)), axes=_by_rows, cost=_none),
)  # fmt: skip
_wait = Operator(
    "wait_tensor", "x",
    schema="_c10d_functional::wait_tensor(x)", kind="collective", view=True, cpu=lambda x: x[...],
    gpu=lambda x: x[...], grad=lambda g: g, rules=Rules(infer=lambda x: x[...], axes="...->..."),
)  # fmt: skip


# ---- functions -----------------------------------------------------------------------------------


def all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """The sum, or what the word says, of the members' tensors."""
    return _all_reduce.call((input,), (reduce_op, group_name))


def broadcast(input: Tensor, src: int, group_name: str) -> Tensor:
    """One member's tensor; src: its rank in the group."""
    return _broadcast.call((input,), (src, group_name))


def all_gather_into_tensor(input: Tensor, group_size: int, group_name: str) -> Tensor:
    """The members' tensors, one behind the other."""
    return _all_gather.call((input,), (group_size, group_name))


def reduce_scatter_tensor(
    input: Tensor, reduce_op: str, group_size: int, group_name: str
) -> Tensor:
    """This member's rows of the sum of the members' tensors."""
    return _reduce_scatter.call((input,), (reduce_op, group_size, group_name))


def all_to_all_single(
    input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int],
    group_name: str,
) -> Tensor:  # fmt: skip
    """Rows of each member's tensor; as many as the sizes say."""
    sizes = output_split_sizes, input_split_sizes
    return _all_to_all.call((input,), (*sizes, group_name))


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor, once its collective is over: for the device's stream, as it is made."""
    return _wait.call((tensor,))


# ---- overloads that are made of these ------------------------------------------------------------


def _each(one: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """A collective of several tensors: one after the other."""
    return lambda inputs, *params, **named: [one(x, *params, **named) for x in inputs]


def _within(one: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A collective that writes its result into the tensor that it is given."""
    return lambda input, *params, **named: input.copy_(one(input, *params, **named))


def _into(one: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A collective that writes its result into another tensor."""
    return lambda input, *params, out, **named: out.copy_(one(input, *params, **named))


def _made_of_records() -> dict[str, Callable[..., Any]]:
    """By their qualified names."""
    found: dict[str, Callable[..., Any]] = {}
    one: Callable[..., Tensor]
    for one in (all_reduce, all_gather_into_tensor, reduce_scatter_tensor):
        found[f"_c10d_functional::{one.__name__}_coalesced"] = _each(one)
        found[f"_c10d_functional::{one.__name__}_out"] = _into(one)
    del found["_c10d_functional::all_reduce_out"]
    for one in (all_reduce, broadcast):
        found[f"_c10d_functional::{one.__name__}_"] = _within(one)
    found["_c10d_functional::all_reduce_coalesced_"] = _each(_within(all_reduce))
    for one in (all_gather_into_tensor, reduce_scatter_tensor, all_to_all_single):
        found[f"_c10d_functional_autograd::{one.__name__}"] = lambda *args, one=one, **named: one(
            *args, **named
        )
    for each in found.values():
        each.meets = True  # type: ignore[attr-defined]
    return found


INTERNAL.update(_made_of_records())
