"""What torch.compile raises."""

from __future__ import annotations

import enum
import traceback
from typing import Any


class TorchDynamoException(RuntimeError):
    """The base of what the compiler raises."""


class InternalTorchDynamoError(TorchDynamoException):
    """The compiler has a fault."""


class RestartAnalysis(TorchDynamoException):
    """A recording begins anew."""


class SkipFrame(TorchDynamoException):
    """A backend asks that a region runs as it is."""


class TorchRuntimeError(TorchDynamoException):
    """A call in a graph fails."""


class InvalidBackend(TorchDynamoException):
    """A backend of that name is not registered."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available "
            "backends."
        )


class ResetRequired(TorchDynamoException):
    """A function was compiled for another backend before."""


class ShortenTraceback(TorchDynamoException):
    """An error whose traceback shows nothing of the compiler."""

    def __init__(self, *args: Any, first_useful_frame: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.first_useful_frame = first_useful_frame

    def remove_dynamo_frames(self) -> ShortenTraceback:
        """Itself: the frames of a region are the program's own."""
        return self


class BackendCompilerFailed(ShortenTraceback):
    """A backend raised when it was given a graph."""

    def __init__(
        self, backend_fn: Any, inner_exception: Exception, first_useful_frame: Any = None
    ) -> None:
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        kind = type(inner_exception).__name__
        super().__init__(
            f"backend={self.backend_name!r} raised:\n{kind}: {inner_exception}",
            first_useful_frame=first_useful_frame,
        )


class Unsupported(TorchDynamoException):
    """A graph ends where it may not: fullgraph=True, or error_on_graph_break."""

    def __init__(
        self, msg: str, gb_type: str = "", skip_frame: bool = False, *,
        case_name: str | None = None, real_stack: traceback.StackSummary | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg)
        self.msg, self.gb_type, self.skip_frame = msg, gb_type, skip_frame
        self.case_name = case_name
        self.real_stack = real_stack or traceback.StackSummary()


class RecompileError(TorchDynamoException):
    """A region would be recorded again, which config.error_on_recompile forbids."""


class UserErrorType(enum.Enum):
    """What is wrong with a program that is exported."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(TorchDynamoException):
    """A program asks for what cannot be."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None) -> None:
        super().__init__(msg)
        self.error_type, self.message, self.case_name = error_type, msg, case_name


class UncapturedHigherOrderOpError(TorchDynamoException):
    """An operator of functions could not be recorded."""


class FailOnRecompileLimitHit(Exception):
    """A region that is to be one graph needs more of them than the limit allows."""


class PackageError(TorchDynamoException):
    """What was kept of a compilation does not fit."""


for _class in list(vars().values()):
    if isinstance(_class, type) and issubclass(_class, Exception):
        _class.__module__ = "torch._dynamo.exc"
