"""Observers: ranges, scales and zero points, states, TorchScript."""

import io
import warnings

import numpy as np
import pytest

import tritorch as torch
from tritorch.ao.quantization import (
    FixedQParamsObserver,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    NoopObserver,
    PerAxis,
    PerChannelMinMaxObserver,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    PlaceholderObserver,
    RecordingObserver,
    get_block_size,
    get_observer_state_dict,
    load_observer_state_dict,
    observer as observers,
)

X = torch.tensor([[-1.0, 2.0, 0.5], [0.25, -3.0, 1.0]])


def qparams(observer, *tensors):
    for x in tensors:
        assert observer(x) is x
    scale, zero_point = observer.calculate_qparams()
    return scale.tolist(), zero_point.tolist()


def test_affine_range_holds_zero_and_ends():
    scale, zero = qparams(MinMaxObserver(), X, X + 2)
    assert scale == pytest.approx([(4.0 + 3.0) / 255]) and zero == [round(3 / (7 / 255))]
    assert qparams(MinMaxObserver(), X.abs() + 1)[1] == [0]  # the range begins at 0


@pytest.mark.parametrize(
    ("settings", "scale", "zero"),
    [
        ({"dtype": torch.qint8}, 3 / 127.5, 0),
        ({"dtype": torch.quint8}, 3 / 127.5, 128),
        ({"dtype": torch.quint8, "quant_min": 0, "quant_max": 127}, 3 / 63.5, 63),
        ({"dtype": torch.uint16}, 3 / (65535 / 2), 2**15),
    ],
)
def test_symmetric_zero_points(settings, scale, zero):
    found = qparams(MinMaxObserver(qscheme=torch.per_tensor_symmetric, **settings), X)
    assert found == (pytest.approx([scale]), [zero])


def test_moving_average():
    observer = MovingAverageMinMaxObserver(averaging_constant=0.5)
    observer(X), observer(X * 3)
    assert observer.min_val.item() == -6.0 and observer.max_val.item() == 4.0
    last = MovingAverageMinMaxObserver(averaging_constant=1, is_dynamic=True)
    last(X), last(X * 3)
    assert last.max_val.item() == 6.0
    with pytest.raises(NotImplementedError, match="averaging constant of 0.01"):
        MovingAverageMinMaxObserver(is_dynamic=True)


def test_channels():
    observer = PerChannelMinMaxObserver(ch_axis=1, dtype=torch.qint8)
    observer(X)
    assert observer.min_val.tolist() == [-1.0, -3.0, 0.5]
    observer(X - 1)
    assert observer.min_val.tolist() == [-2.0, -4.0, -0.5]
    moving = MovingAveragePerChannelMinMaxObserver(averaging_constant=0.25, ch_axis=0)
    moving(X), moving(X * 5)
    assert moving.max_val.tolist() == [4.0, 2.0]
    scale, zero = qparams(
        PerChannelMinMaxObserver(qscheme=torch.per_channel_affine_float_qparams), X
    )
    assert scale == pytest.approx([3 / 255, 4 / 255])
    assert zero == pytest.approx([1 / (3 / 255), 3 / (4 / 255)])


def test_reduced_range_halves_the_integers():
    with pytest.warns(UserWarning, match="reduce_range will be deprecated"):
        observer = MinMaxObserver(reduce_range=True)
    assert (observer.quant_min, observer.quant_max) == (0, 127)
    with pytest.warns(UserWarning), pytest.raises(NotImplementedError, match="reduce range"):
        MinMaxObserver(reduce_range=True, qscheme=torch.per_tensor_symmetric)


def test_nothing_observed():
    for observer in (MinMaxObserver(), PerChannelMinMaxObserver(), HistogramObserver()):
        with pytest.warns(UserWarning, match="must run observer before"):
            scale, zero = observer.calculate_qparams()
        assert scale.tolist() == [1.0] and zero.tolist() == [0]
        observer(torch.empty(0, 3))  # nothing again
    with pytest.raises(AssertionError, match="must include 0"):
        MinMaxObserver(quant_min=3, quant_max=9)
    with pytest.raises(AssertionError, match="data type"):
        MinMaxObserver(dtype=torch.float32)
    with pytest.raises(NotImplementedError, match="only support"):
        PerChannelMinMaxObserver(qscheme=torch.per_tensor_affine)


