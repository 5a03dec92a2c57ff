"""torch._C._nn: what PyTorch's extension has for modules; its operators are torch.ops.aten's."""

from __future__ import annotations

from tritorch.nn.modules.module import _parse_to as _parse_to
