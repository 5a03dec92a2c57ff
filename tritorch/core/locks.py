"""Locks that a forked child can take.

See Note [Locks and forks] in src/driver/fork.h: a child makes every lock anew, whoever held it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_all: weakref.WeakSet[Any] = weakref.WeakSet()


def renewed(made: Any) -> Any:
    """The lock that is given, which forked children make anew."""
    _all.add(made)
    return made


def lock() -> Any:
    """A threading.Lock."""
    return renewed(threading.Lock())


def rlock() -> Any:
    """A threading.RLock."""
    return renewed(threading.RLock())


def condition() -> Any:
    """A threading.Condition."""
    return renewed(threading.Condition())


# Held while an operator imports what computes it.  Python's own locks of modules stay locked in a
# child, so a fork waits for this one.
importing = threading.RLock()


def _renew() -> None:
    for made in list(_all):
        made._at_fork_reinit()


os.register_at_fork(after_in_child=_renew)
os.register_at_fork(
    before=importing.acquire, after_in_parent=importing.release, after_in_child=importing.release
)
