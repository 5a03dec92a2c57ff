"""Records of events for a service that nobody runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def make_scribe_logger(name: str, thrift_src: str) -> Callable[..., None]:
    """A function that takes a record's fields, and keeps nothing."""

    def forget(**fields: Any) -> None:
        pass

    return forget


open_source_signpost = make_scribe_logger("TorchOpenSourceSignpost", "")
