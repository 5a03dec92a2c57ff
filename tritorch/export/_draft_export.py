"""A program exported in any case, with a report of what would have kept `export` from it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from tritorch.compat.torch_private._dynamo.exc import UserError
from tritorch.export.dynamic_shapes import Dim, _DerivedDim, _DimHint, _DimHintType
from tritorch.nn.modules.module import Module
from tritorch.utils._pytree import tree_map


class FailureType(enum.IntEnum):
    """What would have kept `export` from a program."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass
class FailureReport:
    """One thing that would have kept `export` from a program."""

    failure_type: FailureType
    data: dict[str, Any]
    xfail: bool = False

    def __repr__(self) -> str:
        return f"{self.failure_type}: {self.data['reason']}"


class DraftExportReport:
    """All of them."""

    def __init__(self, failures: list[FailureReport]) -> None:
        self.failures = failures

    def successful(self) -> bool:
        """Whether `export` would have given the same program."""
        return not self.failures

    def __str__(self) -> str:
        if self.successful():
            return "No issues were found: torch.export gives the same program."
        parts = [f"{i}. {each!r}" for i, each in enumerate(self.failures, 1)]
        return "WARNING: issues were found during export.\n" + "\n".join(parts)

    __repr__ = __str__


def _loosened(each: Any) -> Any:
    """What is said of a size, so that no condition is a violation."""
    if isinstance(each, _DerivedDim):
        return Dim.AUTO
    if isinstance(each, Dim):
        high = None if each.max == float("inf") else int(each.max)
        return Dim.AUTO(min=int(each.min) or None, max=high)
    if isinstance(each, _DimHint) and each.type is _DimHintType.DYNAMIC:
        return Dim.AUTO(min=each.min, max=each.max)
    return each


def draft_export(
    mod: Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None, *,
    dynamic_shapes: Any = None, preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False, prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> Any:  # fmt: skip
    """The program of a module; `_report` says what is not as the caller wanted it: sizes that he
    said to be open and the program settles."""
    from tritorch.export import export

    failures: list[FailureReport] = []
    if hasattr(dynamic_shapes, "dynamic_shapes"):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    try:
        program = export(
            mod, args, kwargs, dynamic_shapes=dynamic_shapes,
            preserve_module_call_signature=preserve_module_call_signature,
        )  # fmt: skip
    except UserError as error:
        data = {"reason": str(error), "occurrences": 1}
        failures.append(FailureReport(FailureType.GUARD_ADDED, data))
        program = export(
            mod, args, kwargs, dynamic_shapes=tree_map(_loosened, dynamic_shapes),
            preserve_module_call_signature=preserve_module_call_signature,
        )  # fmt: skip
    program._report = DraftExportReport(failures)  # type: ignore[attr-defined]
    return program
