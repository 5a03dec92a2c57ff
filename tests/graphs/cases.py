"""Small programs about nodes, hooks, saved tensors and custom functions, as they run under PyTorch.

Each is a text that calls `say(...)`; what it said, and the warnings and the error that it ended in,
are what tools/record/expressions.py writes down (`graphs`).
"""

from __future__ import annotations

import re
import warnings

HEAD = """
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
w = torch.tensor([2.0, 2.0, 2.0], requires_grad=True)
G = torch.autograd.graph
"""
PROGRAMS = {
    "node": """
y = x * w
n = y.grad_fn
say(n.name(), n.requires_grad, n.metadata, len(n.next_functions))
a, b = (f for f, _ in n.next_functions)
say(a.name(), a is n.next_functions[0][0], a.variable is x, a.next_functions, a.requires_grad)
say(isinstance(n, G.Node), isinstance(a, G.Node), issubclass(type(n), G.Node), type(a).__name__)
n.metadata["k"] = 1
say(y.grad_fn.metadata, a.metadata)
""",
    "input metadata": """
m = (x * w).sum().grad_fn._input_metadata
say(len(m), m[0].shape, m[0].dtype, m[0].device, m[0].is_nested_tensor, m[0].is_cpp_nested_tensor)
say([(i.shape, i.dtype) for i in x.double().sort().values.grad_fn._input_metadata][0])
say([i.shape for i in (x * w).grad_fn.next_functions[0][0]._input_metadata])
""",
    "sequence numbers": """
n, m = (x * w).grad_fn, (x + w).grad_fn
say(m._sequence_nr() - n._sequence_nr())
n._set_sequence_nr(7)
say(n._sequence_nr())
n._set_sequence_nr("a")
""",
    "calls of nodes": """
n = (x * w).grad_fn
say(n(torch.ones(3)))
n()
""",
    "node after free": """
y = (x * w).sum()
n = (x * w).grad_fn
z = x * w
z.sum().backward()
z.grad_fn(torch.ones(3))
""",
    "raw saved": """
y = x * w
r = y.grad_fn._raw_saved_self
say(type(r).__name__, r.unpack() is not None, r.unpack_hook, r.data)
r.register_hooks(lambda t: ("packed", t), lambda p: p[1] * 2)
say(r.data[0], r.unpack(), y.grad_fn._saved_self)
y.sum().backward()
say(w.grad, x.grad)
""",
    "raw saved result": """
y = x.exp()
r = y.grad_fn._raw_saved_result
r.register_hooks(lambda t: (say(t.grad_fn, t.requires_grad), t)[1], lambda t: t * 0)
say(y.grad_fn._saved_result)
y.sum().backward()
say(x.grad)
""",
    "raw saved twice": """
r = (x * w).grad_fn._raw_saved_self
r.register_hooks(lambda t: t, lambda t: t)
r.register_hooks(lambda t: t, lambda t: t)
""",
    "raw saved none": """
n = (x * torch.ones(3)).grad_fn
say(n._saved_self, n._raw_saved_self.data, n._raw_saved_self.unpack())
n._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
""",
    "raw saved freed": """
y = x * w
r = y.grad_fn._raw_saved_self
y.sum().backward()
say(r.data)
r.register_hooks(lambda t: t, lambda t: t)
""",
    "raw saved unpack freed": """
y = x * w
r = y.grad_fn._raw_saved_self
y.sum().backward()
r.unpack()
""",
    "raw saved wrong": """
(x * w).grad_fn._raw_saved_self.register_hooks(1, 2)
""",
    "pack hook writes": """
(x * w).grad_fn._raw_saved_self.register_hooks(lambda t: t.mul_(2), lambda t: t)
""",
    "saved after free": """
y = x * w
y.sum().backward()
y.grad_fn._saved_self
""",
    "plain saved after free": """
y = x.reshape(3, 1).sum(0)
y.sum().backward()
say(y.grad_fn._saved_dim, y.grad_fn._saved_keepdim)
""",
    "no such saved": """
(x * w).grad_fn._saved_nothing
""",
    "saved written": """
y = x * w
with torch.no_grad():
    x.add_(1)
y.grad_fn._saved_self
""",
    "saved set": """
(x * w).grad_fn._saved_self = 1
""",
    "node attribute": """
(x * w).grad_fn.mine = 1
""",
    "queue_callback": """
engine = torch.autograd.Variable._execution_engine
done = []
x.register_hook(lambda g: engine.queue_callback(lambda: done.append(("after", x.grad.tolist()))))
(x * 2).sum().backward()
say(done)
""",
    "queue_callback outside": """
torch.autograd.Variable._execution_engine.queue_callback(lambda: None)
""",
    "graph task id": """
say(torch._C._current_graph_task_id())
seen = []
x.register_hook(lambda g: seen.append(torch._C._current_graph_task_id()))
(x * 2).sum().backward()
(x * 2).sum().backward()
say(seen[0] >= 0, seen[1] != seen[0])
""",
    "will engine execute": """
y = x * 2
leaf = y.grad_fn.next_functions[0][0]
z = y.exp()
found = []
def hook(g):
    for n in (y.grad_fn, z.grad_fn, leaf):
        found.append(torch._C._will_engine_execute_node(n))
z.register_hook(hook)
z.sum().backward(retain_graph=True)
torch.autograd.grad(z.sum(), y)
say(found)
""",
    "will engine execute outside": """
torch._C._will_engine_execute_node((x * 2).grad_fn)
""",
    "current node": """
say(torch._C._current_autograd_node())
y = x * 2
y.register_hook(lambda g: None)
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 1
    @staticmethod
    def backward(ctx, g):
        say(torch._C._current_autograd_node() is z.grad_fn)
        return g
z = F.apply(y)
z.sum().backward()
""",
    "multi hook all": """
a, b = x * w, x + w
report = lambda gs: say([None if g is None else g.sum().item() for g in gs])
h = G.register_multi_grad_hook((a, b, x), report)
say(type(h).__mro__[1].__name__)
a.sum().backward(retain_graph=True)
(a.sum() + b.sum()).backward(retain_graph=True)
a.sum().backward(inputs=[w], retain_graph=True)
h.remove()
a.sum().backward()
""",
    "multi hook any": """
a, b = x * w, x + w
h = G.register_multi_grad_hook((a, b), lambda g: say(g.sum().item()), mode="any")
(a.sum() + b.sum() * 2).backward(retain_graph=True)
b.sum().backward()
""",
    "multi hook mode": """
G.register_multi_grad_hook((x,), lambda g: None, mode="one")
""",
    "multi hook plain": """
G.register_multi_grad_hook((torch.ones(2),), lambda g: None)
""",
    "allow mutation": """
with G.allow_mutation_on_saved_tensors() as ctx:
    a = x.clone()
    out = (a ** 2).sum()
    a.sin_()
    say(len(ctx.cloned), len(ctx.original))
    out.backward()
say(x.grad, len(ctx.cloned))
""",
    "allow mutation of a view": """
with G.allow_mutation_on_saved_tensors() as ctx:
    a = x.clone()
    v = a.view(3, 1)
    out = (v * v).sum()
    a.mul_(5)
    a.zero_()
    out.backward()
say(x.grad)
""",
    "allow mutation nested": """
with G.allow_mutation_on_saved_tensors():
    with G.allow_mutation_on_saved_tensors():
        pass
""",
    "allow mutation outside": """
with G.allow_mutation_on_saved_tensors():
    a = x.clone()
    out = (a ** 2).sum()
    a.sin_()
out.backward()
""",
    "increment_version": """
t = torch.ones(2)
G.increment_version(t)
say(t._version)
G.increment_version([t, t])
say(t._version)
y = x * w
G.increment_version(x)
y.sum().backward()
""",
    "preserve version": """
t = torch.ones(2)
with torch.autograd._unsafe_preserve_version_counter(t):
    t.add_(1)
    t.mul_(2)
say(t._version, t)
u = torch.ones(2)
with torch.autograd._unsafe_preserve_version_counter((t, u)):
    t.add_(1)
    u.add_(1)
say(t._version, u._version)
""",
    "gradient edge": """
y = x * w
e = G.get_gradient_edge(y)
say(type(e).__name__, e._fields[:2], e.node is y.grad_fn, e.output_nr)
f = G.get_gradient_edge(x)
say(f.node.name())
say(torch.autograd.grad(y.sum(), f), torch.autograd.grad((y * 2).sum(), e))
y = x * w
torch.autograd.backward([G.get_gradient_edge(y)], [torch.ones(3)])
say(x.grad)
G.get_gradient_edge(torch.ones(2))
""",
    "save_on_cpu": """
with G.save_on_cpu():
    y = (x * w).square().sum()
y.backward()
say(x.grad)
with G.save_on_cpu(pin_memory=False, device_type="cuda"):
    (x * w).sum().backward()
""",
    "disable hooks": """
with G.disable_saved_tensors_hooks("not here"):
    say((x * w).sum().item())
    with G.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass
""",
    "disable inside": """
with G.saved_tensors_hooks(lambda t: t, lambda t: t):
    with G.disable_saved_tensors_hooks("no"):
        pass
""",
    "hooks wrong output": """
with G.saved_tensors_hooks(lambda t: t, lambda t: "a"):
    y = x * w
y.sum().backward()
""",
    "vjp alone": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t
    @staticmethod
    def vjp(ctx, g):
        t, = ctx.saved_tensors
        return 2 * t * g
F.apply(x).sum().backward()
say(x.grad)
""",
    "vjp and backward": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
    @staticmethod
    def vjp(ctx, g):
        return g
    @staticmethod
    def backward(ctx, g):
        return g
F.apply(x).sum().backward()
""",
    "no backward": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
F.apply(x).sum().backward()
""",
    "no forward": """
class F(torch.autograd.Function):
    @staticmethod
    def backward(ctx, g):
        return g
F.apply(x)
""",
    "instantiated": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
f = F()
say(type(f).__name__)
f(x)
""",
    "legacy forward": """
class F(torch.autograd.Function):
    def forward(self, t):
        return t * t
    def backward(self, g):
        return g
F()(x)
""",
    "legacy forward applied": """
class F(torch.autograd.Function):
    def forward(self, t):
        return t * t
    def backward(self, g):
        return g
F.apply(x).sum().backward()
say(x.grad)
""",
    "function meta": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
    @staticmethod
    def backward(ctx, g):
        return g
say(type(F).__name__, F._backward_cls.__name__, F._backward_cls._forward_cls is F)
y = F.apply(x)
n = y.grad_fn
say(n.name(), type(n).__name__, isinstance(n, F._backward_cls), n.apply(torch.ones(3)))
say([c.__name__ for c in type(n).__mro__][:2], n.needs_input_grad)
say(n.saved_tensors, n.dirty_tensors, n.non_differentiable, n.to_save)
""",
    "raw saved tensors": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t, None)
        return t * t
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
y = F.apply(x)
raw = y.grad_fn._raw_saved_tensors
say(len(raw), type(raw[0]).__name__)
raw[0].register_hooks(lambda t: t * 3, lambda t: t)
y.sum().backward()
say(x.grad)
y.grad_fn._raw_saved_tensors
""",
    "function saved freed": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
y = F.apply(x)
y.sum().backward()
y.grad_fn.saved_tensors
""",
    "saved_variables": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * t
    @staticmethod
    def backward(ctx, g):
        say(len(ctx.saved_variables))
        return g
F.apply(x).sum().backward()
""",
    "mark_shared_storage": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.mark_shared_storage((t, t))
        return t * t
    @staticmethod
    def backward(ctx, g):
        return g
F.apply(x)
""",
    "save non-tensor": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t, 5)
        return t * t
    @staticmethod
    def backward(ctx, g):
        return g
F.apply(x)
""",
    "gradients too many": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
    @staticmethod
    def backward(ctx, g):
        return g, g
F.apply(x).sum().backward()
""",
    "gradients too few": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, u):
        return t * u
    @staticmethod
    def backward(ctx, g):
        return g
F.apply(x, w).sum().backward()
""",
    "gradient no tensor": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
    @staticmethod
    def backward(ctx, g):
        return 5
F.apply(x).sum().backward()
""",
    "gradient of a wrong shape": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
    @staticmethod
    def backward(ctx, g):
        return torch.ones(5)
F.apply(x).sum().backward()
""",
    "apply keywords": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(t, k=2):
        return t * k
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None
F.apply(x).sum().backward()
say(x.grad)
class H(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, k=2):
        return t * k
    @staticmethod
    def backward(ctx, g):
        return g, None
H.apply(x, k=3)
""",
    "vmap of a function": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(t):
        return t * 2
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, g):
        return g * 2
torch.vmap(F.apply)(x)
""",
    "vmap by generate_vmap_rule": """
class F(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(t):
        return t * 2
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, g):
        return g * 2
say(torch.vmap(F.apply)(x))
""",
    "vmap by a rule": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(t):
        return t * 2
    @staticmethod
    def setup_context(ctx, inputs, output):
        pass
    @staticmethod
    def backward(ctx, g):
        return g * 2
    @staticmethod
    def vmap(info, in_dims, t):
        say(info.batch_size, info.randomness, in_dims)
        return F.apply(t), in_dims[0]
say(torch.vmap(F.apply)(x))
""",
    "vmap without setup_context": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
torch.vmap(F.apply)(x)
""",
    "once_differentiable": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * t
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g * 2
g, = torch.autograd.grad(F.apply(x).sum(), x, create_graph=True)
say(g.requires_grad)
y = F.apply(x)
g, = torch.autograd.grad(y, x, torch.ones(3, requires_grad=True), create_graph=True)
g.sum().backward()
""",
    "old variants": """
f = torch.autograd.function
say(issubclass(f.InplaceFunction, f.Function), issubclass(f.NestedIOFunction, f.Function))
say(f.InplaceFunction.__init__.__defaults__, f.FunctionMeta.__name__)
say(sorted(n for n in dir(f) if n[0] != "_" and isinstance(getattr(f, n), type) and "unction" in n))
""",
    "removable handle": """
from collections import OrderedDict
import pickle
h = torch.utils.hooks.RemovableHandle
d, e = OrderedDict(), OrderedDict()
a = h(d, extra_dict=[e])
d[a.id] = e[a.id] = 1
b = pickle.loads(pickle.dumps(a))
say(b.id == a.id, len(b.extra_dict_ref))
with a:
    say(len(d), len(e))
say(len(d), len(e))
a.remove()
say(h(d).id > a.id, h.next_id > a.id)
""",
    "unserializable hook": """
@torch.utils.hooks.unserializable_hook
def hook(g):
    return g
say(hook.__torch_unserializable__)
t = torch.ones(2, requires_grad=True)
t.register_hook(hook)
torch.utils.hooks.warn_if_has_hooks(t)
t.register_hook(lambda g: g)
torch.utils.hooks.warn_if_has_hooks(t)
say(len(t._backward_hooks))
""",
    "no hooks to warn of": """
torch.utils.hooks.warn_if_has_hooks(torch.ones(2))
say(torch.ones(2)._backward_hooks, x._backward_hooks)
""",
    "save with hooks": """
import io
x.register_hook(lambda g: g)
torch.save(x, io.BytesIO())
""",
    "backward hook class": """
seen = []
def hook(m, gi, go):
    seen.append((gi[0].sum().item(), go[0].sum().item()))
def pre(m, go):
    return (go[0] * 2,)
module = torch.nn.Identity()
b = torch.utils.hooks.BackwardHook(module, [hook], [pre])
args = b.setup_input_hook((x, 5))
say(args[0].grad_fn.name(), args[1], b.input_tensors_index, b.n_inputs)
out = b.setup_output_hook(args[0] * 3)
say(out.grad_fn.name(), b.output_tensors_index, b.n_outputs)
out.sum().backward()
say(seen, x.grad, b.grad_outputs)
""",
    "backward hook wrong length": """
b = torch.utils.hooks.BackwardHook(torch.nn.Identity(), [lambda m, i, o: (o[0], o[0])], [])
out = b.setup_output_hook(b.setup_input_hook((x,))[0] * 3)
out.sum().backward()
""",
    "backward pre hook wrong length": """
b = torch.utils.hooks.BackwardHook(torch.nn.Identity(), [], [lambda m, o: (o[0], o[0])])
out = b.setup_output_hook(b.setup_input_hook((x,))[0] * 3)
out.sum().backward()
""",
    "legacy module hook": """
m = torch.nn.Linear(3, 2)
with torch.no_grad():
    m.weight.fill_(2)
shapes = lambda grads: [tuple(g.shape) for g in grads]
m.register_backward_hook(lambda mod, gi, go: say(shapes(gi), shapes(go)))
m(x[None]).sum().backward()
""",
    "legacy hook of several outputs": """
class M(torch.nn.Module):
    def forward(self, t):
        return t * 2, t * 3
m = M()
m.register_backward_hook(lambda mod, gi, go: None)
a, b = m(x)
(a.sum() + b.sum()).backward()
""",
    "legacy hook of several nodes": """
class M(torch.nn.Module):
    def forward(self, t):
        return (t * 2).exp()
m = M()
m.register_backward_hook(lambda mod, gi, go: say(len(gi), len(go)))
m(x).sum().backward()
""",
    "legacy hook of two inputs": """
class M(torch.nn.Module):
    def forward(self, t, u):
        return t * u
m = M()
m.register_backward_hook(lambda mod, gi, go: say(len(gi), len(go)))
m(x, w).sum().backward()
""",
    "legacy hook of a dict": """
class M(torch.nn.Module):
    def forward(self, t):
        return {"a": t * 2}
m = M()
m.register_backward_hook(lambda mod, gi, go: say(len(gi), len(go)))
m(x)["a"].sum().backward()
""",
    "both kinds of hooks": """
m = torch.nn.Linear(3, 2)
m.register_full_backward_hook(lambda *a: None)
m.register_backward_hook(lambda *a: None)
""",
    "both kinds of hooks reversed": """
m = torch.nn.Linear(3, 2)
m.register_backward_hook(lambda *a: None)
m.register_full_backward_hook(lambda *a: None)
""",
    "full hook without inputs": """
m = torch.nn.Linear(3, 2)
m.register_full_backward_hook(lambda mod, gi, go: say(gi, tuple(go[0].shape)))
m(torch.ones(1, 3)).sum().backward()
""",
    "global module hooks": """
module = torch.nn.modules.module
h = module.register_module_backward_hook(lambda mod, gi, go: say(type(mod).__name__, len(gi)))
relu = torch.nn.ReLU()
relu(x).sum().backward()
h.remove()
h = module.register_module_full_backward_hook(lambda mod, gi, go: say(type(mod).__name__, len(gi)))
relu(x).sum().backward()
h.remove()
""",
    "inference in place": """
with torch.inference_mode():
    t = torch.ones(3)
t.add_(1)
""",
    "inference saved": """
with torch.inference_mode():
    t = torch.ones(3)
say((x + t).requires_grad)
x * t
""",
    "inference version": """
with torch.inference_mode():
    t = torch.ones(3)
say(t.is_inference())
t._version
""",
    "inference view": """
with torch.inference_mode():
    t = torch.ones(3)
v = t[:2]
say(v.is_inference(), t.clone().is_inference())
v.mul_(2)
""",
    "inference requires grad": """
with torch.inference_mode():
    t = torch.ones(3)
    say(t.requires_grad_().requires_grad, (t * 2).requires_grad)
u = torch.ones(3)
with torch.inference_mode():
    u.add_(1)
    say(u._version, u.is_inference())
t.detach().requires_grad_()
""",
    "inference set data": """
with torch.inference_mode():
    t = torch.ones(3)
p = torch.nn.Parameter(torch.ones(3))
p.data = t
say(p.is_inference())
""",
    "inference out": """
with torch.inference_mode():
    t = torch.ones(3)
torch.add(torch.ones(3), 1, out=t)
""",
    "inference copy": """
with torch.inference_mode():
    t = torch.ones(3)
    t[0] = 2
    say(t)
u = torch.zeros(3)
u.copy_(t)
say(u, u._version)
torch.autograd.graph.increment_version(t)
""",
    "inference backward": """
with torch.inference_mode():
    y = (x * 2).sum()
say(y.requires_grad, y.grad_fn)
y.backward()
""",
    "non-leaf grad": """
y = x * 2
y.grad
y.retain_grad()
y.sum().backward()
say(y.grad, y.retains_grad)
""",
    "anomaly": """
with torch.autograd.detect_anomaly():
    y = (x * 0).sqrt() * 0
    y.sum().backward()
""",
    "anomaly set": """
torch.autograd.set_detect_anomaly(True)
say(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
torch.autograd.set_detect_anomaly(False, check_nan=False)
say(torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
torch.autograd.set_detect_anomaly(False)
""",
    "create_graph warning": """
(x * x).sum().backward(create_graph=True)
say(x.grad.requires_grad)
x.grad = None
""",
    "hook order": """
y = x * 2
log = []
y.register_hook(lambda g: log.append("tensor"))
y.retain_grad()
y.grad_fn.register_prehook(lambda g: log.append("pre"))
y.grad_fn.register_hook(lambda i, o: log.append("post"))
x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
x.register_hook(lambda g: log.append("leaf"))
y.sum().backward()
say(log)
""",
    "hook of wrong type": """
x.register_hook(lambda g: "a")
(x * 2).sum().backward()
""",
    "hook of wrong size": """
def hook(g):
    return torch.ones(5)
x.register_hook(hook)
(x * 2).sum().backward()
""",
    "node hooks replace": """
y = x * 2
y.grad_fn.register_hook(lambda i, o: (i[0] * 10, i[1]) if len(i) > 1 else (i[0] * 10,))
y.grad_fn.register_prehook(lambda o: (o[0] * 3,))
y.sum().backward()
say(x.grad)
""",
    "leaf node hooks": """
a = (x * 2).grad_fn.next_functions[0][0]
a.register_hook(lambda i, o: say("post", i, o))
a.register_prehook(lambda o: (o[0] * 3,))
(x * 2).sum().backward()
say(x.grad)
""",
    "register hook dict": """
y = x * 2
y.grad_fn._register_hook_dict(1)
""",
    "split outputs": """
a, b = x[:2].split(1)
say(a.grad_fn.name(), a.output_nr, b.output_nr)
""",
    "grad mode classes": """
with torch.autograd.grad_mode.set_grad_enabled(False):
    say((x * 2).requires_grad)
with torch.autograd.forward_ad.dual_level():
    say(torch.autograd.forward_ad.unpack_dual(x).tangent)
torch.autograd.set_multithreading_enabled(False)
say(torch.autograd.is_multithreading_enabled())
torch.autograd.set_multithreading_enabled(True)
say(torch.autograd.is_view_replay_enabled())
""",
}
FAMILIES = {"graphs": list(PROGRAMS)}


def words(text: str) -> str:
    """A text without what changes from run to run."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text.replace("tritorch", "torch"))
    text = re.sub(r"<class '[^']*\.(\w+)'>", r"<class '\1'>", text)
    return re.sub(r"file://\S+|https?://\S+", "URL", text)


def run_one(torch, program: str) -> list[str]:
    """What a program says, the warnings that it meets, and the error that it ends in."""
    said: list[str] = []
    space = {"torch": torch, "say": lambda *values: said.append(words(" ".join(map(str, values))))}
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(HEAD + program, space)
        except Exception as error:
            first = words(str(error)).partition("\n")[0][:160]
            said.append(f"{type(error).__name__}: {first}")
    for each in caught:
        first = " ".join(words(str(each.message)).split()[:8])
        said.append(f"{each.category.__name__}: {first}")
    return said


def run(torch, family: str):
    """(name, what it said) of each program."""
    for name, program in PROGRAMS.items():
        yield name, run_one(torch, program)
