"""Tensors with masks, as in torch.masked."""

from tritorch.core.gates import publish
from tritorch.masked._ops import FUNCTIONS, _canonical_dim, _reduction_identity
from tritorch.masked.maskedtensor import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)

globals().update(publish(FUNCTIONS, __name__))
