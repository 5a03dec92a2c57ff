"""What stands behind the sizes of ragged dims (Note [Nested ints] in `core/nested.py`)."""

from tritorch.core.nested import NestedIntNode

__all__ = ["NestedIntNode"]
