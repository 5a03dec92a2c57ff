"""Storages, typed and untyped, and the classes that are named after dtypes."""

from .lines import each, lines

FAMILIES = {}

_WORDS = """double float half long int short char byte bool bfloat16 complex_double complex_float"""
_CLASSES = """FloatStorage DoubleStorage HalfStorage LongStorage IntStorage ShortStorage CharStorage
    ByteStorage BoolStorage BFloat16Storage ComplexFloatStorage ComplexDoubleStorage"""
_QUIET = 'warnings.simplefilter("ignore"); '


def quiet(some):
    """Lines of typed storages, which all warn that they are deprecated."""
    return [_QUIET + line for line in some]


FAMILIES["typed_storage_classes"] = (
    quiet(each("torch.@([1, 0])", _CLASSES) + each("torch.@(2).size()", _CLASSES)
          + each("torch.@.dtype", _CLASSES) + each("torch.@().element_size()", _CLASSES)
          + each("isinstance(torch.@(1), torch.storage.TypedStorage)", "FloatStorage LongStorage")
          + each("torch.@([1, 0]).tolist()", _CLASSES)
          + each("torch.@._dtype", "FloatStorage BoolStorage")
          + each("torch.@([1, 0]).type()", _CLASSES)
          + each("torch.@([1, 0]).pickle_storage_type()", _CLASSES)
          + each("torch.@.__mro__[1:3]", "FloatStorage ByteStorage"))
    + each("torch.@([1, 0])", "FloatStorage BoolStorage")
    + quiet(lines("""
    torch.cuda.FloatStorage
    torch.cuda.FloatStorage(2)
    torch.FloatStorage(device="cpu")
    torch.FloatStorage([1, 2], device="cpu")
    torch.FloatStorage([1], dtype=torch.int32)
    torch.FloatStorage(1, 2)
    torch.FloatStorage("ab")
    torch.FloatStorage(1.5)
    torch.FloatStorage(wrap_storage=v.untyped_storage()).tolist()
    torch.FloatStorage(wrap_storage=v)
    torch.FloatStorage(3, wrap_storage=v.untyped_storage())
    torch.FloatStorage.from_buffer(b"\\x00\\x00\\x80\\x3f", "little")
    torch.FloatStorage.from_buffer(b"\\x3f\\x80\\x00\\x00", "big")
    torch.ByteStorage.from_buffer(b"abc")
    torch.BoolStorage.from_buffer(b"\\x00\\x01")
    torch.LongStorage.from_buffer(b"\\x01" + b"\\x00" * 7, byte_order="little")
    torch.FloatStorage.from_buffer(b"abc", "little")
    torch.FloatStorage.from_buffer(b"abcd", "middle")
    torch.FloatStorage.from_buffer(b"abcd", dtype=torch.float32)
    torch.QInt8Storage, torch.QUInt8Storage, torch.QInt32Storage, torch.QUInt4x2Storage
    torch.QInt8Storage.dtype, torch.QUInt2x4Storage.dtype
    sorted(c.__name__ for c in torch._storage_classes)
    sorted(c.__name__ for c in torch._tensor_classes)
    torch.storage._LegacyStorage, torch.storage._StorageBase
    torch.storage._dtype_to_storage_type_map()[torch.float32], len(torch.storage._dtype_to_storage_type_map())
    torch.storage._storage_type_to_dtype_map()["LongStorage"]
    torch.FloatTensor.dtype, torch.FloatTensor.is_cuda, torch.cuda.HalfTensor.is_cuda
    torch.FloatTensor.layout, torch.FloatTensor.is_sparse, torch.FloatTensor.__name__
    torch.FloatTensor, torch.cuda.LongTensor, torch.sparse.FloatTensor
    isinstance(v, torch.FloatTensor), isinstance(i, torch.LongTensor), isinstance(v, torch.cuda.FloatTensor)
    torch.is_storage(v.storage()), torch.is_storage(v.untyped_storage()), torch.is_storage(v)
    """))
)  # fmt: skip

