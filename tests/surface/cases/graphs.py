"""Autograd as its modules show it: nodes, edges, the engine, words for wrong gradients, views."""

from .lines import each, lines

FAMILIES = {}

FAMILIES["nodes"] = (
    each("hasattr((g * 2).grad_fn, '@')", """_raw_saved_self _raw_saved_other _saved_self _saved_other
        _node_saved _input_metadata _sequence_nr _set_sequence_nr metadata next_functions name
        register_hook register_prehook _register_hook_dict __call__ nonsense _is_legacy""")
    + each("type((g * g).grad_fn.@)", "_raw_saved_self _saved_self metadata next_functions _input_metadata _sequence_nr name")
    + each("(g * g).grad_fn._input_metadata[0].@", "dtype device shape layout is_nested_tensor is_cpp_nested_tensor nonsense")
    + each("torch.@(g).grad_fn", "sin exp cumsum sort softmax diag".replace("cumsum sort softmax ", ""))
    + each("dir(torch.@(g).grad_fn)[-8:]", "sin exp sum")
    + lines("""
    a = (g * g).grad_fn; a._raw_saved_self, a._raw_saved_self.__class__.__module__
    a = (g * g).grad_fn; a._raw_saved_self.data
    a = (g * g).grad_fn; a._raw_saved_self.unpack_hook
    a = (g * g).grad_fn; a._raw_saved_self.register_hooks(lambda t: 1, lambda t: g); a._saved_self
    a = g.exp().grad_fn; a._raw_saved_result.register_hooks(lambda t: t, lambda t: t * 0); a._saved_result
    a = (g * g).grad_fn; a._raw_saved_self.register_hooks(1, 2)
    a = (g * g).grad_fn; a._raw_saved_self.register_hooks(lambda: 1, lambda t: g)
    a = (g * g).grad_fn; a._raw_saved_self.register_hooks(lambda t: t, lambda t: t); a._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    y = (g * g).sum(); y.backward(); y.grad_fn.next_functions[0][0]._saved_self
    y = (g * g).sum(); y.backward(); y.grad_fn.next_functions[0][0]._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    torch._C._autograd.SavedTensor, torch._C._autograd.SavedTensor()
    (g * 2).grad_fn.nonsense
    (g * 2).grad_fn._saved_self
    (g * 2).grad_fn.next_functions, (g * 2).grad_fn(torch.ones(3))
    (g * 2).grad_fn.__class__.__mro__, (g * 2).grad_fn.__class__.__module__
    isinstance((g * 2).grad_fn, torch.autograd.graph.Node), torch.autograd.graph.Node.__subclasses__.__name__
    (g * 2).grad_fn.register_hook(3)
    (g * 2).grad_fn.register_prehook(lambda t: t).__class__.__name__
    (g * 2).grad_fn.metadata, (g * 2).grad_fn._input_metadata.__class__
    g.view(3).grad_fn.next_functions[0][0].variable is g, g.view(3).grad_fn.next_functions[0][0].__class__
    g.expand_as(g).grad_fn.next_functions[0][0]._input_metadata[0].shape
    torch.autograd.graph.Node()
    sorted(torch.autograd.graph.Node.__abstractmethods__)
    torch._C._functions.AddBackward0, torch._C._functions.AccumulateGrad, torch._C._functions.CopySlices
    torch._C._functions.UndefinedGrad, torch._C._functions.DelayedError, torch._C._functions.Error
    torch._C._functions.AddBackward0()
    torch._C._functions.UndefinedGrad()(v)
    torch._C._functions.DelayedError("words", 1)(v)
    isinstance((g + 1).grad_fn, torch._C._functions.AddBackward0)
    torch._C._functions.nonsense
    torch.autograd.functional.torch is torch, torch.autograd.function.torch is torch
    g.gather(0, i).grad_fn, g.index_select(0, i).grad_fn, g[i].grad_fn, g.take(i).grad_fn, g.masked_select(g > 0).grad_fn
    torch.where(g > 0, g, 0).grad_fn, g.scatter(0, i, 1.0).grad_fn, g.cumsum(0).grad_fn, g.sort()[0].grad_fn, g.topk(1)[0].grad_fn
    g.norm().grad_fn, g.std().grad_fn, g.var().grad_fn, g.prod().grad_fn, g.mean().grad_fn, g.amax().grad_fn, g.max().grad_fn
    g.clone().grad_fn, g.to(torch.float64).grad_fn, g.contiguous().grad_fn, g.t().grad_fn, g[0].grad_fn, g[1:].grad_fn, g.unbind()[0].grad_fn
    F.relu(g).grad_fn, F.softmax(g, 0).grad_fn, F.log_softmax(g, 0).grad_fn, F.gelu(g).grad_fn, F.dropout(g).grad_fn
    F.linear(g, x.new_ones(2, 3)).grad_fn, (g @ g).grad_fn, torch.outer(g, g).grad_fn, torch.einsum("i,i->", g, g).grad_fn
    torch.cat([g, g]).grad_fn, torch.stack([g, g]).grad_fn, g.repeat(2).grad_fn, g.expand(2, 3).grad_fn, g.flip(0).grad_fn, g.roll(1).grad_fn
    """)
)  # fmt: skip

