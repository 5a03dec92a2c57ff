"""Names that projects import from PyTorch's private files: wrappers, exports, modes, timers."""

import pytest

import tritorch as torch
from tritorch._dynamo.utils import disable_cache_limit
from tritorch._inductor import utils
from tritorch._inductor.runtime import benchmarking, hints, runtime_utils
from tritorch._library.triton import is_wrap_triton_enabled, set_wrap_triton_enabled
from tritorch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from tritorch.utils._debug_mode import DebugMode, get_active_debug_mode

# ---- wrappers of modules -------------------------------------------------------------------------


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x, *, scale=1.0):
        self.calls += 1
        return torch.relu(self.linear(x)) * scale


@pytest.mark.parametrize("impl", list(CheckpointImpl))
def test_checkpoint_wrapper(impl):
    plain = Counting()
    wrapped = checkpoint_wrapper(plain, impl)
    x = torch.randn(2, 3, requires_grad=True)
    expected = torch.autograd.grad(plain(x, scale=2.0).sum(), (x, *plain.parameters()))
    plain.calls = 0
    wrapped(x, scale=2.0).sum().backward()
    assert plain.calls == 2  # once forwards, once again
    for found, wanted in zip((x.grad, *(p.grad for p in plain.parameters())), expected):
        torch.testing.assert_close(found, wanted)
    assert wrapped.calls == 2  # attributes are those of the module inside
    assert [name for name, _ in wrapped.named_parameters()] == ["linear.weight", "linear.bias"]
    assert list(wrapped.state_dict()) == list(plain.state_dict())
    wrapped.load_state_dict({name: v + 1 for name, v in plain.state_dict().items()})
    Counting().load_state_dict(wrapped.state_dict())


def test_offload_wrapper():
    plain = torch.nn.Linear(3, 3)
    x = torch.randn(2, 3)
    assert offload_wrapper(plain)(x).equal(plain(x))


def test_apply_activation_checkpointing():
    shared = torch.nn.ReLU()
    model = torch.nn.Sequential(
        torch.nn.Sequential(torch.nn.Linear(3, 3), shared), torch.nn.Linear(3, 2), shared
    )
    names = list(model.state_dict())
    apply_activation_checkpointing(
        model, check_fn=lambda m: isinstance(m, (torch.nn.Linear, torch.nn.ReLU))
    )
    assert not isinstance(model[0], CheckpointWrapper)
    assert all(isinstance(m, CheckpointWrapper) for m in (model[0][0], model[0][1], model[1]))
    assert model[2] is model[0][1]
    assert list(model.state_dict()) == names
    model(torch.randn(4, 3)).sum().backward()

    asked = []

    def policy(module, recurse, nonwrapped_numel):
        asked.append((type(module).__name__, recurse, nonwrapped_numel))
        return recurse or nonwrapped_numel > 10

    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    apply_activation_checkpointing(model, auto_wrap_policy=policy)
    assert isinstance(model[0], CheckpointWrapper) and not isinstance(model[1], CheckpointWrapper)
    assert ("Linear", False, 12) in asked and ("Sequential", False, 20) not in asked


# ---- compilers -----------------------------------------------------------------------------------


def test_export_of_functions_and_modules():
    def function(x, y, scale=2.0):
        return (x @ y).relu() * scale

    x, y = torch.randn(2, 3), torch.randn(3, 4)
    graph, guards = torch._dynamo.export(function)(x, y)
    assert graph(x, y).equal(function(x, y)) and guards == set()
    tall = torch.randn(7, 3)
    assert graph(tall, y).equal(function(tall, y))
    fixed = torch._dynamo.export(function, tracing_mode="real")(x, y).graph_module
    with pytest.raises(AssertionError):
        fixed(tall, y)
    model = torch.nn.Linear(3, 2)
    for target in (model, model.forward):
        made = torch._dynamo.export(target, tall).graph_module
        assert made(tall).equal(model(tall)) and len(list(made.parameters())) == 2


