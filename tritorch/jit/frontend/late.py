"""Functions of the front end that files below those that define them call.

Syntax is recursive: a condition holds expressions, which hold conditions.  The files import each
other in one direction; what goes the other way is put here by `provides` when its file is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

emit: Callable[..., Any]  # expressions
emit_sugared: Callable[..., Any]
arguments: Callable[..., Any]
comparison: Callable[..., Any]
assign_target: Callable[..., Any]  # statements
compile_body: Callable[..., Any]  # functions
parameters: Callable[..., Any]
constant_value: Callable[..., Any]  # python_values
to_sugared: Callable[..., Any]
builtin_name: Callable[..., Any]  # globals
type_of_class: Callable[..., Any]  # classes
container_of: Callable[..., Any]  # modules
container_parts: Callable[..., Any]
container_item: Callable[..., Any]
old_operators: Callable[..., Any]  # definitions
call_with_hooks: Callable[..., Any]  # hooks


def provides(function: Function, name: str = "") -> Function:
    """Puts a function here, under its name or another; gives it back."""
    globals()[name or function.__name__] = function
    return function
