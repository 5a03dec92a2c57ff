"""The named tuples that operators return, as in torch.return_types."""

from typing import Any

import tritorch.ops  # noqa: F401  # all operators declare theirs
from tritorch.ops.reduce.reduction import RETURN_TYPES

__all__ = ["all_return_types", *RETURN_TYPES]

globals().update(RETURN_TYPES)
all_return_types: list[Any] = list(RETURN_TYPES.values())