def test_limits_and_switches():
    config = torch._dynamo.config
    before = config.recompile_limit
    with disable_cache_limit():
        assert config.recompile_limit > 2**60 and config.accumulated_recompile_limit > 2**60
    assert config.recompile_limit == before
    with set_wrap_triton_enabled(False):
        assert not is_wrap_triton_enabled()
    assert is_wrap_triton_enabled()


def test_timers():
    x = torch.ones(8)
    assert utils.do_bench(lambda: x + 1, 1, 2) > 0
    timer = benchmarking.benchmarker
    assert timer.benchmark(torch.add, (x, x), {}, warmup=1, rep=2) > 0
    assert timer.benchmark(lambda: x + 1, device="cpu", warmup=1, rep=2) > 0
    with pytest.raises(ValueError, match="infer the device type"):
        timer.benchmark(lambda: x + 1)


@pytest.mark.device
def test_devices():
    x = torch.ones(8, device="cuda")
    assert benchmarking.benchmarker.benchmark(torch.add, (x, x), {}, warmup=1, rep=2) >= 0
    assert utils.do_bench_using_profiling(lambda: x + 1, 1, 2) >= 0
    found = hints.DeviceProperties.create(x.device)
    count = torch.cuda.get_device_properties(0).multi_processor_count
    assert found.multi_processor_count == count
    assert utils.is_big_gpu(0) == (count >= 68)
    assert not utils.is_cpu_device([x]) and utils.is_gpu("cuda") and not utils.is_gpu("cpu")


