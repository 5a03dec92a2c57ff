"""Module classes from declarations: constructor arguments kept as attributes, and a function.

`functional(name, arguments, call)` declares one: `arguments` as they stand in a signature, and
`call(self, *inputs)`.  A base that several share is one too, without what only they know: what a
declaration leaves out (arguments, call, `shown`) is the base's.  Its constructor is compiled from
the arguments, so its signature is what was declared, and it costs what one written by hand does.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tritorch.nn import common_types
from tritorch.nn.modules.module import Module

STATELESS: dict[str, type[Module]] = {}  # the public ones

_NAMES = {
    "Size": common_types._size_any_t, "Sizes": common_types._size_any_opt_t,
    "Ratio": common_types._ratio_any_t, "Tensor": common_types.Tensor, "Module": Module,
    "Any": Any, "Callable": Callable,
}  # fmt: skip


def _constructor(name: str, arguments: str, prepare: Callable[[Any], None] | None) -> Any:
    """`__init__`, which keeps its arguments in the instance's dict; and their names."""
    names = [part.partition("=")[0].partition(":")[0].strip() for part in arguments.split(", ")]
    names = [each for each in names if each != "*"]
    lines = [
        f"def __init__(self, {arguments}):", "    start(self)", "    fields = self.__dict__",
        *(f"    fields[{each!r}] = {each}" for each in names),
        *(["    prepare(self)"] if prepare is not None else ()),
    ]  # fmt: skip
    world = {**_NAMES, "start": Module.__init__, "prepare": prepare}
    file, source = f"<{name}, declared in {__name__}>", "\n".join(lines) + "\n"
    exec(compile(source, file, "exec", dont_inherit=True), world)
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    function: Any = world["__init__"]
    function.__qualname__ = f"{name}.__init__"
    defaults = function.__defaults__ or ()
    plain = dict(zip(names[len(names) - len(defaults) :], defaults)) | (
        function.__kwdefaults__ or {}
    )
    for each, value in plain.items():  # a default says of which type its argument is
        if value is not None:
            function.__annotations__.setdefault(each, type(value))
    function.__annotations__["return"] = None
    return function, names


def _shown(shown: str | Callable[[Any], str]) -> Callable[[Any], str]:
    """`extra_repr`, by the words that say what is shown."""
    if callable(shown):
        return lambda self: shown(self)
    words = shown.split()

    def extra_repr(self: Any) -> str:
        """The settings."""
        parts = []
        for word in words:
            if word == "inplace":
                parts += ["inplace=True"] if self.inplace else []
            elif word.startswith("="):
                parts.append(str(getattr(self, word[1:])))
            else:
                parts.append(f"{word}={getattr(self, word)!r}")
        return ", ".join(parts)

    return extra_repr


def _forward(name: str, call: Any) -> Any:
    """A copy, since classes share functions: errors show its name, tracers read its arguments."""
    forward: Any = FunctionType(
        call.__code__, call.__globals__, "forward", call.__defaults__, call.__closure__
    )
    forward.__qualname__ = f"{name}.forward"
    if call.__kwdefaults__:  # what tells classes of a loop apart is no argument
        forward.__kwdefaults__ = call.__kwdefaults__
        seen = inspect.signature(call)
        kept = [p for p in seen.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        forward.__signature__ = seen.replace(parameters=kept)
    return forward


def functional(
    name: str,
    arguments: str = "",
    call: Callable[..., Any] | None = None,
    *,
    shown: str | Callable[[Any], str] = "",
    doc: str = "",
    prepare: Callable[[Any], None] | None = None,
    base: type[Module] = Module,
    methods: dict[str, Any] | None = None,
) -> Any:
    """Declares a module class, in the module that calls this.

    shown: what `repr` shows: nothing, `name=value` of some arguments, or a function of the module.
    prepare(self) may check or normalise the attributes, after they are set from `arguments`."""
    home = sys._getframe(1).f_globals
    fields: dict[str, Any] = {
        "__doc__": doc or f"{name}({arguments})",
        "__module__": home["__name__"],
    }
    if arguments:
        fields["__init__"], fields["__constants__"] = _constructor(name, arguments, prepare)
    if call is not None:
        fields["forward"] = _forward(name, call)
    if shown:
        fields["extra_repr"] = _shown(shown)
    kind = type(name, (base,), fields | (methods or {}))
    if not name.startswith("_"):
        STATELESS[name] = kind
    home[name] = kind
    return kind
