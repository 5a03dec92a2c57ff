"""Mixed precision, as in torch.amp: `autocast` and `GradScaler`."""

from typing import TYPE_CHECKING

from tritorch.amp.autocast_mode import (
    autocast as autocast,
    custom_bwd as custom_bwd,
    custom_fwd as custom_fwd,
)
from tritorch.amp.grad_scaler import GradScaler as GradScaler
from tritorch.amp.state import is_autocast_available as is_autocast_available

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.amp import autocast_mode as autocast_mode, grad_scaler as grad_scaler