def mean_error(x, scale, zero, low, high):
    q = np.clip(np.rint(x / scale) + zero, low, high)
    return np.mean((x - (q - zero) * scale) ** 2)


def test_histogram_cuts_outliers_off():
    r = np.random.default_rng(0)
    x = r.standard_normal(4000).astype("float32")
    x[0], x[1] = 60.0, -50.0
    observer, whole = HistogramObserver(), MinMaxObserver()
    (scale,), (zero,) = qparams(observer, torch.from_numpy(x))
    assert observer.histogram.sum().item() == 4000
    (wide,), (its_zero,) = qparams(whole, torch.from_numpy(x))
    assert scale < wide
    inner = x[2:]
    assert mean_error(inner, scale, zero, 0, 255) < mean_error(inner, wide, its_zero, 0, 255)


def test_histogram_search_is_the_stepwise_one():
    """Beside the search that goes one step of 1e-5 at a time."""
    from tritorch.ao.quantization._histogram import best_range, quantization_error

    r = np.random.default_rng(3)
    for bins in (20, 60):
        h = torch.from_numpy(np.sort(r.integers(0, 40, bins)).astype("float32") ** 2)
        sums, total = h.cumsum(0).numpy(), np.float32(h.sum().item())
        alpha, beta, start, end, least = 0.0, 1.0, 0, bins - 1, float("inf")
        while alpha < beta:
            a, b = alpha + 1e-5, beta - 1e-5
            left, right = start, end
            while left < end and sums[left] < np.float32(a * float(total)):
                left += 1
            while right > start and sums[right] > np.float32(b * float(total)):
                right -= 1
            moved = (left, end) if left - start > end - right else (start, right)
            alpha, beta = (a, beta) if left - start > end - right else (alpha, b)
            if moved == (start, end):
                continue
            error = quantization_error(h, -1.0, 3.0, *moved, 16)
            if error > least:
                break
            least, (start, end) = error, moved
        assert best_range(h, -1.0, 3.0, 16) == (start, end)


def test_histogram_grows_with_the_range():
    observer = HistogramObserver(bins=8)
    observer(torch.arange(9.0))
    first = observer.histogram.clone()
    observer(torch.tensor([-8.0, 16.0]))
    assert (observer.min_val.item(), observer.max_val.item()) == (-8.0, 16.0)
    assert observer.histogram.sum().item() == pytest.approx(first.sum().item() + 2)
    one = HistogramObserver(bins=4)
    one(torch.full((5,), 2.0)), one(torch.tensor([0.0, 4.0]))
    assert one.histogram.tolist() == [1.0, 0.0, 5.0, 1.0]
    with pytest.warns(UserWarning, match=r"torch.inf detected"):
        observer(torch.tensor([float("inf"), 1.0]))
    assert observer.max_val.item() == 16.0


def test_states_of_other_shapes_and_versions():
    source, target = PerChannelMinMaxObserver(), PerChannelMinMaxObserver()
    source(X)
    target.load_state_dict(source.state_dict())
    assert target.min_val.tolist() == source.min_val.tolist()
    old = {"min_vals": source.min_val, "max_vals": source.max_val, "eps": source.eps}
    state = type(source.state_dict())(old)
    state._metadata = {"": {"version": 2}}
    target = PerChannelMinMaxObserver()
    target.load_state_dict(state, strict=False)
    assert target.max_val.tolist() == source.max_val.tolist()
    histogram = HistogramObserver(bins=4)
    state = histogram.state_dict()
    assert state._metadata[""]["version"] == 3
    state["min_val"], state["max_val"] = torch.empty(0), torch.empty(0)
    state._metadata[""]["version"] = 2
    histogram.load_state_dict(state)
    assert histogram.min_val.item() == float("inf")


