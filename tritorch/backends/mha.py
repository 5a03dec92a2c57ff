"""torch.backends.mha: inference of attention layers takes the way of training, whatever is set."""

_fastpath = True


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` was given."""
    return _fastpath


def set_fastpath_enabled(value: bool) -> None:
    """Accepted: there is one way."""
    global _fastpath
    _fastpath = bool(value)
