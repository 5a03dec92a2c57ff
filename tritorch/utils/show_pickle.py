"""Reads a pickle without executing it, as torch.utils.show_pickle.

python -m tritorch.utils.show_pickle FILE
python -m tritorch.utils.show_pickle 'model.pt@*/data.pkl'
"""

from __future__ import annotations

import fnmatch
import pickle
import pprint
import struct
import sys
import zipfile
from collections.abc import Iterable, Sequence
from typing import IO, Any, ClassVar

__all__ = ["DumpUnpickler", "FakeClass", "FakeObject", "main"]


class FakeObject:
    """What a pickle says of an object: the function that makes it, arguments, state, contents."""

    def __init__(self, module: str, name: str, args: tuple[Any, ...]) -> None:
        self.module, self.name, self.args = module, name, args
        self.state: Any = None
        self.items: list[Any] = []  # of a list, or pairs of a dict

    def __repr__(self) -> str:
        state = "" if self.state is None else f"(state={self.state!r})"
        return f"{self.module}.{self.name}{self.args!r}{state}{self.items or ''}"

    def __call__(self, *args: Any) -> FakeObject:  # a pickle may call what a call gave
        return FakeObject(self.module, f"{self.name}{self.args!r}", args)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, item: Any) -> None:
        """Takes an element of a list."""
        self.items.append(item)

    def extend(self, items: Iterable[Any]) -> None:
        """Takes elements of a list."""
        self.items.extend(items)

    def add(self, item: Any) -> None:
        """Takes an element of a set."""
        self.items.append(item)


class FakeClass:
    """A function or class that a pickle names; calls of it give FakeObjects."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name
        self.__new__ = self.fake_new  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"

    def __call__(self, *args: Any) -> FakeObject:
        return FakeObject(self.module, self.name, args)

    def fake_new(self, *args: Any) -> FakeObject:
        """What the class's __new__ is asked for."""
        return FakeObject(self.module, self.name, args[1:])


# The interpreter of pickles that is written in Python: its steps can be replaced.
_Unpickler: Any = pickle._Unpickler


class DumpUnpickler(_Unpickler):
    """Reads pickles; imports nothing and calls nothing that they name."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Unpickler.dispatch)

    def __init__(self, file: IO[bytes], *, catch_invalid_utf8: bool = False, **kwargs: Any) -> None:
        super().__init__(file, **kwargs)
        self.catch_invalid_utf8 = catch_invalid_utf8

    def find_class(self, module: str, name: str) -> FakeClass:
        """The name itself."""
        return FakeClass(module, name)

    def persistent_load(self, pid: Any) -> FakeObject:
        """What is stored outside of the pickle, by its description."""
        return FakeObject("pers", "obj", (pid,))

    def load_binunicode(self) -> None:
        """A text; one that is no UTF-8 becomes an object that says so, if that is asked for."""
        (length,) = struct.unpack("<I", self.read(4))
        raw = self.read(length)
        try:
            self.append(str(raw, "utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            if not self.catch_invalid_utf8:
                raise
            self.append(FakeObject("builtin", "UnicodeDecodeError", (str(error),)))

    dispatch[pickle.BINUNICODE[0]] = load_binunicode

    @classmethod
    def dump(cls, in_stream: IO[bytes], out_stream: Any) -> Any:
        """Prints what a pickle says, and returns it."""
        value = cls(in_stream).load()
        pprint.pprint(value, stream=out_stream)
        return value


def main(argv: Sequence[str], output_stream: Any = None) -> int | None:
    """Prints a pickle: a file, or a member of an archive, `file.zip@member`."""
    if len(argv) != 2:
        if output_stream is not None:
            raise Exception("Pass argv of length 2.")
        sys.stderr.write("usage: show_pickle PICKLE_FILE, or ARCHIVE@PATTERN for its first match\n")
        return 2
    path, _, pattern = argv[1].partition("@")
    if not pattern:
        with open(path, "rb") as file:
            DumpUnpickler.dump(file, output_stream)
        return None
    with zipfile.ZipFile(path) as archive:
        found = [name for name in archive.namelist() if fnmatch.fnmatch(name, pattern)]
        if not found:
            raise Exception(f"Could not find member matching {pattern} in {path}")
        with archive.open(found[0]) as member:
            DumpUnpickler.dump(member, output_stream)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv))