_EDGE = "e = torch.autograd.graph.get_gradient_edge(g * 2); "
FAMILIES["edges"] = (
    each(_EDGE + "e.@.__class__", "node output_nr ownership_token count index _fields __doc__")
    + lines(f"""
    {_EDGE}e._fields, len(e), e.output_nr, e.ownership_token
    {_EDGE}torch.autograd.graph.GradientEdge(e.node, 0)
    {_EDGE}torch.autograd.grad((g * 2).sum(), e)
    torch.autograd.graph.get_gradient_edge(v)
    torch.autograd.graph.get_gradient_edge(3)
    torch.autograd.graph.get_gradient_edge(g).node, torch.autograd.graph.get_gradient_edge(g)._fields
    y = g * 2; z = y.sum(); torch.autograd.grad(z, torch.autograd.graph.get_gradient_edge(y))
    y = g * 2; torch.autograd.backward(torch.autograd.graph.get_gradient_edge(y.sum())); g.grad
    y = g * 2; torch.autograd.backward([torch.autograd.graph.get_gradient_edge(y)], [v]); g.grad
    y = g * 2; torch.autograd.backward(torch.autograd.graph.get_gradient_edge(y))
    torch.autograd.graph.GradientEdge()
    torch.autograd.graph.GradientEdge.__mro__[:2], torch.autograd.graph.GradientEdge._field_defaults
    torch.autograd.graph.__all__
    torch.autograd.__all__
    torch.autograd.function.__all__, torch.autograd.grad_mode.__all__
    torch.autograd.functional.__all__, torch.autograd.anomaly_mode.__all__, torch.autograd.forward_ad.__all__
    torch.autograd.profiler.__all__
    torch.autograd.gradcheck.__module__, torch.autograd.variable.__all__
    torch.autograd.profiler_util.__all__, torch.autograd.profiler_legacy.__all__
    """)
)  # fmt: skip

