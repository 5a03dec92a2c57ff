"""Names of other modules, given another meaning for a while."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch.core.scopes import ScopeItself, set_back


class _Patch(NamedTuple):
    """One name, how it is changed and how that is undone."""

    do: Callable[[], None]
    undo: Callable[[], None]


class _Patcher(ScopeItself):
    """Changes names in modules' globals and methods of classes; all is undone in the end."""

    def __init__(self) -> None:
        self.patches_made: list[_Patch] = []
        self.visited: set[int] = set()

    def changes(self) -> Any:
        return (set_back(self._undo_all),)

    def patch(
        self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True
    ) -> None:
        """Puts a function in the place of a global; one that is patched already stays."""
        new_fn.__fx_already_patched = deduplicate
        if name not in frame_dict and hasattr(builtins, name):
            self._made(
                lambda: frame_dict.__setitem__(name, new_fn), lambda: frame_dict.pop(name, None)
            )
            return
        original = frame_dict[name]
        if getattr(original, "__fx_already_patched", False):
            return
        self._made(
            lambda: frame_dict.__setitem__(name, new_fn),
            lambda: frame_dict.__setitem__(name, original),
        )

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Puts a function in the place of a method."""
        new_fn.__fx_already_patched = deduplicate
        original = getattr(cls, name)
        if not getattr(original, "__fx_already_patched", False):
            self._made(lambda: setattr(cls, name, new_fn), lambda: setattr(cls, name, original))

    def _made(self, do: Callable[[], Any], undo: Callable[[], Any]) -> None:
        self.patches_made.append(_Patch(do, undo))
        do()

    def visit_once(self, thing: Any) -> bool:
        """Whether this is the first call with a thing."""
        seen = id(thing) in self.visited
        self.visited.add(id(thing))
        return not seen

    def revert_all_patches(self) -> list[_Patch]:
        """Undoes all, the last one first; they can be made again."""
        for patch in reversed(self.patches_made):
            patch.undo()
        return list(self.patches_made)

    def reapply_all_patches(self) -> list[_Patch]:
        """Makes all again that were undone."""
        for patch in self.patches_made:
            patch.do()
        return list(self.patches_made)

    def _undo_all(self) -> None:
        while self.patches_made:
            self.patches_made[-1].undo()  # again, if this was interrupted
            self.patches_made.pop()
        self.visited.clear()
