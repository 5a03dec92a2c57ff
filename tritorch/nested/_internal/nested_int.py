"""What stands behind the sizes of ragged dims (Note [Nested ints] in `arrays/nested.py`)."""

from tritorch.arrays.nested import NestedIntNode

__all__ = ["NestedIntNode"]