def test_observer_state_dict_of_a_model():
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
    for part in model:
        part.activation_post_process = MinMaxObserver()
    model[0].activation_post_process(X)
    state = get_observer_state_dict(model)
    assert len(state) == 6 and all("activation_post_process" in key for key in state)
    model[0].activation_post_process = MinMaxObserver()
    load_observer_state_dict(model, state)
    assert model[0].activation_post_process.min_val.item() == -3.0


def test_partial_constructors():
    made = MinMaxObserver.with_args(dtype=torch.qint8).with_args(eps=0.5)
    assert made().dtype is torch.qint8 and made(dtype=torch.quint8).dtype is torch.quint8
    calls = []
    late = MinMaxObserver.with_callable_args(factory_kwargs=lambda: calls.append(1) or {})
    late(), late(factory_kwargs=None)
    assert calls == [1]
    assert "MinMaxObserver" in repr(made)
    assert observers.default_weight_observer().qscheme is torch.per_tensor_symmetric


def test_observers_without_statistics():
    for observer in (NoopObserver(), PlaceholderObserver(), RecordingObserver()):
        assert observer(X) is X
        with pytest.raises(Exception, match=f"not be called for {type(observer).__name__}"):
            observer.calculate_qparams()
    record = RecordingObserver()
    record(X)
    assert torch.equal(record.get_tensor_value()[0], X)
    fixed = FixedQParamsObserver(0.5, 3)
    assert qparams(fixed, X) == ([0.5], [3])
    with pytest.warns(UserWarning, match="is_dynamic"):
        PlaceholderObserver(compute_dtype=torch.quint8)


@pytest.mark.parametrize(
    "make",
    [
        MinMaxObserver,
        MovingAverageMinMaxObserver,
        PerChannelMinMaxObserver,
        MovingAveragePerChannelMinMaxObserver,
        HistogramObserver,
    ],
)
def test_scripted_observers_see_the_same(make):
    plain = make(dtype=torch.qint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(make(dtype=torch.qint8))
        for x in (X, X * 2 - 1):
            plain(x), scripted(x)
        assert scripted.calculate_qparams()[0].tolist() == plain.calculate_qparams()[0].tolist()
        file = io.BytesIO()
        torch.jit.save(scripted, file)
        file.seek(0)
        loaded = torch.jit.load(file)
    for ours, theirs in zip(plain.calculate_qparams(), loaded.calculate_qparams()):
        assert torch.equal(ours, theirs)


def test_block_sizes():
    assert get_block_size((2, 3, 4), PerTensor()) == (2, 3, 4)
    assert get_block_size((2, 3, 4), PerAxis(1)) == (2, 1, 4)
    assert get_block_size((2, 3, 4), PerRow()) == get_block_size((2, 3, 4), PerToken())
    assert get_block_size((8, 16), PerGroup(4)) == (1, 4)
    with pytest.raises(AssertionError, match="2 for per group"):
        get_block_size((8, 16, 2), PerGroup(4))
    assert PerAxis(0) == PerAxis(0) != PerAxis(1)


def test_classes_are_known_by_public_modules():
    for name in ("MinMaxObserver", "HistogramObserver", "_PartialWrapper", "PerAxis"):
        assert getattr(observers, name).__module__.endswith("ao.quantization.observer")


def test_bins_and_bounds_are_rounded_as_pytorchs():
    f = np.float32
    low, high, bins = f(-30.878740310668945), f(30.31460952758789), 2048
    x = (np.random.default_rng(0).standard_normal(20000) * 9).astype(f)
    x = x[(x >= low) & (x <= high)]
    place = ((x - low) * f(bins) / (high - low)).astype(np.int64)
    exact = ((x.astype(float) - low) / (float(high) - low) * bins).astype(np.int64)
    assert (place != exact).any()
    found = torch.histc(torch.from_numpy(x), bins, min=float(low), max=float(high))
    wanted = np.bincount(np.minimum(place, bins - 1), minlength=bins)
    assert np.array_equal(found.numpy(), wanted)
    line = torch.linspace(float(low), float(high), 16 * bins + 1).numpy()
    half = np.arange(8 * bins)
    step = (high - low) / f(16 * bins)
    assert np.array_equal(line[half], (float(low) + float(step) * half).astype(f))
    assert line[-1] == high
