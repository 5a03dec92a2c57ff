"""Composable transforms of functions, as in torch.func."""

import sys as _sys

from tritorch.compat import names as _names
from tritorch.func.rearrange import rearrange as rearrange
from tritorch.func.transforms import (
    functional_call as functional_call,
    functionalize as functionalize,
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    linearize as linearize,
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
    stack_module_state as stack_module_state,
    vjp as vjp,
)
from tritorch.func.vmap import debug_unwrap as debug_unwrap, vmap as vmap

_names.adopt(_sys.modules[__name__])
