"""Lists and dicts, which are Python's: a dict keeps the order of insertion."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.jit.ir.objects import ScriptObjectData
from tritorch.jit.run.functions import call_method
from tritorch.jit.run.limits import check_elements
from tritorch.jit.run.text import text_of

Function = Callable[..., Any]


def same(a: Any, b: Any) -> bool:
    """Tells whether two elements are equal; of tensors, whether their only elements are."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return bool(a == b)
    return bool(a == b)


def _equal_lists(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(same, a, b))


def _unequal_lists(a: list[Any], b: list[Any]) -> bool:
    return not _equal_lists(a, b)


# ---- lists ---------------------------------------------------------------------------------------


def _place(values: list[Any], index: int) -> int:
    place = index + len(values) if index < 0 else index
    if not 0 <= place < len(values):
        raise RuntimeError("list index out of range")
    return place


def _item(values: list[Any], index: int) -> Any:
    try:
        return values[index]
    except IndexError:
        raise RuntimeError("list index out of range") from None


def _set_item(values: list[Any], index: int, value: Any) -> list[Any]:
    values[_place(values, index)] = value
    return values


def _append(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


def _extend(values: list[Any], others: list[Any]) -> None:
    check_elements(len(values) + len(others))
    values.extend(others)


def _extended(values: list[Any], others: list[Any]) -> list[Any]:
    _extend(values, others)
    return values


def _joined(a: list[Any], b: list[Any]) -> list[Any]:
    check_elements(len(a) + len(b))
    return a + b


def _repeated(values: list[Any], count: int) -> list[Any]:
    check_elements(len(values) * max(count, 0))
    return values * count


def _repeated_from_left(count: int, values: list[Any]) -> list[Any]:
    return _repeated(values, count)


def _repeat(values: list[Any], count: int) -> list[Any]:
    values[:] = _repeated(values, count)
    return values


def _pop(values: list[Any], index: int = -1) -> Any:
    if not values:
        raise RuntimeError("pop from empty list")
    return values.pop(_place(values, index))


def _delete(values: list[Any], index: int) -> None:
    del values[_place(values, index)]


def _slice(
    values: list[Any], start: int | None = None, end: int | None = None, step: int = 1
) -> list[Any]:
    if step == 0:
        raise RuntimeError("List slice should have non-zero step")
    return values[slice(start, end, step)]


def _index(values: list[Any], wanted: Any) -> int:
    for place, value in enumerate(values):
        if same(value, wanted):
            return place
    raise RuntimeError(f"'{text_of(wanted)}' is not in list")


def _remove(values: list[Any], wanted: Any) -> None:
    for place, value in enumerate(values):
        if same(value, wanted):
            del values[place]
            return
    raise RuntimeError("list.remove(x): x not in list")


def _count(values: list[Any], wanted: Any) -> int:
    return sum(same(value, wanted) for value in values)


def _contains(values: list[Any], wanted: Any) -> bool:
    return any(same(value, wanted) for value in values)


def less(a: Any, b: Any) -> bool:
    """Tells whether a comes before b; objects say so by their method `__lt__`."""
    if isinstance(a, ScriptObjectData):
        return bool(call_method(a, "__lt__", (b,)))
    if isinstance(a, tuple):
        for x, y in zip(a, b):
            if less(x, y):
                return True
            if less(y, x):
                return False
        return len(a) < len(b)
    return bool(a < b)


def _compare(a: Any, b: Any) -> int:
    return -1 if less(a, b) else 1 if less(b, a) else 0


_by_order = functools.cmp_to_key(_compare)
_SIMPLE = (int, float, str, bool)


def _sort(values: list[Any], reverse: bool = False) -> None:
    is_simple = all(isinstance(value, _SIMPLE) for value in values)
    values.sort(key=None if is_simple else _by_order, reverse=reverse)


def _sorted(values: list[Any]) -> list[Any]:
    found = list(values)
    _sort(found)
    return found


def _range_list(count: int) -> list[int]:
    check_elements(count)
    return list(range(count))


def _extreme(which: Function, name: str) -> Function:
    """min and max: of two numbers, of two lists, or of the elements of one."""

    def call(first: Any, *second: Any) -> Any:
        if second:
            b = second[0]
            if isinstance(first, list):
                return which(first, b)
            if isinstance(first, float) or isinstance(b, float):
                return float(which(first, b))
            return which(first, b)
        if not first:
            raise RuntimeError(f"{name}() arg is an empty sequence")
        return which(first)

    return call


# ---- dicts ---------------------------------------------------------------------------------------


def _value(table: dict[Any, Any], key: Any) -> Any:
    if key not in table:
        raise KeyError(key)
    return table[key]


def _set_value(table: dict[Any, Any], key: Any, value: Any) -> None:
    table[key] = value


def _has_key(table: dict[Any, Any], key: Any) -> bool:
    return key in table


def _delete_key(table: dict[Any, Any], key: Any) -> None:
    if key not in table:
        raise KeyError(key)
    del table[key]


def _pop_value(table: dict[Any, Any], key: Any, *default: Any) -> Any:
    if key not in table and not default:
        raise KeyError(key)
    return table.pop(key, *default)


def _pop_item(table: dict[Any, Any]) -> tuple[Any, Any]:
    """Takes the item out that was put in first."""
    if not table:
        raise RuntimeError("popitem(): dictionary is empty")
    key = next(iter(table))
    return key, table.pop(key)


def _values(table: dict[Any, Any]) -> list[Any]:
    return list(table.values())


def _items(table: dict[Any, Any]) -> list[Any]:
    return list(table.items())


LISTS: dict[str, Function] = {
    "aten::__contains__": _contains,
    "aten::__getitem__": _item,
    "aten::_set_item": _set_item,
    "aten::Delete": _delete,
    "aten::add": _joined,
    "aten::add_": _extended,
    "aten::all": all,
    "aten::any": any,
    "aten::append": _append,
    "aten::clear": list.clear,
    "aten::copy": list,
    "aten::count": _count,
    "aten::dict": dict,
    "aten::eq": _equal_lists,
    "aten::extend": _extend,
    "aten::index": _index,
    "aten::insert": list.insert,
    "aten::len": len,
    "aten::list": list,
    "aten::mul": _repeated,
    "aten::mul_": _repeat,
    "aten::ne": _unequal_lists,
    "aten::pop": _pop,
    "aten::remove": _remove,
    "aten::reverse": list.reverse,
    "aten::select": _item,
    "aten::slice": _slice,
    "aten::sort": _sort,
    "aten::sorted": _sorted,
    "aten::sum": sum,
    "prim::max": _extreme(max, "max"),
    "prim::min": _extreme(min, "min"),
}
DICTS: dict[str, Function] = {
    "aten::__contains__": _has_key,
    "aten::__getitem__": _value,
    "aten::_set_item": _set_value,
    "aten::Delete": _delete_key,
    "aten::clear": dict.clear,
    "aten::copy": dict,
    "aten::dict": dict,
    "aten::get": dict.get,
    "aten::items": _items,
    "aten::keys": list,
    "aten::len": len,
    "aten::pop": _pop_value,
    "aten::popitem": _pop_item,
    "aten::setdefault": dict.setdefault,
    "aten::update": dict.update,
    "aten::values": _values,
}
PLAIN: dict[str, Function] = {
    "aten::dict": dict,
    "prim::max": _extreme(max, "max"),
    "prim::min": _extreme(min, "min"),
    "prim::rangelist": _range_list,
}
EXACT: dict[str, Function] = {"aten::mul.right_": _repeated_from_left}
