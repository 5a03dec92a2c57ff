"""Arguments of a launcher whose defaults are variables: PET_NNODES for --nnodes."""

from __future__ import annotations

import os
from argparse import Action
from typing import Any

__all__ = ["check_env", "env"]


class env(Action):
    """An option with a value; PET_{dest} has its default, if it is set."""

    def __init__(self, dest: str, default: Any = None, required: bool = False, **kwargs: Any):
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, values)


class check_env(Action):
    """A flag; PET_{dest} says 0 or 1 where it is not given."""

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        found = os.environ.get(f"PET_{dest.upper()}", str(int(default)))
        super().__init__(dest=dest, const=True, default=bool(int(found)), nargs=0, **kwargs)

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, self.const)
