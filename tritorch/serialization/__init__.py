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
    add_safe_globals as add_safe_globals,
    clear_safe_globals as clear_safe_globals,
    get_safe_globals as get_safe_globals,
    get_unsafe_globals_in_checkpoint as get_unsafe_globals_in_checkpoint,
    safe_globals as safe_globals,
)
from tritorch.serialization.helpers import (
    SourceChangeWarning as SourceChangeWarning,
    check_module_version_greater_or_equal as check_module_version_greater_or_equal,
    mkdtemp as mkdtemp,
    normalize_storage_type as normalize_storage_type,
    storage_to_tensor_type as storage_to_tensor_type,
    validate_hpu_device as validate_hpu_device,
)
from tritorch.serialization.internals import (
    T as T,
    _backend_tag as _backend_tag,
    _check_dill_version as _check_dill_version,
    _check_save_filelike as _check_save_filelike,
    _check_seekable as _check_seekable,
    _cpu_deserialize as _cpu_deserialize,
    _cpu_tag as _cpu_tag,
    _default_to_weights_only as _default_to_weights_only,
    _get_layout as _get_layout,
    _get_restore_location as _get_restore_location,
    _get_storage_alignment as _get_storage_alignment,
    _is_compressed_file as _is_compressed_file,
    _is_meta_location as _is_meta_location,
    _is_path as _is_path,
    _is_torchscript_zip as _is_torchscript_zip,
    _is_zipfile as _is_zipfile,
    _legacy_load as _legacy_load,
    _legacy_save as _legacy_save,
    _load as _load,
    _maybe_decode_ascii as _maybe_decode_ascii,
    _meta_deserialize as _meta_deserialize,
    _meta_tag as _meta_tag,
    _open_buffer_reader as _open_buffer_reader,
    _open_buffer_writer as _open_buffer_writer,
    _open_file as _open_file,
    _open_file_like as _open_file_like,
    _open_zipfile_reader as _open_zipfile_reader,
    _open_zipfile_writer as _open_zipfile_writer,
    _open_zipfile_writer_buffer as _open_zipfile_writer_buffer,
    _open_zipfile_writer_file as _open_zipfile_writer_file,
    _opener as _opener,
    _save as _save,
    _SerializationLocal as _SerializationLocal,
    _should_read_directly as _should_read_directly,
)
from tritorch.serialization.legacy import MAGIC_NUMBER, PROTOCOL_VERSION
from tritorch.serialization.loading import load as load
from tritorch.serialization.locations import (
    MAP_LOCATION,
    default_restore_location as default_restore_location,
    location_tag as location_tag,
    register_package as register_package,
    validate_cuda_device as validate_cuda_device,
)
from tritorch.serialization.options import (
    LoadEndianness as LoadEndianness,
    get_crc32_options as get_crc32_options,
    get_default_load_endianness as get_default_load_endianness,
    get_default_mmap_options as get_default_mmap_options,
    set_crc32_options as set_crc32_options,
    set_default_load_endianness as set_default_load_endianness,
    set_default_mmap_options as set_default_mmap_options,
    skip_data as skip_data,
)
from tritorch.serialization.rebuild import StorageType as StorageType
from tritorch.serialization.safetensors import (
    SafetensorsError,
    load_safetensors,
    safetensors_metadata,
    save_safetensors,
)
from tritorch.serialization.saving import DEFAULT_PROTOCOL, save as save