FAMILIES["engine"] = lines("""
    torch.autograd.variable.ImperativeEngine, torch.autograd.Variable._execution_engine.__class__
    torch._C._ImperativeEngine.__mro__
    torch._C._ImperativeEngine().__class__, torch._C._ImperativeEngine.__module__
    torch.autograd.Variable._execution_engine is torch.autograd.variable.Variable._execution_engine
    sorted(k for k in dir(torch._C._ImperativeEngine) if not k.startswith("__"))
    torch.autograd.Variable._execution_engine.is_checkpoint_valid()
    torch.autograd.Variable._execution_engine.queue_callback(print)
    torch._C._current_graph_task_id(), torch._C._current_autograd_node()
    torch._C._current_graph_task_execution_order()
    torch._C._will_engine_execute_node((g * 2).grad_fn)
    torch._C._will_engine_execute_node(3)
    y = g * 2; s = []; n = y.grad_fn; y.register_hook(lambda t: s.append(torch._C._will_engine_execute_node(n))); y.sum().backward(); s
    y = g * 2; z = y * 3; s = []; n = y.grad_fn; z.register_hook(lambda t: s.append(torch._C._will_engine_execute_node(n))); z.sum().backward(); s
    y = g * 2; z = y * 3; m = (g * 4).grad_fn; s = []; z.register_hook(lambda t: s.append(torch._C._will_engine_execute_node(m))); z.sum().backward(); s
    torch._C._autograd._unsafe_set_version_counter((v,), (5,)); v._version
    torch._C._autograd._unsafe_set_version_counter(v, 5)
    torch._C._autograd._unsafe_set_version_counter((v,), (-5,))
    torch.autograd._unsafe_preserve_version_counter(v).__class__
    k = torch.autograd._unsafe_preserve_version_counter(v); k.__enter__(); v.add_(1); k.__exit__(None, None, None); v._version
    torch.autograd._unsafe_preserve_version_counter(3)
    torch.autograd.graph.increment_version(v); v._version
    torch.autograd.graph.increment_version([v, x]); v._version, x._version
    torch.autograd.graph.increment_version(3)
    torch.autograd.grad_mode._force_original_view_tracking, torch._C._is_view_replay_enabled()
    torch.autograd._force_original_view_tracking(True).__class__.__name__
    torch.autograd._force_original_view_tracking(True); torch._C._is_view_replay_enabled()
    k = torch.autograd._force_original_view_tracking(True); k.__enter__(); torch._C._is_view_replay_enabled(), k.__exit__(), torch._C._is_view_replay_enabled()
    torch._C._set_view_replay_enabled(True); torch._C._is_view_replay_enabled()
    torch._C._ViewReplayEnabled(True).__class__.__name__
    torch.autograd.kineto_available(), torch.autograd.ProfilerEvent, torch.autograd.ProfilerEvent.__module__
    torch.autograd._kineto_step(), torch.autograd._profiler_enabled(), torch.autograd._supported_activities()
    torch.autograd.ProfilerConfig, torch.autograd.ProfilerState.CPU, torch.autograd.ProfilerActivity.CPU
    sorted(torch.autograd.ProfilerState.__members__)
    sorted(torch.autograd.ProfilerActivity.__members__)
    torch.autograd.DeviceType.CPU, len(torch.autograd.DeviceType.__members__) > 10
    torch.autograd._ProfilerResult, torch.autograd.SavedTensor, torch.autograd._KinetoEvent
    torch.autograd._push_saved_tensors_default_hooks(lambda t: 3, lambda t: g); (g * g).grad_fn._saved_self, torch.autograd._pop_saved_tensors_default_hooks()
    torch._C._autograd._saved_tensors_hooks_is_enabled(), torch._C._autograd._saved_tensors_hooks_disable("no"), torch._C._autograd._saved_tensors_hooks_is_enabled()
    torch._C._autograd._get_sequence_nr().__class__
    torch._C._autograd._get_data_attr(g)
    torch._C._autograd._supported_activities()
    torch.autograd._calculate_shape(v, v, False)
    torch.autograd._calculate_shape(v, x, False)
    torch.autograd._is_checkpoint_valid()
    torch.autograd._make_grads((g.sum(),), (None,), False)
    torch.autograd._make_grads((g,), (None,), False)
    torch.autograd._make_grads((g,), (3,), False)
    torch.autograd._make_grads((g,), (x,), False)
    torch.autograd.forward_ad._current_level, torch.autograd.forward_ad.UnpackedDualTensor._fields
    torch.autograd.forward_ad.exit_dual_level()
    torch.autograd.forward_ad.make_dual(v, v)
    torch.autograd.forward_ad.enter_dual_level(), torch.autograd.forward_ad.make_dual(i, i)
    torch.autograd.forward_ad.enter_dual_level(), torch.autograd.forward_ad.make_dual(v, x)
    torch.autograd.forward_ad.enter_dual_level(), torch.autograd.forward_ad.unpack_dual(torch.autograd.forward_ad.make_dual(v, v))
    torch.autograd.set_multithreading_enabled(False).__class__.__name__, torch.autograd.is_multithreading_enabled() if hasattr(torch.autograd, "is_multithreading_enabled") else torch._C._is_multithreading_enabled()
    torch.autograd.is_tensor_like.__module__, torch.autograd.handle_torch_function.__module__
    """)