_ON = "s = v.storage(); "
FAMILIES["typed_storage"] = (
    quiet(each(_ON + "s.@()", _WORDS) + each(_ON + "s.@().dtype", _WORDS)
          + each(_ON + "s.@", "dtype device is_cuda is_sparse is_hpu filename"))
    + each(_ON + "s.@()", "size nbytes element_size data_ptr tolist is_shared clone cpu type "
           "untyped resizable is_pinned get_device pickle_storage_type")[:3]
    + quiet(each(_ON + "s.@()", "size nbytes element_size tolist is_shared clone cpu type untyped "
                 "resizable is_pinned get_device pickle_storage_type __len__ "
                 "_size _nbytes _element_size _is_shared _pickle_storage_type "
                 "_get_legacy_storage_class"))
    + quiet(lines("""
    s = v.storage(); s
    s = v.storage(); str(s)
    s = v.storage(); isinstance(s, torch.FloatStorage), isinstance(s, torch.DoubleStorage)
    s = v.storage(); type(s)
    v.storage_type(), i.storage_type(), b.storage_type()
    s = v.storage(); s[0], s[-1], s[1]
    s = v.storage(); s[3]
    s = v.storage(); s["a"]
    s = v.storage(); s[0:2]
    s = v.storage(); s[0] = 9; v
    s = v.storage(); s[0:2] = 7; v
    s = v.storage(); s[0:2] = [5, 6]; v
    s = v.storage(); s[0:2] = torch.FloatStorage([5, 6]); v
    s = v.storage(); s[5] = 1; s
    s = v.storage(); s["a"] = 1; s
    s = v.storage(); s.fill_(4); v
    s = v.storage(); s.fill_("a")
    s = v.storage(); s.copy_(torch.DoubleStorage([7, 8, 9])); v
    s = v.storage(); s.copy_(torch.FloatStorage([7, 8]))
    s = v.storage(); s.copy_(v)
    s = torch.FloatStorage(2); s.resize_(5); s.size()
    s = v.storage(); s.resize_(2); s.size()
    s = v.storage(); s.type("torch.DoubleStorage")
    s = v.storage(); s.type(torch.LongStorage)
    s = v.storage(); s.type("torch.FloatStorage") is s
    s = v.storage(); s.type(torch.cuda.FloatStorage)
    s = v.storage(); s.type("nonsense")
    s = v.storage(); s.to(device="cpu")
    s = v.storage(); s.to(device="meta").device
    s = v.storage(); s.to("cpu")
    s = v.storage(); copy.copy(s), copy.deepcopy(s)
    s = v.storage(); copy.deepcopy(s).data_ptr() == s.data_ptr()
    s = v.storage(); pickle.loads(pickle.dumps(s))
    s = v.storage(); list(s)
    s = v.storage(); s.untyped().data_ptr() == v.data_ptr()
    s = v[1:].storage(); s.size(), s.tolist()
    s = torch.tensor([1 + 2j]).storage(); s
    s = torch.tensor([1 + 2j]).storage(); s.tolist(), s.complex_double(), s.float()
    s = torch.zeros(30).storage(); str(s).count("\\n")
    s = torch.zeros(2, dtype=torch.float8_e4m3fn).untyped_storage(); s
    torch.zeros(2, dtype=torch.float8_e4m3fn).storage().dtype
    torch.zeros(2, device="meta").storage()
    torch.zeros(2, device="meta").storage()[0]
    torch.zeros(2, device="meta").untyped_storage().nbytes()
    torch.zeros(2, device="meta").untyped_storage()
    torch.quantize_per_tensor(v, 0.1, 0, torch.qint8).storage().dtype
    torch.TypedStorage([1, 2], dtype=torch.int32, device="cpu")
    torch.TypedStorage([1, 2], dtype=torch.int32)
    torch.TypedStorage(2).size()
    torch.TypedStorage()
    torch.TypedStorage(wrap_storage=v.untyped_storage(), dtype=torch.float32)
    torch.TypedStorage(wrap_storage=v.untyped_storage())
    torch.TypedStorage(wrap_storage=v.untyped_storage(), dtype=3)
    torch.TypedStorage(wrap_storage=v.untyped_storage(), dtype=torch.float32, device="cpu")
    torch.TypedStorage(2, 3, dtype=torch.int32)
    torch.TypedStorage._new_shared
    """))
)  # fmt: skip

