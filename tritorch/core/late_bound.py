"""Late-bound functions: low files call them, files above define them and assign them here.

Imports run downward (`tests/unit/test_import_order.py`).  Where a file low in the order calls what
stands above it, as a tensor's `__repr__` the printer, the function is declared here, and the file
that defines it assigns it when it is loaded.  `compat/late_binding.py` assigns those of files that
are not loaded with the package: their first call imports the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tritorch.core.device import device
    from tritorch.core.dtype import dtype
    from tritorch.core.storage import UntypedStorage
    from tritorch.core.tensor import Tensor
    from tritorch.core.typed_storage import TypedStorage

# core/printing.py, core/storage.py, core/typed_storage.py, core/legacy.py: of tensors, on tensors
tensor_str: Callable[[Tensor, str | None], str]
untyped_storage: Callable[[Tensor], UntypedStorage]
typed_storage: Callable[[Tensor], TypedStorage]
warn_of_typed_storage: Callable[[], None]
type_name: Callable[[Tensor], str]
dtype_and_device: Callable[[Any, device], tuple[dtype, device]]
# serialization/rebuild.py: a tensor or a parameter as `__reduce_ex__` gives it
reduce_tensor: Callable[[Tensor], Any]
reduce_parameter: Callable[[Tensor], Any]
# storage.py: a typed storage as a checkpoint of its own
reduce_typed_storage: Callable[[TypedStorage], Any]
# ops/shape/copying.py: elements written into an array of any kind
write_array: Callable[[Any, Any], None]
# ops/interpret/dispatch.py: answers of dispatch modes, and of classes that dispatch
answered_number: Callable[[Tensor], Any]
answered_question: Callable[[str, Tensor, Any], Any]
# func/vmap.py: for gradients of batches
vmap: Callable[..., Callable[..., Any]]
vmap_passing_none: Callable[..., Callable[..., Any]]
# trees/nodes.py: has the type of a named result taken apart; types wait until that is loaded
waiting_result_types = list[type]()
register_result_type: Callable[[type], None] = waiting_result_types.append
# compiler.py: for `Module.compile`
compile: Callable[..., Any]
# cuda/__init__.py and utils/benchmark: for Triton's driver, torch.cuda and a timer
device_interface: Callable[[], Any]
do_bench: Callable[..., Any]
# utils/data/_utils/worker.py: the worker of a data loader that runs the calling thread
worker_info: Callable[[], Any]
# sparse/gradcheck.py and testing/_creation.py: for checks of gradients
as_sparse_gradcheck: Callable[[Any], Any]
make_tensor: Callable[..., Tensor]
# ops/nn/varlen.py: for attention of jagged tensors
varlen: Callable[..., tuple[Tensor, Tensor]]
# compat/shims: the module that defines the operators of a compiled library
served_library: Callable[[str], str | None]
# multiprocessing/__init__.py: Python's own multiprocessing sends tensors from then on
register_reductions: Callable[[], None]
# compat/legacy_operators/internal.py: declares ATen's operators that are no public function
declare_internal: Callable[[], None]
declare_operators: Callable[[str], None]  # of a namespace
# distributed/__init__.py: the rank of this process, None outside of groups of processes
process_rank: Callable[[], int | None] = lambda: None
