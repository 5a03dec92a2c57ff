"""Functions that are called below the files that define them: those files register them here.

Imports run downward (`tests/unit/test_import_order.py`).  Where a file low in the order calls what
stands above it, as a tensor's `__repr__` the printer, the function is declared here, and the file
that defines it assigns it when it is loaded.  Files that are not loaded with the package are
registered by `compat/registering.py`, which imports them at the first call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# The parts of a tensor that are defined on tensors: core/printing.py, storage.py, typed_storage.py
# and legacy.py.
tensor_str: Callable[[Any, Any], str]
untyped_storage: Callable[[Any], Any]
typed_storage: Callable[[Any], Any]
warn_of_typed_storage: Callable[..., None]
type_name: Callable[[Any], str]
dtype_and_device: Callable[[Any, Any], tuple[Any, Any]]
# Pickling: serialization/rebuild.py.
reduce_tensor: Callable[[Any], Any]
reduce_parameter: Callable[[Any], Any]
# Gradients of batches: func/vmap.py.
vmap: Callable[..., Any]
# `Module.compile`: compiler.py.
compile: Callable[..., Any]
# Questions of Triton's driver: `torch.cuda`, and a timer.
device_interface: Callable[[], Any]
do_bench: Callable[..., Any]
# The worker of a data loader that runs the calling thread: utils/data/_utils/worker.py.
worker_info: Callable[[], Any]
# Checks of gradients: sparse/gradcheck.py, testing/_creation.py.
as_sparse_gradcheck: Callable[[Any], Any]
make_tensor: Callable[..., Any]
# Attention of jagged tensors, as one of sequences of several lengths: ops/nn/varlen.py.
varlen: Callable[..., tuple[Any, Any]]
# The module that defines the operators of a compiled library: compat/shims.
served_library: Callable[[str], str | None]
# Python's own multiprocessing sends tensors: multiprocessing/__init__.py.
register_reductions: Callable[[], None]
# ATen's operators that are no public function: compat/legacy_operators/internal.py.
declare_internal: Callable[[], None]
# The rank of this process among those that work together: distributed/__init__.py.
process_rank: Callable[[], int | None] = lambda: None
# Elements written into an array of any kind: ops/shape/copying.py.
write_array: Callable[[Any, Any], None]
# Answers of dispatch modes and of classes: ops/interpret/dispatch.py.
answered_number: Callable[[Any], Any]
answered_question: Callable[[str, Any, Any], Any]
