"""Queues whose pickler shares tensors' memory, as in torch.multiprocessing.queue."""

from __future__ import annotations

import io
import pickle
from multiprocessing import queues
from multiprocessing.reduction import ForkingPickler
from typing import Any


class ConnectionWrapper:
    """A connection that sends by multiprocessing's pickler, which shares tensors' memory."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn

    def send(self, obj: Any) -> None:
        """Sends an object."""
        file = io.BytesIO()
        ForkingPickler(file, pickle.HIGHEST_PROTOCOL).dump(obj)
        self.send_bytes(file.getvalue())

    def recv(self) -> Any:
        """The next object."""
        return pickle.loads(self.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        if "conn" in self.__dict__:
            return getattr(self.conn, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute 'conn'")


class Queue(queues.Queue):
    """`multiprocessing.Queue`: its pickler knows tensors already."""


class SimpleQueue(queues.SimpleQueue):
    """`multiprocessing.SimpleQueue`: its pickler knows tensors already."""