_U = "u = torch.tensor([1, 2], dtype=torch.int16).untyped_storage(); "
FAMILIES["untyped_storage"] = (
    each(_U + "u.@()", "size nbytes element_size tolist is_shared clone cpu untyped resizable "
         "is_pinned get_device __len__ type new byteswap hpu mps "
         "share_memory_")
    + each(_U + "u.@", "device is_cuda is_sparse is_sparse_csr is_hpu filename _fake_device "
           "_checkpoint_offset")
    + each(_U + "u.@()", _WORDS)
    + each("hasattr(torch.UntypedStorage, '@')", """_byteswap _expired _fix_weakref _free_weak_ref
        _get_filename _new_shared_cuda _new_shared_fd_cpu _new_shared_filename_cpu _new_using_fd_cpu
        _new_using_filename_cpu _new_with_file _new_with_weak_ptr _release_ipc_counter _set_cdata
        _set_from_file _share_cuda_ _share_fd_cpu_ _share_filename_cpu_ _shared_decref
        _shared_incref _to _weak_ref _write_file from_buffer from_file""")
    + lines("""
    u = v.untyped_storage(); u[0], u[3], u[-1]
    u = v.untyped_storage(); u[12]
    u = v.untyped_storage(); u["a"]
    u = v.untyped_storage(); u[0:4]
    u = v.untyped_storage(); u[0:4].data_ptr() == u.data_ptr()
    u = v.untyped_storage(); u[0:4:2]
    u = v.untyped_storage(); u[3] = 64; v
    u = v.untyped_storage(); u[0:4] = 0; v
    u = v.untyped_storage(); u[0] = 256; u[0]
    u = v.untyped_storage(); u[0] = "a"; u[0]
    u = v.untyped_storage(); u[0] = 1.5; u[0]
    u = v.untyped_storage(); u.fill_(0); v
    u = v.untyped_storage(); u.fill_(300)
    u = v.untyped_storage(); u.copy_(torch.zeros(3).untyped_storage()); v
    u = v.untyped_storage(); u.copy_(torch.zeros(2).untyped_storage())
    u = v.untyped_storage(); u.copy_(v)
    u = torch.UntypedStorage(4); u.size()
    u = torch.UntypedStorage(); u.size()
    torch.UntypedStorage([1, 2, 255])
    torch.UntypedStorage([1, 300])
    torch.UntypedStorage([1.5])
    torch.UntypedStorage("ab")
    torch.UntypedStorage(-1)
    torch.UntypedStorage(4, device="meta").device
    torch.UntypedStorage(4, device="meta")
    torch.UntypedStorage(4, device="cpu").device
    torch.UntypedStorage(4, 5)
    torch.UntypedStorage.from_buffer(b"\\x01\\x02", dtype=torch.int16, byte_order="little")
    torch.UntypedStorage.from_buffer(b"\\x01\\x02", dtype=torch.int16, byte_order="big")
    torch.UntypedStorage.from_buffer(b"\\x01\\x02", dtype=torch.int16, byte_order="x")
    torch.UntypedStorage.from_buffer(b"\\x01\\x02", dtype=torch.uint8)
    torch.UntypedStorage.from_buffer(b"\\x01\\x02\\x03", dtype=torch.int16, byte_order="little")
    torch.UntypedStorage.from_buffer(b"\\x01\\x02\\x03\\x04", dtype=torch.int8, count=2, offset=1)
    torch.UntypedStorage.from_buffer(b"", dtype=torch.int8)
    torch.UntypedStorage.from_buffer(b"ab", dtype=torch.int8, count=5)
    u = v.untyped_storage(); u.byteswap(torch.float32); v
    u = v.untyped_storage(); u.byteswap(torch.uint8); v
    u = torch.tensor([1 + 2j]).untyped_storage(); u.byteswap(torch.complex64); u.tolist()
    u = torch.UntypedStorage(2); u.resize_(6).size(), u.size()
    u = torch.UntypedStorage(2); u.resize_(-1)
    u = torch.UntypedStorage(2); u.resize_("a")
    a = torch.ones(2); a.untyped_storage().resize_(0); a.untyped_storage().size()
    u = v.untyped_storage(); u
    u = v.untyped_storage(); u == v.untyped_storage(), u is v.untyped_storage()
    u = v.untyped_storage(); u.data_ptr() == v.data_ptr(), u._cdata == v.untyped_storage()._cdata
    u = v.untyped_storage(); copy.copy(u).data_ptr() == u.data_ptr(), copy.deepcopy(u).tolist() == u.tolist()
    u = v.untyped_storage(); u.to(device="cpu") is u
    u = v.untyped_storage(); u.to(device="meta").device
    u = v.untyped_storage(); u.type()
    u = v.untyped_storage(); u.type("torch.FloatStorage")
    u = v.untyped_storage(); u._to(torch.int32)
    u = v.untyped_storage(); u._to(3)
    u = v.untyped_storage(); u.new().size(), type(u.new())
    u = v.untyped_storage(); list(u)[:4]
    u = v.untyped_storage(); u.share_memory_().is_shared(), v
    u = v.untyped_storage(); w = u._weak_ref(); torch.UntypedStorage._expired(w)
    f = tempfile.TemporaryFile(); v.untyped_storage()._write_file(f, True, True, 4); f.seek(0); f.read()
    f = tempfile.TemporaryFile(); v.untyped_storage()._write_file(f, True, False, 4); f.seek(0); f.read()
    f = tempfile.TemporaryFile(); v.untyped_storage()._write_file(f, True, True, 4); f.seek(0); torch.UntypedStorage._new_with_file(f, 4).tolist()
    v.untyped_storage()._write_file(io.BytesIO(), False, False, 1)
    torch.UntypedStorage.from_file("no such file", nbytes=3)
    torch.UntypedStorage._new_shared(4).is_shared()
    torch.UntypedStorage.__mro__[1:]
    torch.StorageBase, torch._C.StorageBase
    hash(v.untyped_storage()) == hash(v.untyped_storage())
    sys.getsizeof(v.untyped_storage()) > 0
    v.untyped_storage().pin_memory("meta")
    a = torch.zeros(2); a.set_(v.untyped_storage()); a
    a = torch.zeros(2); a.set_(v.untyped_storage(), 1, (2,)); a
    a = torch.zeros(2); a.set_(i.untyped_storage()); a.shape
    """)
)  # fmt: skip