_WRONG = lines("""
    g.grad = v[:2]
    g.grad = i
    g.grad = 3
    g.grad = "a"
    g.grad = v.double()
    g.grad = v.to("meta")
    g.grad = g
    g.grad = torch.zeros(1, 3)
    g.grad = v; g.grad = None; g.grad
    del g.grad; g.grad
    v.grad = v
    v.grad = v.clone(); v.grad
    g.grad = v.to_sparse(); g.grad.layout
    g.data = 3
    g.data = torch.zeros(2, dtype=torch.int32)
    g.data = torch.zeros(2, 2); g.shape
    g.data = torch.zeros(2, device="meta"); g.device
    g.requires_grad = False; g.requires_grad
    (g * 2).requires_grad = False
    (g * 2).requires_grad_(False)
    i.requires_grad = True
    i.requires_grad_()
    i.requires_grad_(False)
    v.requires_grad = 3
    v.requires_grad_("a")
    g.is_leaf = False
    g.grad_fn = None
    g._grad_fn = 3
    g._version = 3
    g.shape = 3
    g.dtype = torch.int8
    g.device = "cpu"
    g.names = ("a",)
    g.names = 3
    g.add_(1)
    g[0] = 1
    g[1:].add_(1)
    g.view(3).add_(1)
    g.unbind()[0].add_(1)
    g.detach().add_(1), g._version
    g.data.add_(1), g._version
    torch.no_grad()(lambda: g.add_(1))(), g._version
    y = g * 2; y[0] = 5; y.sum().backward(); g.grad
    y = g * 2; a, c, d = y.unbind(); a.add_(1)
    y = g * 2; a = y.split(1); a[0].mul_(2)
    y = g * 2; z = y.exp(); z.add_(1); z.sum().backward()
    y = g * 2; w = y * y; y.add_(1); w.sum().backward()
    y = g.sin(); y.mul_(2).sum().backward(); g.grad
    y = torch.no_grad()(lambda: g.view(3))(); y.add_(1)
    y = torch.no_grad()(lambda: (g * 1).view(3))(); y.add_(1)
    g.backward()
    g.sum().backward(torch.ones(2))
    g.sum().backward(3)
    g.sum().backward(gradient="a")
    v.sum().backward()
    i.sum().backward()
    y = g.sum(); y.backward(); y.backward()
    y = (g * g).sum(); y.backward(); y.backward()
    torch.autograd.grad(g.sum(), v)
    torch.autograd.grad(g.sum(), [g, v])
    torch.autograd.grad(g.sum(), [g, v.requires_grad_()])
    torch.autograd.grad(g.sum(), [g, v.requires_grad_()], allow_unused=True)
    torch.autograd.grad(g.sum(), [g, v.requires_grad_()], materialize_grads=True)
    torch.autograd.grad(g.sum(), [g, v.requires_grad_()], allow_unused=False, materialize_grads=True)
    torch.autograd.grad(g.sum(), [])
    torch.autograd.grad(g.sum(), 3)
    torch.autograd.grad(3, g)
    torch.autograd.grad([], g)
    torch.autograd.grad(g * 2, g)
    torch.autograd.grad([g * 2, g.sum()], g, [v])
    torch.autograd.grad(g * 2, g, v[:2])
    torch.autograd.grad(g * 2, g, i)
    torch.autograd.grad(g * 2, g, is_grads_batched=True)
    torch.autograd.grad(g * 2, g, torch.eye(3), is_grads_batched=True)
    torch.autograd.grad(g.sum(), g, create_graph=True)[0].requires_grad
    torch.autograd.grad(g.sum(), g, retain_graph=3)
    torch.autograd.backward(g.sum(), inputs=[])
    torch.autograd.backward(g.sum(), inputs=v)
    torch.autograd.backward(g.sum(), inputs=g); g.grad
    torch.autograd.backward(g.sum(), v, grad_variables=v)
    torch.autograd.backward(g * 2, grad_variables=v); g.grad
    torch.autograd.backward([g.sum()], [v, v])
    torch.autograd.backward(3)
    (g * 2).retain_grad(), v.retain_grad()
    v.retain_grad()
    g.retain_grad(), g.retains_grad
    y = g * 2; y.sum().backward(); y.grad
    (g * 1j).sum().backward()
    c = torch.tensor([1j], requires_grad=True); c.real.sum().backward(); c.grad
    torch.argmax(g).requires_grad, g.int().requires_grad, (g > 0).requires_grad, g.floor().requires_grad
    torch.autograd.gradcheck(lambda t: t * 2, v)
    torch.autograd.gradcheck(lambda t: t * 2, v.double().requires_grad_())
    torch.autograd.gradcheck(lambda t: t.detach() * 2, v.double().requires_grad_())
    torch.autograd.gradcheck(lambda t: 3, v.double().requires_grad_())
    torch.autograd.functional.jacobian(lambda t: 3, v)
    torch.autograd.functional.jacobian(lambda t: t * 2, 3)
    torch.autograd.functional.hessian(lambda t: t * 2, v)
    torch.autograd.functional.vjp(lambda t: t * 2, v)
    torch.autograd.functional.jacobian(lambda t: t * 2, v, strategy="nonsense")
    torch.autograd.functional.jvp(lambda t: t * 2, v)
    torch.autograd.functional.vhp(lambda t: t.sum(), v, x)
    np.asarray(g)
    g.numpy()
    (g * 2).numpy()
    g.numpy(force=True)
    g.tolist(), g[0].item(), float(g[0])
    copy.deepcopy(g * 2)
    copy.deepcopy(g), copy.deepcopy(g) is g
    pickle.loads(pickle.dumps(g))
    nn.Parameter(g * 2).is_leaf, nn.Parameter(i, requires_grad=False)
    nn.Parameter(i)
    torch.tensor(g)
    """)
