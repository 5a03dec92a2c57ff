"""FlopCounterMode: the floating point operations of products, by module and operator.

Products, convolutions and attention count, 2 for each multiplication and addition, as in PyTorch's
counter; all else is nothing beside them.  Operators that a program defined and gave no formula are
listed in `unknown`, and shown.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tritorch.compat.torch_private._ops import ops
from tritorch.core.scopes import ScopeItself
from tritorch.core.tensor import Tensor
from tritorch.ops.record.overloads import OpOverloadPacket
from tritorch.trees.walk import tree_map
from tritorch.utils._python_dispatch import TorchDispatchMode
from tritorch.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten, own = ops.aten, ops.tritorch
Shape = Sequence[int]
flop_registry: dict[Any, Callable[..., int]] = {}
# What a record of ours is counted as.
_COUNTED_AS: dict[Any, Any] = {}


def get_shape(i: Any) -> Any:
    """A tensor's shape; anything else as it is."""
    return tuple(i.shape) if isinstance(i, Tensor) else i


def shape_wrapper(f: Callable[..., int]) -> Callable[..., int]:
    """A formula of shapes as one of the arguments themselves."""

    @functools.wraps(f)
    def of_values(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        given, named, out = tree_map(get_shape, (args, kwargs, out_val))
        return f(*given, out_shape=out, **named)

    return of_values


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[..., Any]:
    """Registers what counts an operator: a function of its arguments, tensors as their shapes, and
    of `out_shape`; get_raw: of the arguments themselves, and of `out_val`."""

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket "
                    f"(i.e. torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else shape_wrapper(formula)
        return formula

    return register


# ---- formulas ------------------------------------------------------------------------------------


@register_flop_formula(aten.mm)
def mm_flop(
    a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Of a product of matrices."""
    (m, k), (k2, n) = a_shape, b_shape
    if k != k2:
        raise AssertionError(f"matmul: inner dimensions must match (k == k2), got {k} and {k2}")
    return m * n * 2 * k


@register_flop_formula(aten.addmm)
def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Of a product of matrices that is added to something."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(
    a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Of a batch of products."""
    (b, m, k), (_, _, n) = a_shape, b_shape
    return b * m * n * 2 * k


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Of a batch of products that is added to something."""
    return bmm_flop(a_shape, b_shape)


def _linear_flop(x: Shape, w: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return 2 * math.prod(x) * w[0]


def _scaled_product_flop(a: Shape, b: Shape, *args: Any, **kwargs: Any) -> int:
    return 2 * a[0] * a[1] * b[-1]


def conv_flop_count(
    x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False
) -> int:
    """Of a convolution: each place of the output (transposed: of the input) meets the filter."""
    c_out, c_in, *window = w_shape
    places = (x_shape if transposed else out_shape)[2:]
    return math.prod(places) * math.prod(window) * x_shape[0] * c_out * c_in * 2


@register_flop_formula(aten.convolution)
def conv_flop(
    x_shape: Shape, w_shape: Shape, _bias: Any, _stride: Any, _padding: Any, _dilation: Any,
    transposed: bool, *args: Any, out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


def _conv_input_flop(y: Shape, w: Shape, shape: Shape, *rest: Any, **kwargs: Any) -> int:
    return conv_flop_count(shape, w, y, transposed=rest[3])


def _conv_weight_flop(y: Shape, x: Shape, shape: Shape, *rest: Any, **kwargs: Any) -> int:
    return conv_flop_count(x, shape, y, transposed=rest[3])


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Of attention: two products."""
    *lead, q, d = query_shape
    return math.prod(lead) * 2 * q * key_shape[-2] * (d + value_shape[-1])


def _attention_flop(q: Shape, k: Shape, v: Shape, *args: Any, **kwargs: Any) -> int:
    return sdpa_flop_count(q, k, v)


def _attention_backward_flop(g: Shape, q: Shape, k: Shape, v: Shape, *args: Any, **kw: Any) -> int:
    *lead, n, d = q
    m, e = k[-2], v[-1]
    # Scores again, and the gradients of scores, values, queries and keys.
    return math.prod(lead) * 2 * n * m * (d + e + e + d + d)


for _target, _formula, _as in (
    (aten.linear, _linear_flop, lambda args: aten.mm if args[2] is None else aten.addmm),
    (own.scaled_product, _scaled_product_flop, lambda args: aten._scaled_mm),
    (own.convolution_input, _conv_input_flop, lambda args: aten.convolution_backward),
    (own.convolution_weight, _conv_weight_flop, lambda args: aten.convolution_backward),
    (own.scaled_dot_product_attention, _attention_flop,
     lambda args: aten._scaled_dot_product_flash_attention),
    (own.attention_backward, _attention_backward_flop,
     lambda args: aten._scaled_dot_product_flash_attention_backward),
):  # fmt: skip
    register_flop_formula(_target)(_formula)
    _COUNTED_AS[_target] = _as


# ---- the mode ------------------------------------------------------------------------------------

_SUFFIXES = ("", "K", "M", "B", "T")


def get_suffix_str(number: int) -> str:
    """The unit in which a number has few digits."""
    return _SUFFIXES[max(0, min(len(_SUFFIXES) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in a unit, with three decimals."""
    return f"{number / 1000 ** _SUFFIXES.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """A share in percent."""
    return f"{num / denom:.2%}" if denom else "0%"


class FlopCounterMode(ScopeItself):
    """Counts while it is entered; shows a table at its end if `display`.

    depth: of modules in the table, None for all.  custom_mapping: formulas by packet."""

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        if mods is not None:
            import warnings

            warnings.warn("mods argument is not needed anymore, you can stop passing it",
                          stacklevel=2)  # fmt: skip
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.unknown: dict[Any, int] = {}  # calls of operators without a formula, by packet
        own = {
            packet: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
            for packet, formula in (custom_mapping or {}).items()
        }
        self.flop_registry = flop_registry | own
        self.mod_tracker = ModuleTracker()
        self._mode: _Counting | None = None

    def get_total_flops(self) -> int:
        """All of them."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By the names of modules, "Global" being everything, and by operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of modules, their operators, and shares."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        unit = get_suffix_str(total)
        rows: list[list[str]] = []
        whole_is_there = False

        def lines(module: str, level: int) -> list[list[str]]:
            counts = self.flop_counts[module]
            indent = " " * level
            entries = [(indent + module, sum(counts.values()))]
            entries += [(f"{indent} - {name}", count) for name, count in counts.items()]
            return [
                [name, convert_num_with_suffix(n, unit), convert_to_percent_str(n, total)]
                for name, n in entries
            ]

        for module in sorted(self.flop_counts):
            level = module.count(".") + 1
            if module != "Global" and (depth is None or level <= depth):
                whole_is_there |= sum(self.flop_counts[module].values()) >= total
                rows += lines(module, level - 1)
        if "Global" in self.flop_counts and not whole_is_there:
            rows = lines("Global", 0) + [[" " + row[0], *row[1:]] for row in rows]
        table = _table(["Module", "FLOP", "% Total"], rows or [["Global", "0", "0%"]])
        if self.unknown:
            names = ", ".join(f"{name} ({n} calls)" for name, n in self.unknown.items())
            table += f"\nnot counted, for want of a formula: {names}"
        return table

    def changes(self) -> Any:
        self.flop_counts.clear()
        self.unknown.clear()
        mode = _Counting(self)
        return self.mod_tracker, (self, "_mode", mode), mode

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        if self.display:
            print(self.get_table(self.depth))

    def count(self, packet: Any, out: Any, args: Any, kwargs: Any) -> None:
        """Adds one call to what runs now."""
        formula = self.flop_registry.get(packet)
        if formula is None:
            if packet._namespace not in ("aten", "tritorch"):
                self.unknown[packet] = self.unknown.get(packet, 0) + 1
            return
        counted = formula(*args, **kwargs, out_val=out)
        name = _COUNTED_AS[packet](args) if packet in _COUNTED_AS else packet
        for module in set(self.mod_tracker.parents):
            self.flop_counts[module][name] += counted


class _Counting(TorchDispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.counter.count(func.overloadpacket, out, args, kwargs or {})
        return out


def _table(header: list[str], rows: list[list[str]]) -> str:
    """Columns in line, the first one to the left."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    line = lambda row: "  ".join(
        cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))
    ).rstrip()
    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)])
