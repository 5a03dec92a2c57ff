"""Composable transforms of functions, as in torch.func."""

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
    stack_module_state,
    vjp,
)
from tritorch.func.vmap import vmap
