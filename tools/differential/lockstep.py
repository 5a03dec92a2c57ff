"""Runs a program in torch and tritorch step by step, and compares what each statement gave."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.expressions import programs


@dataclass
class Difference:
    """Where two libraries part: the statement, and what differs."""

    statement: str
    what: str
    ours: Any
    theirs: Any

    @property
    def operator(self) -> str:
        """The name of what the statement calls last."""
        text = re.sub(r"torch\.tensor\(.*?\)(\.reshape\(.*?\))?", "T", self.statement)
        text = text.partition(" = ")[2] if programs.target(text) else text
        names = re.findall(r"(?:\.|\b)([A-Za-z_]\w*)(?=\()", text)
        names = [name for name in names if name not in ("T", "bool")]
        if names:
            return names[0]
        if "[" in text:
            return "index"
        signs = re.findall(r"(?<=\s)([-+*/%&|^<>=!@]+)(?=\s)|^([-+~])", text)
        return next(("".join(sign) for sign in signs), text[:20])

    @property
    def kind(self) -> tuple[str, str]:
        return self.operator, self.what


class Pair:
    """The variables of one program in both libraries."""

    def __init__(self, torch: Any, ours: Any, *, sync: bool = True) -> None:
        self.theirs = programs.namespace(torch)
        self.ours = programs.namespace(ours)
        self.sync = sync

    def step(self, statement: str) -> tuple[str | None, Difference | None]:
        """torch's exception, if one was raised, and the difference."""
        error = programs.step(statement, self.theirs)
        own = programs.step(statement, self.ours)
        if error != own:
            what = f"{own or 'no error'} for {error or 'no error'}"
            return error, Difference(statement, what, self.message(statement, own), error)
        name = programs.target(statement)
        if error or name is None:
            return error, None
        return error, self.compare(statement, name)

    def message(self, statement: str, error: str | None) -> str | None:
        return error

    def compare(self, statement: str, name: str) -> Difference | None:
        ours, theirs = programs.show(self.ours[name]), programs.show(self.theirs[name])
        what = programs.difference(ours, theirs)
        if what in ("value", "sign of zero") and _unspecified(statement, ours, theirs):
            _copy_values(self.ours[name], theirs)
            return None
        if what == "value" and "out=" in statement:
            width = _computed_in(statement, name, self.theirs)
            as_wide = {"dtype": width}
            if width and not programs.difference(ours | as_wide, theirs | as_wide):
                _copy_values(self.ours[name], theirs)
                return None
        if what:
            return Difference(statement, what, ours, theirs)
        if self.sync and ours != theirs:
            _copy_values(self.ours[name], theirs)
        return None

    def compare_all(self, statement: str) -> Difference | None:
        """All variables, in which in-place changes show."""
        for name in self.theirs:
            if name[0] == "v" and name[1:].isdigit():
                found = self.compare(f"{name}  # after {statement}", name)
                if found:
                    return found
        return None


def _computed_in(statement: str, name: str, names: dict[str, Any]) -> str | None:
    """The float type that a statement computes in, where its output is of a wider one: that many
    digits may be asked of it."""
    call = statement.partition("out=")[0].partition(" = ")[2]
    used = [names.get(v) for v in re.findall(r"\bv\d+\b", call)]
    kinds = {str(t.dtype).split(".")[1] for t in used if hasattr(t, "dtype")}
    wide = str(names[name].dtype).split(".")[1]
    if wide not in ("float32", "float64", "complex64", "complex128") or wide in kinds:
        return None
    if not kinds or kinds & {"float64", "complex128"}:
        return None
    return next((k for k in ("bfloat16", "float16") if kinds == {k}), "float32")


_WRITES = re.compile(r"out=|\w_\(|backward\(|grad\(|\] = |inplace=True| [-+*/]= ")


def leaves_unspecified(statement: str, error: str | None) -> bool:
    """Whether a refused statement may have done a part of its work."""
    return error is not None and _WRITES.search(statement) is not None


def writes_over_itself(statement: str, names: dict[str, Any]) -> bool:
    """Whether a statement writes a tensor of which several elements are one place in memory, or
    that it reads otherwise at the same time: which of the values stays there is unspecified."""
    if not _WRITES.search(statement):
        return False
    used = [names.get(name) for name in re.findall(r"\bv\d+\b", statement)]
    used = [t for t in used if hasattr(t, "stride") and "strided" in str(t.layout)]
    if any(map(_overlaps, used)):
        return True
    place = lambda t: (t.storage_offset(), t.shape, t.stride())
    memory = lambda t: t.untyped_storage().data_ptr()
    return any(memory(a) == memory(b) and place(a) != place(b) for a in used for b in used)