FAMILIES["wrong_gradients"] = _WRONG

_FN = """class A(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a): return a * 2
    @staticmethod
    def backward(ctx, d): return d * 2
"""
FAMILIES["functions"] = [
    _FN + line
    for line in lines("""
    A.apply(g), type(A), type(A).__mro__, A.__mro__[1:]
    A.apply(g).grad_fn, A.apply(g).grad_fn.__class__.__mro__
    A.apply(g).grad_fn.name(), A.apply(g).grad_fn.next_functions, A.apply(g).grad_fn.metadata
    A()
    A()(g)
    A.apply()
    A.apply(3)
    A.apply(g, g)
    A._backward_cls, A._compiled_autograd_backward_state if hasattr(A, "_compiled_autograd_backward_state") else None
    A.generate_vmap_rule, A.vjp is A.backward, A.setup_context.__name__
    A.jvp(None)
    A.vmap(None, None)
    sorted(k for k in dir(A) if not k.startswith("_"))
    sorted(k for k in dir(A.apply(g).grad_fn) if not k.startswith("_"))
    A.apply(g).grad_fn.saved_tensors, A.apply(g).grad_fn.needs_input_grad, A.apply(g).grad_fn.materialize_grads
    A.apply(g).grad_fn.to_save, A.apply(g).grad_fn.non_differentiable, A.apply(g).grad_fn.dirty_tensors
    A.apply(g).grad_fn.saved_variables
    A.apply(g).grad_fn._raw_saved_tensors, A.apply(g).grad_fn._input_metadata[0].shape
    y = A.apply(g); y.sum().backward(); y.grad_fn.saved_tensors, g.grad
    A.backward = staticmethod(lambda ctx, d: (d, d)); A.apply(g).sum().backward()
    A.backward = staticmethod(lambda ctx, d: 3); A.apply(g).sum().backward()
    A.backward = staticmethod(lambda ctx, d: None); A.apply(g).sum().backward(); g.grad
    A.backward = staticmethod(lambda ctx, d: d[:2]); A.apply(g).sum().backward()
    A.backward = staticmethod(lambda ctx, d: d.double()); A.apply(g).sum().backward(); g.grad.dtype
    A.forward = staticmethod(lambda ctx, a: 3); A.apply(g)
    A.forward = staticmethod(lambda ctx, a: (a * 2, 3, None)); A.apply(g)[1:]
    A.forward = staticmethod(lambda ctx, a: ctx.mark_dirty(a) or a.add_(1)); A.apply(g)
    A.forward = staticmethod(lambda ctx, a: ctx.save_for_backward(3)); A.apply(g)
    A.forward = staticmethod(lambda ctx, a: ctx.mark_dirty(3) or a); A.apply(g)
    A.forward = staticmethod(lambda ctx, a: ctx.mark_non_differentiable(3) or a); A.apply(g)
    A.forward = staticmethod(lambda ctx, a: ctx.set_materialize_grads(3) or a); A.apply(g)
    A.forward = staticmethod(lambda ctx, a: ctx.mark_shared_storage((a, a)) or a); A.apply(g)
    del A.backward; A.apply(g).sum().backward()
    del A.forward; A.apply(g)
    A.forward = lambda ctx, a: a; A.apply(g).shape
    type("C", (A,), {}).apply(g).grad_fn
    torch.autograd.function.FunctionMeta.__mro__, torch.autograd.function.FunctionMeta.__bases__
    torch.autograd.function.BackwardCFunction.__mro__[:4]
    torch.autograd.Function.__mro__
    torch.autograd.Function.apply(g)
    torch.autograd.Function.forward(None)
    torch.autograd.Function.backward(None)
    torch.autograd.function.NestedIOFunction.__mro__[1:3], torch.autograd.function.InplaceFunction(True).inplace
    torch.autograd.function.once_differentiable(lambda ctx, d: d).__name__
    torch.autograd.function.traceable(A) is A
    torch.autograd.function._is_setup_context_defined(A.setup_context)
    torch._C._FunctionBase.__module__, torch._C._FunctionBase.__name__
    """)
]
