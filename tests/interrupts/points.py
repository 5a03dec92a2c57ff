"""Every place at which a Ctrl-C can arrive, one after the other.

CPython runs signal handlers where its evaluation loop looks for them: at the entry of Python
functions, after calls, at jumps backwards.  The handler here is made of C functions alone, so it
runs no such place itself: at each it raises the signal anew, so that the next place calls it again,
and at the n-th it raises KeyboardInterrupt, as the default handler does."""

from __future__ import annotations

import _thread
import functools
import itertools
import operator
import signal
from collections.abc import Callable, Iterator
from typing import Any


class _Next:
    """An object whose attribute `step` is the next item of an iterator."""

    def __init_subclass__(cls, steps: Iterator[Any]) -> None:
        cls.step = property(functools.partial(next, steps))


def _handler(steps: Iterator[Any]) -> Callable[..., Any]:
    """A function of C that takes a handler's arguments and moves the iterator on."""

    class Steps(_Next, steps=steps):
        pass

    return functools.partial("{0.step.__class__.__name__}".format, Steps())


def _armed(function: Callable[[], Any], armed: list[Any], steps: Iterator[Any]) -> Any:
    before = signal.signal(signal.SIGINT, _handler(steps))
    try:
        _thread.interrupt_main()
        return function()
    finally:
        armed[0] = None
        signal.signal(signal.SIGINT, before)


def _while_armed() -> tuple[list[Any], Iterator[Any]]:
    """A list of the signal, and an iterator that gives it until None stands there."""
    armed: list[Any] = [signal.SIGINT]
    return armed, iter(functools.partial(operator.getitem, armed, 0), None)


def count(function: Callable[[], Any]) -> int:
    """The number of places that a call of the function passes."""
    armed, signals = _while_armed()
    places = itertools.count()
    numbered = map(operator.itemgetter(0), zip(signals, places))
    _armed(function, armed, map(_thread.interrupt_main, numbered))
    return next(places)


def interrupt(function: Callable[[], Any], place: int) -> tuple[bool, Any]:
    """Calls the function with a Ctrl-C at a place; whether it left by that, and its result."""
    armed, signals = _while_armed()
    steps = itertools.chain(
        map(_thread.interrupt_main, itertools.islice(signals, place)),
        map(signal.default_int_handler, itertools.islice(signals, 1), [None]),
    )
    try:
        return False, _armed(function, armed, steps)
    except KeyboardInterrupt:
        return True, None


def interrupt_in(function: Callable[[], Any], seconds: float) -> tuple[bool, Any]:
    """Calls the function with a Ctrl-C by a timer; whether it left by that, and its result."""
    signal.signal(signal.SIGALRM, _handler(map(_thread.interrupt_main, [signal.SIGINT])))
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            return False, function()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for _ in range(8):  # the timer may have run out just before: its handler runs in here
                len(())
    except KeyboardInterrupt:  # also one that came behind the function
        return True, None