_ORDER = re.compile(r"\.(mode|median|nanmedian|kthvalue|unique|unique_consecutive)\(")


def is_undefined(statement: str, names: dict[str, Any]) -> bool:
    """Whether PyTorch's own result is undefined: it orders NaN by comparisons that are no order,
    and writes what it sorts over an expanded tensor's one element."""
    if not _ORDER.search(statement):
        return False
    used = [names.get(name) for name in re.findall(r"\bv\d+\b", statement.partition(" = ")[2])]
    used = [t for t in used if hasattr(t, "stride")]
    return any(_overlaps(t) or (t.is_floating_point() and bool(t.isnan().any())) for t in used)


def _overlaps(tensor: Any) -> bool:
    if tensor.numel() > 1000 or "strided" not in str(tensor.layout):
        return False
    offsets = np.zeros((), np.int64)
    for n, step in zip(tensor.shape, tensor.stride()):
        offsets = np.add.outer(offsets, np.arange(n) * step)
    return len(np.unique(offsets)) < offsets.size


# Which of equal elements is told, the sign of a sum of zeros, and which of 0 and -0 is the larger
# (by vectors another than one by one), is unspecified.
_PLACES = re.compile(r"\.(kthvalue|topk|mode|median|nanmedian|sort|argsort|msort|min|max)\(")
_SUMS = re.compile(
    r"@|\.(maximum|minimum|fmax|fmin|amax|amin|max|min|aminmax"
    r"|softshrink|clamp|interpolate|quantile|unique|logaddexp2|vecdot|\w*_norm|sub_?|sum|cumsum_?|matmul|mm|bmm|addmm|addmv|baddbmm|linear|inner|einsum|tensordot|conv\w+|dot|mv"
    r"|vdot|\w*pool\w*|fft\w*|rfft|\w*loss|\w*entropy\w*|multi_dot|outer|kron|cross|mean|nansum"
    r"|matrix_power|logcumsumexp|scaled_\w+|softmax|addr|index_add|scatter\w*|std\w*|var\w*|trace)\("
)


def _unspecified(statement: str, ours: Any, theirs: Any) -> bool:
    if _PLACES.search(statement) and isinstance(theirs, list) and len(theirs) == 2:
        return programs.difference(ours[0], theirs[0]) in (None, "sign of zero")
    if _PLACES.search(statement) and theirs.get("dtype") == "int64" and "arg" in statement:
        return sorted(ours["value"]) == sorted(theirs["value"])
    return bool(_SUMS.search(statement)) and programs.difference(ours, theirs) == "sign of zero"


def _copy_values(tensor: Any, shown: Any) -> None:
    """Makes values that agree to rounding agree to the bit."""
    if isinstance(shown, list):
        for item, each in zip(tensor, shown):
            _copy_values(item, each)
    elif "dtype" in shown and shown["value"]:
        array = tensor._array
        values = np.array(shown["value"])
        if array.dtype.names:
            return
        with np.errstate(all="ignore"):
            if array.dtype.kind == "c":
                array.real = values[0::2].reshape(shown["shape"])
                array.imag = values[1::2].reshape(shown["shape"])
            else:
                array[...] = values.reshape(shown["shape"]).astype(array.dtype)


def run(pair: Pair, statement: str) -> tuple[bool, Difference | None]:
    """Runs a statement; whether nothing after it means anything, and what differs."""
    over_itself = writes_over_itself(statement, pair.theirs)
    error, found = pair.step(statement)
    if over_itself and error is None and (found is None or " for " not in found.what):
        return True, None
    if found is None and leaves_unspecified(statement, error):
        return True, None
    if found is not None and found.what == "value" and is_undefined(statement, pair.theirs):
        return True, None
    return False, found or (None if programs.target(statement) else pair.compare_all(statement))


def first_difference(
    torch: Any, ours: Any, statements: list[str], *, sync: bool = True
) -> Difference | None:
    """The first statement after which two libraries differ."""
    pair = Pair(torch, ours, sync=sync)
    for statement in statements:
        ends, found = run(pair, statement)
        if ends or found:
            return found
    return pair.compare_all(statements[-1])
