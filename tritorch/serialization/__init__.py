"""Checkpoints, as in torch.serialization: files go both ways between PyTorch and tritorch.

archive        PyTorch's zip container, every size checked;  records: as programs use it
atomic         files that are written whole or not at all
names          PyTorch's names of what pickles refer to
pickler        writes those names;  saving: save()
weights_only   an unpickler that runs no code;  rebuild: tensors from checked parts
loading        load(), the zip format;  legacy: the one before
helpers        versions of modules, types of storages
internals      what packages call of PyTorch's private functions
locations      devices of storages;  options, allowlist: what users set
safetensors    files of that format, which is not PyTorch's
"""

from tritorch.serialization.allowlist import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)
from tritorch.serialization.helpers import (
    SourceChangeWarning,
    check_module_version_greater_or_equal,
    mkdtemp,
    normalize_storage_type,
    storage_to_tensor_type,
    validate_hpu_device,
)
from tritorch.serialization.internals import PRIVATE as _private
from tritorch.serialization.legacy import MAGIC_NUMBER, PROTOCOL_VERSION
from tritorch.serialization.loading import load
from tritorch.serialization.locations import (
    MAP_LOCATION,
    default_restore_location,
    location_tag,
    register_package,
    validate_cuda_device,
)
from tritorch.serialization.options import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from tritorch.serialization.rebuild import StorageType
from tritorch.serialization.safetensors import (
    SafetensorsError,
    load_safetensors,
    safetensors_metadata,
    save_safetensors,
)
from tritorch.serialization.saving import DEFAULT_PROTOCOL, save

globals().update(_private)
