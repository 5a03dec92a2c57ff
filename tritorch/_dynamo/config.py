"""Settings of the compiler, which programs patch around calls that do not compile here."""

import sys

from tritorch.utils._config_module import install_config_module

suppress_errors = False
verbose = False
cache_size_limit = recompile_limit = 8
accumulated_cache_size_limit = accumulated_recompile_limit = 256
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
compiled_autograd = False
force_parameter_static_shapes = True
inline_inbuilt_nn_modules = True
install_free_tensors = False
issue_3_13_0_warning = True
log_compilation_metrics = True
optimize_ddp = True
specialize_float = False
specialize_int = False
fake_tensor_cache_enabled = True
fake_tensor_cache_crosscheck_enabled = False
prefer_deferred_runtime_asserts_over_guards = False
traceable_tensor_subclasses: set = set()

install_config_module(sys.modules[__name__])
