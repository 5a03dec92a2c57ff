"""Mixed precision, as in torch.amp: `autocast` and `GradScaler`."""

from tritorch.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from tritorch.amp.grad_scaler import GradScaler
from tritorch.amp.state import is_autocast_available
