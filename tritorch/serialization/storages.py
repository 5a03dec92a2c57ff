"""Pickles of typed storages: each is a checkpoint of its own."""

from __future__ import annotations

import io
from typing import Any

from tritorch.serialization import load, save


def load_from_bytes(b: bytes) -> Any:
    """The storage of a pickle, in which it is a checkpoint of its own."""
    return load(io.BytesIO(b), weights_only=False)


load_from_bytes.__name__ = load_from_bytes.__qualname__ = "_load_from_bytes"
load_from_bytes.__module__ = "tritorch.storage"  # by which pickles find it


def reduce_typed_storage(storage: Any) -> Any:
    """A typed storage as a checkpoint of its own."""
    file = io.BytesIO()
    save(storage, file, _use_new_zipfile_serialization=False)
    return load_from_bytes, (file.getvalue(),)
