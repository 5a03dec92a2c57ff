"""What torch.compile raises."""

from __future__ import annotations


class TorchDynamoException(RuntimeError):
    """The base of what the compiler raises."""


class InvalidBackend(TorchDynamoException):
    """A backend of that name is not registered."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available "
            "backends."
        )


for _class in (TorchDynamoException, InvalidBackend):
    _class.__module__ = "torch._dynamo.exc"
