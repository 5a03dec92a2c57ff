"""Composable transforms of functions, as in torch.func."""

from tritorch.func.rearrange import rearrange
from tritorch.func.transforms import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vjp,
)
from tritorch.func.vmap import debug_unwrap, vmap
