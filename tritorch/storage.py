"""The memory of tensors, as in torch.storage."""

from tritorch.core.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