def test_sizes_and_folders(monkeypatch, tmp_path):
    numbers = range(1, 40)
    powers = [1, 2, 4, 8, 16, 32, 64]
    assert [runtime_utils.next_power_of_2(n) for n in numbers] == [
        min(p for p in powers if p >= n) for n in numbers
    ]
    assert [runtime_utils.last_power_of_2(n) for n in numbers] == [
        max(p for p in powers if p <= n) for n in numbers
    ]
    assert [n for n in numbers if runtime_utils.is_power_of_2(n)] == powers[:-1]
    assert [utils.ceildiv(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert runtime_utils.get_num_bytes(torch.ones(4), torch.ones(2), num_in_out_args=1) == 40
    monkeypatch.setenv("TRITORCH_CACHE_DIR", str(tmp_path))
    from tritorch.triton import cache

    written = {}
    with utils.fresh_cache(written):
        assert cache.root() != tmp_path
        cache.root().mkdir()
        (cache.root() / "kernel").write_bytes(b"abc")
    assert cache.root() == tmp_path and list(written.values()) == [3]


# ---- device functions ----------------------------------------------------------------------------


@pytest.mark.device
def test_triton_helpers():
    import triton
    import triton.language as tl

    from tritorch._inductor.runtime import triton_helpers as helpers

    @triton.jit
    def kernel(x_ptr, i_ptr, out_ptr, index_ptr, N: tl.constexpr):
        places = tl.arange(0, N)
        x = tl.load(x_ptr + places)
        i = tl.load(i_ptr + places)
        tl.store(out_ptr, helpers.max2(x, 0))
        tl.store(out_ptr + 1, helpers.min2(x, 0))
        tl.store(out_ptr + 2, helpers.prod(x, 0))
        _, place = helpers.max_with_index(x, places, 0)
        tl.store(index_ptr, place)
        _, place = helpers.min_with_index(x, places, 0)
        tl.store(index_ptr + 1, place)
        tl.store(index_ptr + 2 + places, helpers.div_floor_integer(i, -3))
        tl.store(index_ptr + 2 + N + places, helpers.remainder_integer(i, -3))
        mean, m2, weight = helpers.welford(x, tl.zeros_like(x), tl.full((N,), 1.0, tl.float32), 0)
        tl.store(out_ptr + 3, mean)
        tl.store(out_ptr + 4, m2 / weight)

    helpers.set_driver_to_gpu()
    n = 8
    i = torch.arange(-4, 4)
    for x in (torch.randn(n), torch.tensor([1.0, float("nan"), 3.0, 3.0, -1.0, -1.0, 0.0, 2.0])):
        out = torch.empty(5, device="cuda")
        index = torch.empty(2 + 2 * n, dtype=torch.int64, device="cuda")
        kernel[(1,)](x.cuda(), i.cuda(), out, index, N=n)
        expected = torch.stack([x.max(), x.min(), x.prod(), x.mean(), x.var(correction=0)])
        torch.testing.assert_close(out.cpu(), expected, equal_nan=True)
        assert index[:2].tolist() == [x.argmax(), x.argmin()]
        assert index[2 : 2 + n].tolist() == [k // -3 for k in i.tolist()]
        assert index[2 + n :].tolist() == [k % -3 for k in i.tolist()]


# ---- operators that are written down -------------------------------------------------------------


def test_debug_mode():
    x = torch.ones(2, 3, requires_grad=True)
    with DebugMode() as mode:
        assert get_active_debug_mode() is mode
        (x @ x.t()).relu().sum().backward()
    assert get_active_debug_mode() is None
    lines = mode.debug_string().splitlines()
    assert lines[:3] == [
        "    aten::t(t: f32[2, 3])  ->  t: f32[3, 2]",
        "    aten::mm(t: f32[2, 3], t: f32[3, 2])  ->  t: f32[2, 2]",
        "    aten::relu(t: f32[2, 2])  ->  t: f32[2, 2]",
    ]
    assert any("threshold_backward" in line for line in lines)
    assert mode.operators[0].op is torch.ops.aten.t.default


def test_debug_mode_shows_modules_functions_and_numbers():
    model = torch.nn.Linear(3, 2)
    x = torch.ones(2, 3)
    with DebugMode(
        record_torchfunction=True, record_nn_module=True, record_ids=True, store_original_args=True
    ) as mode:
        y = model(x)
    text = mode.debug_string()
    assert text.startswith("    [nn.Mod] Linear\n    torch.nn.functional.linear(t$0: f32[2, 3], ")
    assert "\n        aten::linear(t$0: " in text and text.count("->  t$3: f32[2, 2]") == 2
    assert mode.logs[-1].args[0] is x and mode.logs[-1].output is y
    with DebugMode(record_stack_trace=True, record_output=False) as mode:
        model(x)
    first, second = mode.debug_string().splitlines()
    assert "test_projects_ask.py" in first and "model(x)" in first and "->" not in second


def test_debug_mode_asks_hooks():
    with DebugMode() as mode, DebugMode.log_tensor_hashes(), DebugMode.record_outputs():
        x = torch.ones(2) + 1
        x.add_(1)
    assert [call.log for call in mode.logs] == [{"hash": 2.0}, {"hash": 4.0}, {"hash": 6.0}]
    assert mode.logs[1].record["output"].tolist() == [2, 2]
    for recorded, texts in ((False, []), (True, ["ft: f32[2]"])):
        with torch._subclasses.FakeTensorMode():
            x = torch.ones(2)
            with DebugMode(record_faketensor=recorded) as mode:
                x.cos()
        assert [call.args_str for call in mode.logs] == texts


@pytest.mark.device
def test_accelerator_s_random_numbers():
    state = torch.accelerator.get_rng_state()
    first = torch.rand(3, device="cuda")
    torch.accelerator.set_rng_state(state)
    assert torch.rand(3, device="cuda").equal(first)


def test_cuda_source_is_refused_with_the_reason():
    with pytest.raises(RuntimeError, match="takes NVRTC to compile"):
        torch.cuda._compile_kernel('extern "C" __global__ void f() {}', "f")


def test_unsafe_index_is_indexing():
    x = torch.arange(6.0).view(2, 3)
    found = torch.ops.aten._unsafe_index.Tensor(x, [None, torch.tensor([0, 2])])
    assert found.tolist() == [[0, 2], [3, 5]]
