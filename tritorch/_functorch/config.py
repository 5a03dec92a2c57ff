"""Settings of PyTorch's compiler that programs patch around calls which do not compile here."""

import sys

from tritorch.utils._config_module import install_config_module

functionalize_rng_ops = False
fake_tensor_allow_meta = True
fake_tensor_allow_unsafe_data_ptr_access = True
fake_tensor_crossref = False
fake_tensor_propagate_real_tensors = False
debug_assert = False
debug_partitioner = False
static_weight_shapes = True
treat_parameters_as_free_to_save = True
cse = True
check_custom_op_aliasing = True
error_on_custom_op_aliasing = True
view_replay_for_aliased_outputs = True
activation_memory_budget = 1.0
recompute_views = False
donated_buffer = True

install_config_module(sys.modules[__name__])
