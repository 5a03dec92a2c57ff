"""Private functions and base classes that packages call and derive from."""

_FUNCTIONAL = [
    "[F._get_softmax_dim('softmax', n, 2) for n in range(4)]",
    "F._verify_batch_size(torch.Size([1, 3, 1]))",
    "F._verify_batch_size([2, 1])",
    "F._verify_spatial_size([4, 3, 1, 1])",
    "F._canonical_mask(b, 'm', torch.float32, 'n', torch.float32)",
    "F._canonical_mask(b.float(), 'm', None, 'n', torch.float32)",
    "F._canonical_mask(i, 'm', None, 'n', torch.float32)",
    "F._none_or_dtype(None), F._none_or_dtype(b)",
    "F._none_or_dtype(3)",
    "z = torch.zeros(3, 2, 4); F._mha_shape_check(z, z, z, None, None, 2)",
    "z = torch.zeros(3, 4); F._mha_shape_check(z, z, z, torch.zeros(3), torch.zeros(2, 3, 3), 2)",
    "z = torch.zeros(3, 4); F._mha_shape_check(z, z, z, None, torch.zeros(1, 3, 3), 2)",
    "z = torch.zeros(3, 4); F._mha_shape_check(z, torch.zeros(1, 3, 4), z, None, None, 2)",
    "z = torch.zeros(3, 2, 4); F._mha_shape_check(z, z, z, torch.zeros(3), None, 2)",
    "z = torch.zeros(3, 2, 4); F._mha_shape_check(z, z, z, None, torch.zeros(3), 2)",
    "F._mha_shape_check(v, v, v, None, None, 2)",
    "w = torch.arange(4.0).reshape(2, 2); F._in_projection(x, x, x + 1, w, w + 1, w, v[:2])",
    "F._in_projection(x, x, x, torch.zeros(2, 2), torch.zeros(2, 2), torch.zeros(3, 2))",
    "F._in_projection(x, x, x, *[torch.zeros(2, 2)] * 3, None, v)",
    "w = torch.arange(12.0).reshape(6, 2); F._in_projection_packed(x, x, x, w, w[:, 0])",
    "w = torch.arange(12.0).reshape(6, 2); k = x + 1; F._in_projection_packed(x, k, k, w, w[:, 1])",
    "w = torch.arange(12.0).reshape(6, 2); F._in_projection_packed(x, x + 1, x, w)",
    "w = torch.zeros(6, 2); [p.is_contiguous() for p in F._in_projection_packed(x, x, x, w)]",
    "F._check_key_padding_mask(torch.zeros(2, 3), 3, 2)",
    "F._check_key_padding_mask(torch.zeros(2, 3), 4, 2)",
    "list(F._unpool_output_size(torch.zeros(1, 2, 3, 4), [2, 2], [2, 2], [0, 1], None))",
    "list(F._unpool_output_size(torch.zeros(1, 2, 3, 4), [2, 2], [2, 2], [0, 0], [1, 2, 7, 8]))",
    "F._unpool_output_size(torch.zeros(1, 2, 3, 4), [2, 2], [2, 2], [0, 0], [9, 8])",
    "F._check_unpool_output_size([3, -1], 1)",
    "[F._is_integer(k) for k in (1, 1.5, torch.tensor(2), torch.tensor(2.0), np.int8(1))]",
    "[F._expand_single_value(k) for k in (None, 1, [2])], F._list_or_empty(None)",
    "F._max_pool2d(torch.arange(16.0).view(1, 4, 4), 2)",
    "F._max_pool1d(torch.arange(4.0).view(1, 4), 2, 2, 0, 1, False, True)",
    "F._adaptive_max_pool1d(torch.arange(4.0).view(1, 4), 2)",
    "w = x.clone(); F._no_grad_embedding_renorm_(w, torch.tensor([1]), 1.0, 2.0); w",
]
_INIT = [
    "nn.init._no_grad_fill_(g, 2.0), nn.init._no_grad_zero_(g) is g",
    "nn.init._calculate_correct_fan(torch.zeros(3, 4, 2), 'FAN_OUT')",
    "nn.init._calculate_correct_fan(x, 'fan')",
    "torch.manual_seed(1); nn.init._no_grad_uniform_(g, -1.0, 1.0)",
    "torch.manual_seed(1); nn.init._no_grad_normal_(torch.zeros(20), 0.0, 1.0)",
    "torch.manual_seed(1); nn.init._no_grad_trunc_normal_(torch.zeros(20), 0.0, 1.0, -0.5, 0.5)",
    "nn.init._no_grad_trunc_normal_(torch.zeros(0), 9.0, 1.0, -0.5, 0.5)",
    "f = nn.init._make_deprecate(nn.init.ones_); f.__name__, f(torch.zeros(2))",
]
_FUNCTION = [
    "from torch.autograd.function import *; from torch.autograd import function as A; "
    "m = A._nested_map(lambda o: isinstance(o, int), lambda o: o + 1, 'ints'); "
    "m([1, (2, {'a': 3}), None])",
    "from torch.autograd import function as A; "
    "A._nested_map(lambda o: isinstance(o, int), lambda o: o + 1, 'ints')([1, 'a'])",
    "from torch.autograd import function as A; list(A._iter_tensors([x, (v, {'a': i}), None]))",
    "from torch.autograd import function as A; list(A._iter_tensors([1]))",
    "from torch.autograd import function as A; list(A._iter_tensors_permissive([1, v]))",
    "from torch.autograd import function as A; list(A._iter_None_tensors([None, v]))",
    "from torch.autograd import function as A; A._unflatten([1, 2, 3], [0, (0, None), [0]])",
    "from torch.autograd import function as A; A._map_tensor_data({'a': [g]})",
    "from torch.autograd import function as A; A._ContextMethodMixin is A.FunctionCtx, "
    "issubclass(A.BackwardCFunction, torch._C._FunctionBase)",
    "from torch.autograd import function as A; d, h = A._HookMixin._register_hook(None, print); "
    "len(d), h.remove(), len(d)",
]
_UTILS = [
    "from torch import _utils as U; U._handle_complex(torch.tensor([1 + 2j])), "
    "U._handle_complex(v) is v",
    "from torch import _utils as U; t = torch.eye(2).to_sparse(); "
    "U._unflatten_sparse_tensors(U._flatten_sparse_tensors([t, t]), [t, t])[1].to_dense()",
    "from torch import _utils as U; U._maybe_view_chunk_cat(torch.arange(8.0).view(4, 2), 2, 1)",
    "from torch import _utils as U; U._maybe_view_chunk_cat(torch.arange(8.0).view(2, 4), 2, 1)",
    "from torch import _utils as U; U._chunk_or_narrow_cat(torch.arange(8).view(2, 4), 2, 1)",
    "from torch import _utils as U; U._dummy_type('Stream')()",
    "from torch import _utils as U; U.try_import('no_such_module'), U.try_import('json').__name__",
    "from torch import _utils as U; U.get_tensor_metadata(v), U.get_tensor_metadata(3)",
    "from torch import _utils as U; U._get_device_module('cpu').__name__",
    "from torch import _utils as U; U._get_device_module('abc')",
    "from torch import _utils as U; U._get_async_or_non_blocking('to', True, {}), "
    "U._get_async_or_non_blocking('to', False, {'async': True})",
    "from torch import _utils as U; U._get_async_or_non_blocking('to', True, {'a': 1})",
    "from torch import _utils as U; U._rebuild_device_tensor_from_numpy(np.ones(2), "
    "torch.float32, 'cpu', True)",
    "from torch import _utils as U; c = U.CallbackRegistry('n'); s = []; "
    "c.add_callback(s.append); c.fire_callbacks(3); s",
    "from torch import _utils as U; k = U._LazySeedTracker(); k.queue_seed(1, 2); "
    "k.queue_seed_all(3, 4); k.get_calls()",
    "from torch import _utils as U\n"
    "class C:\n    @U.classproperty\n    def n(cls): return cls.__name__\n"
    "C.n, C().n",
    "U = torch.utils.checkpoint; U._infer_device_type(v), U._get_device_module('meta')",
    "torch.utils.checkpoint._get_autocast_kwargs('cpu')",
    "torch.utils.checkpoint._default_meta_extractor(v)",
    "k = torch.utils.checkpoint._VersionWrapper(v); v.add_(1); k.get_val(True), k.get_val(False)",
]
_FILES = [
    "S = torch.serialization; f = io.BytesIO(); torch.save(x, f); f.seek(0); "
    "S._is_zipfile(f), S._should_read_directly(f), f.tell()",
    "S = torch.serialization; f = io.BytesIO(); torch.save([x, x], f); f.seek(0)\n"
    "with S._open_zipfile_reader(f) as z: n = S._load(z, 'cpu', pickle)\n"
    "n[0].data_ptr() == n[1].data_ptr(), n",
    "S = torch.serialization; f = io.BytesIO(); S._legacy_save({'a': v}, f, pickle, 2); "
    "f.seek(0); S._legacy_load(f, None, pickle)",
    "S = torch.serialization; f = io.BytesIO()\n"
    "with S._open_zipfile_writer(f) as z: S._save({'a': v}, z, pickle, 2, False)\n"
    "f.seek(0); torch.load(f)",
    "torch.serialization._open_zipfile_writer(3)",
    "torch.serialization._open_file_like(io.BytesIO(), 'x')",
    "torch.serialization._check_save_filelike(3)",
    "[torch.serialization._is_meta_location(k) for k in (None, 'meta', torch.device('meta'), {})]",
    "torch.serialization._default_to_weights_only(None)",
    "torch.serialization._get_layout('torch.sparse_coo'), torch.serialization._cpu_tag(v)",
]
_SCHEDULES = [
    "o = torch.optim.SGD([g], lr=0.5); L = torch.optim.lr_scheduler; "
    "L._format_param('a', o, 3), L._param_groups_val_list(o, 'lr')",
    "L = torch.optim.lr_scheduler; L._format_param('a', torch.optim.SGD([g], lr=0.5), [1, 2])",
    "L = torch.optim.lr_scheduler; d = {'lr': torch.tensor(1.0)}; t = d['lr']; "
    "L._update_param_group_val(d, 'lr', 3.0); d, t",
    "L = torch.optim.lr_scheduler; s = L.StepLR(torch.optim.SGD([g], lr=0.5), 2); "
    "L._warn_get_lr_called_within_step(s)",
    "L = torch.optim.lr_scheduler; s = L.StepLR(torch.optim.SGD([g], lr=0.5), 2)\n"
    "with L._enable_get_lr_call(s) as e, L._initial_mode(s): r = s.get_lr(), s._is_initial\n"
    "r, s._is_initial, e.o is s",
]
_BASES = [
    "M = nn.modules\n"
    "class D(M.loss._Loss):\n    def __init__(self): super().__init__(reduction='sum')\n"
    "D().reduction, M.loss._Loss(False).reduction",
    "w = nn.modules.loss._WeightedLoss(v, reduction='none'); dict(w.named_buffers()), w.reduction",
    "nn.modules.conv._ConvNd(4, 6, (3,), (1,), (1,), (1,), False, (0,), 2, False, 'zeros')",
    "C = nn.modules.conv._ConvTransposeNd; "
    "C(4, 6, (3, 3), (1, 1), (1, 1), (2, 2), True, (0, 0), 2, True, 'zeros').weight.shape",
    "nn.modules.conv._ConvTransposeNd(2, 2, (1,), (1,), (0,), (1,), True, (0,), 1, True, 'reflect')",
    "m = nn.ConvTranspose1d(1, 1, 3, 2); z = torch.zeros(1, 1, 4); "
    "list(m._output_padding(z, [10], m.stride, m.padding, m.kernel_size, 1, m.dilation))",
    "m = nn.modules.pooling._MaxPoolNd(2, padding=1); m, m.stride, m.__constants__",
    "nn.modules.pooling._MaxPoolNd(2)(x)",
    "nn.modules.pooling._LPPoolNd(2, 3), nn.modules.pooling._AdaptiveAvgPoolNd(3)",
    "nn.modules.dropout._DropoutNd(2.0)",
    "nn.modules.dropout._DropoutNd(0.3, True)",
    "class P(nn.modules.padding._ConstantPadNd):\n"
    "    def __init__(self): super().__init__(2.0); self.padding = (1, 0)\n"
    "P(), P()(x)",
    "m = nn.modules.batchnorm._NormBase(3, affine=False); m, m.running_var",
    "nn.CircularPad1d(1)(v)",
    "nn.ReLU6(), isinstance(nn.ReLU6(), nn.Hardtanh), nn.Hardtanh(min_value=-3).min_val",
    "nn.Hardtanh(2, 1)",
    "nn.LazyInstanceNorm1d(), nn.LazyConv1d(2, 3, 2, bias=False)",
    "m = nn.LazyConv2d(2, 3); isinstance(m, nn.modules.conv._LazyConvXdMixin), m(torch.zeros(1, 4, "
    "5, 5)).shape, m",
    "import inspect; [str(inspect.signature(k)) for k in (nn.ReLU, nn.Softplus, nn.GELU)]",
    "L = torch.utils.data.dataloader\n"
    "class I(L._BaseDataLoaderIter):\n    def _next_data(self): return self._next_index()\n"
    "list(I(torch.utils.data.DataLoader([1, 2, 3], batch_size=2)))",
]
_OVERRIDES = [
    "O = torch.overrides; O._get_overloaded_args([v, i, nn.Parameter(v), 3])",
    "O = torch.overrides\n"
    "class A(torch.Tensor): pass\n"
    "class B(A): pass\n"
    "[type(k).__name__ for k in O._get_overloaded_args([v, A(), B(), A()])]",
    "O = torch.overrides; O._get_current_function_mode(), O._get_current_function_mode_stack()",
    "O = torch.overrides\n"
    "class M(O.TorchFunctionMode):\n"
    "    def __torch_function__(self, f, t, a=(), k=None): return 5\n"
    "m = M(); O._push_mode(m); r = [torch.sin(v), O._get_current_function_mode() is m]\n"
    "with O._pop_mode_temporarily(): r.append(torch.add(v, 1))\n"
    "r, O._pop_mode() is m, torch.add(v, 1)",
    "f = torch.overrides._disable_user_warnings(lambda: warnings.warn('x is deprecated, please "
    "use y'), module=''); f()",
    "S = torch.storage; S._isint(3), S._isint(np.int8(3)), S._isint(3.0)",
    "torch.storage._get_dtype_from_pickle_storage_type('HalfStorage')",
    "torch.storage._get_dtype_from_pickle_storage_type('Half')",
    "torch.storage._get_storage_from_sequence([1, 2], torch.uint8, 'cpu').tolist()",
    "T = torch._tensor; T._handle_torch_function_and_wrap_type_error_to_not_implemented("
    "lambda self, k: self + k)(v, 'a')",
    "torch._tensor._rebuild_from_type_v2(lambda: torch.ones(2), torch.Tensor, (), {'a': 1}).a",
    "torch.autograd._tensor_or_tensors_to_tuple(None, 2), "
    "torch.autograd._tensor_or_tensors_to_tuple(v, 1)",
]
_JIT = [
    "J = torch._jit_internal; J._qualified_name(nn.Linear), J._qualified_name(np.ndarray, False)",
    "J = torch._jit_internal\nclass A: pass\nJ._qualified_name(A), J._qualified_name(lambda: 0)",
    "J = torch._jit_internal; J._qualified_name(3)",
    "J = torch._jit_internal; J.get_callable_argument_names(lambda a, /, k, *c, d=1: 0)",
    "J = torch._jit_internal; J.get_callable_argument_names(3)",
    "J = torch._jit_internal; f = (lambda q: lambda: q)(4); J.get_closure(f)['q'], "
    "J.get_closure(f)['np'] is np",
    "J = torch._jit_internal\n"
    "class A:\n    f = staticmethod(len)\n    def h(self): pass\n"
    "J.is_static_fn(A, 'f'), J.is_static_fn(A, 'h'), J.get_static_fn(A, 'f')([1])",
    "J = torch._jit_internal; J._is_exception(KeyError), J._is_exception(3), J._is_exception(int)",
]
FAMILIES = {
    "private_functional": _FUNCTIONAL, "private_init": _INIT, "private_function": _FUNCTION,
    "private_utils": _UTILS, "private_files": _FILES, "private_schedules": _SCHEDULES,
    "private_bases": _BASES, "private_overrides": _OVERRIDES, "private_jit": _JIT,
}  # fmt: skip
