"""Which values of a parametrized test are of the slow tier."""

import pytest


def first_quick(values, count=1):
    """The values, all but the first ones slow: those repeat at length what the first ones show."""
    return [
        value if i < count else pytest.param(*_as_tuple(value), marks=pytest.mark.slow)
        for i, value in enumerate(values)
    ]


def quick(values, *chosen):
    """The values, of which all but the chosen ones are slow."""
    return [
        value if value in chosen else pytest.param(*_as_tuple(value), marks=pytest.mark.slow)
        for value in values
    ]


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)
