"""Operators of quantized tensors: `torch.ops.quantized`, loaded when one is first asked for.

They compute in floats what is defined on floats, and products in integers; `packed.py` says how
weights are kept between calls.
"""

from __future__ import annotations

from tritorch.ops.quantized import (
    activation as activation,
    arithmetic as arithmetic,
    conv as conv,
    embedding as embedding,
    internal as internal,
    linear as linear,
    norm as norm,
    packed_weights as packed_weights,
    recurrent as recurrent,
    sparse_linear as sparse_linear,
)
