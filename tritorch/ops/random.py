"""Random numbers: factories, samplers in place, rrelu."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.autograd.graph import check_inplace
from tritorch.core import defaults, layout as layouts
from tritorch.core.dtype import bool_, dtype, int64
from tritorch.core.generator import Generator, default_for
from tritorch.core.promotion import category
from tritorch.core.tensor import Tensor
from tritorch.ops import randomness
from tritorch.ops.activation import functional
from tritorch.ops.backends import backend
from tritorch.ops.careful import active
from tritorch.ops.checks import (
    not_implemented,
    one_of,
    require_distinct_elements,
    require_known,
    require_options,
    sizes,
)
from tritorch.ops.copying import write_array, zeros_of
from tritorch.ops.declare import PUBLIC, Operator, in_place, public, write_out
from tritorch.ops.factory import _check_shape, place


def source_for(generator: Generator | None, device: Any) -> Generator:
    """The generator given, or the device's default one."""
    source = generator or default_for(device)
    if source.device.type != device.type:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found '{source.device.type}'"
        )
    return source


def sample(name: str, generator: Generator | None, device: Any, shape: Any, *rest: Any) -> Any:
    """An array from a random backend; `shape` may be an array of parameters."""
    if not active.levels:
        return _sample(name, generator, device, shape, *rest)
    draw = lambda given: _sample(name, generator, device, given, *rest)
    if isinstance(shape, (tuple, int)):
        return randomness.drawn(draw, shape)
    return randomness.drawn_for(draw, shape, 2 if name == "multinomial" else None)


def _sample(name: str, generator: Generator | None, device: Any, shape: Any, *rest: Any) -> Any:
    source = source_for(generator, device)
    if device.type == "cpu":
        with source._lock:
            return getattr(backend("cpu", "random"), name)(source.numpy, shape, *rest)
    count = (
        math.prod(shape)
        if isinstance(shape, tuple)
        else math.prod(getattr(shape, "shape", (shape,)))
    )
    seed, offset = source.draw(count)
    return getattr(backend("gpu", "random"), name)((seed, offset, device.index), shape, *rest)


def _finish(array: Any, requires_grad: bool, out: Any, pin: bool = False) -> Tensor:
    tensor = _C.wrap(array)
    if pin:
        tensor = tensor.pin_memory()
    if out is not None:
        return write_out(tensor, out)
    return tensor.requires_grad_(True) if requires_grad else tensor


def _factory(name: str, backend: str, params: tuple[float, float]) -> None:
    def function(
        *size: Any, generator: Generator | None = None, out: Tensor | None = None,
        dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, **named: Any,
    ) -> Tensor:  # fmt: skip
        shape = _check_shape(sizes(one_of(name, size, named, "size")))
        require_options(name, dtype, layout, requires_grad, pin_memory)
        for n in shape:
            if n < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension {n}: {list(shape)}"
                )
        kind = dtype or (out.dtype if out is not None else defaults.dtype())
        if category(kind) < 2:
            raise not_implemented(
                "check_uniform_bounds" if name == "rand" else "normal_kernel_cpu", kind
            )
        where = place(out.device if out is not None and device is None else device)
        return _finish(
            sample(backend, generator, where, shape, kind, *params), requires_grad, out, pin_memory
        )

    def like(
        input: Tensor, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
        generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        require_options(f"{name}_like", dtype, layout, requires_grad, pin_memory, memory_format)
        out = function(
            size=tuple(input.shape),
            dtype=dtype or input.dtype,
            device=device or input.device,
            generator=generator,
        )
        format = memory_format or layouts.preserve_format
        if input.layout is layouts.strided and not (
            format is layouts.preserve_format and input.is_contiguous()
        ):
            out = PUBLIC["empty_like"](input, dtype=out.dtype, memory_format=format).copy_(out)
        return out.requires_grad_(True) if requires_grad else out

    function.__name__, like.__name__ = name, f"{name}_like"
    function.__doc__ = f"A tensor of random numbers ({backend})."
    like.__doc__ = f"{name}, of another tensor's shape, dtype and device."
    PUBLIC[name], PUBLIC[f"{name}_like"] = function, like


_factory("rand", "uniform", (0.0, 1.0))
_factory("randn", "normal", (0.0, 1.0))


@public(method=False)
def randint(
    *args: Any, generator: Generator | None = None, out: Tensor | None = None,
    dtype: dtype | None = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False, **named: Any,
) -> Tensor:  # fmt: skip
    """Integers in [low, high)."""
    values = list(args)
    require_known("randint", named, "size", "low", "high")
    require_options("randint", dtype, layout, requires_grad, pin_memory)
    size = named.get("size") if "size" in named else values.pop()
    if "low" in named:
        low, high = named["low"], named.get("high", values[0] if values else None)
    elif "high" in named:
        low, high = (values[0] if values else 0), named["high"]
    else:
        low, high = (0, values[0]) if len(values) == 1 else (values[0], values[1])
    low, high = int(low), int(high)  # type: ignore[arg-type]
    if not -(2**63) <= low < 2**63 or not -(2**63) <= high < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    kind = dtype or (out.dtype if out is not None else int64)
    where = place(out.device if out is not None and device is None else device)
    return _finish(
        sample("randint", generator, where, _check_shape(sizes((size,))), kind, low, high),
        requires_grad,
        out,
    )


@public(method=False)
def randint_like(
    input: Tensor, *args: Any, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """randint, of another tensor's shape, dtype and device."""
    require_known("randint_like", named, "low", "high", "generator")
    require_options("randint_like", dtype, layout, requires_grad, pin_memory, memory_format)
    return randint(*args, size=tuple(input.shape), dtype=dtype or input.dtype,
                   device=device or input.device, requires_grad=requires_grad, **named)  # fmt: skip


@public(method=False)
def randperm(
    n: int, *, generator: Generator | None = None, out: Tensor | None = None, dtype: dtype = int64,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """0 .. n - 1 in random order."""
    require_options("randperm", dtype, layout, requires_grad, pin_memory)
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got{n}")
    kind = out.dtype if out is not None else dtype
    if (n > 2**24 and kind.name == "float32") or (n > 2**11 and kind.name == "float16"):
        raise RuntimeError(f"n cannot be greater than what {kind} can hold exactly")
    where = place(out.device if out is not None and device is None else device)
    return _finish(sample("randperm", generator, where, int(n), kind), requires_grad, out)


@public(method=False)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    out: Tensor | None = None, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Normally distributed, with means and standard deviations given by numbers or tensors."""
    if size is not None:
        kind = dtype or defaults.dtype()
        _check_std(std)
        return _finish(
            sample(
                "normal",
                generator,
                place(device),
                _check_shape(sizes((size,))),
                kind,
                float(mean),
                float(std),
            ),
            requires_grad,
            out,
        )
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    if isinstance(std, Tensor):
        if std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if std.numel() and not bool((std >= 0).all()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    else:
        _check_std(std)
    if not tensors:
        raise TypeError("normal() expects a tensor or a size")
    from tritorch.ops.checks import broadcast_shapes

    shape = broadcast_shapes(*(t.shape for t in tensors))
    kind = PUBLIC["result_type"](tensors[0], tensors[-1])
    noise = _C.wrap(sample("normal", generator, tensors[0].device, shape, kind, 0.0, 1.0))
    with_noise = noise * (std.detach() if isinstance(std, Tensor) else std) + (
        mean.detach() if isinstance(mean, Tensor) else mean
    )
    return with_noise if out is None else write_out(with_noise, out)


def _check_std(std: float) -> None:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


# ---- in place ------------------------------------------------------------------------------------

_overwrite = Operator("random_overwrite", "self", kind="in_place", grad=zeros_of)


def _in_place(self: Tensor, name: str, generator: Generator | None, *params: Any) -> Tensor:
    check_inplace(self)
    require_distinct_elements(self)
    draw = lambda shape: _sample(name, generator, self.device, shape, self.dtype, *params)
    if active.levels:
        write = lambda: randomness.overwrite(self._array, draw, tuple(self.shape))
    else:
        array = draw(tuple(self.shape))
        write = lambda: write_array(self._array, array)
    return in_place(_overwrite, self, (), (self,), write)


def _floats(name: str, x: Tensor) -> None:
    if category(x.dtype) < 2:
        raise not_implemented(name, x.dtype)


def uniform_(self: Tensor, *args: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Uniform in [from, to)."""
    require_known("uniform_", named, "from", "to")
    low = args[0] if args else named.get("from", 0.0)
    high = args[1] if len(args) > 1 else named.get("to", 1.0)
    _floats("check_uniform_bounds", self)
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}"
        )
    return _in_place(self, "uniform", generator, float(low), float(high))


def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Normally distributed."""
    _check_std(std)
    _floats("normal_kernel_cpu", self)
    return _in_place(self, "normal", generator, float(mean), float(std))


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Exponentially distributed."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _floats("exponential_kernel_cpu", self)
    return _in_place(self, "exponential", generator, float(lambd))


def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Cauchy distributed."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    if category(self.dtype) < 2:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be "
            f"a floating point but you specified {self.dtype}"
        )
    return _in_place(self, "cauchy", generator, float(median), float(sigma))


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """How many trials until the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    if self.dtype is bool_ or self.is_complex():
        raise not_implemented("geometric_kernel_cpu", self.dtype)
    return _in_place(self, "geometric", generator, float(p))


def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """exp of normally distributed."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    _floats("log_normal_kernel_cpu", self)
    return _in_place(self, "log_normal", generator, float(mean), float(std))


def random_(self: Tensor, *args: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Integers in [from, to); all that the dtype holds exactly by default."""
    require_known("random_", named, "from", "to")
    low = named.get("from", args[0] if len(args) > 1 else 0)
    high = named.get("to", args[-1] if args else None)
    if high is None:
        limits = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53, "bool": 1}
        from tritorch.core.info import iinfo

        top = limits.get(self.dtype.name)
        high = (top if top is not None else iinfo(self.dtype).max) + 1
        if self.dtype is int64:
            high = 2**63 - 1
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    return _in_place(self, "randint", generator, int(low), int(high))


for _method in (uniform_, normal_, exponential_, cauchy_, geometric_, log_normal_, random_):
    setattr(Tensor, _method.__name__, _method)

# ---- draws ---------------------------------------------------------------------------------------


def _check_probabilities(p: Tensor) -> None:
    p = _C.wrap(randomness.unwrap(p._array)[0])
    if p.numel() and not p.is_cuda and not bool(((p >= 0) & (p <= 1)).all()):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


@public(out=True)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with probability input (or p), else 0."""
    if p is not None:
        return PUBLIC["empty_like"](input).bernoulli_(p, generator=generator)
    if not input.is_floating_point():
        raise not_implemented("bernoulli_tensor_cpu_p_", input.dtype)
    _check_probabilities(input)
    return _C.wrap(sample("bernoulli", generator, input.device, input._array, input.dtype))


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p, else 0."""
    if isinstance(p, Tensor):
        _check_probabilities(p)
        probabilities = p.to(self.device).expand(self.shape)
    else:
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
        probabilities = PUBLIC["full"](tuple(self.shape), float(p), device=self.device)
    array = sample("bernoulli", generator, self.device, probabilities._array, self.dtype)
    put = randomness.overwrite_with if active.levels else write_array
    return in_place(_overwrite, self, (), (self,), lambda: put(self._array, array))


Tensor.bernoulli_ = bernoulli_  # type: ignore[attr-defined]


@public(out=True)
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Indices drawn by weights, from each row."""
    if input.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.is_floating_point():
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input.dtype}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    weights = _C.wrap(randomness.unwrap(input._array)[0])
    if weights.numel() and not weights.is_cuda:
        if not bool((weights.isfinite() & (weights >= 0)).all()):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if bool((weights.sum(-1) == 0).any()):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    return _C.wrap(
        sample(
            "multinomial",
            generator,
            input.device,
            input._array,
            int(num_samples),
            bool(replacement),
        )
    )


# ---- rrelu ---------------------------------------------------------------------------------------


@functional
def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:  # fmt: skip
    """leaky_relu with a random slope in training, the mean slope otherwise."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if training:
        slope: Any = _C.wrap(
            sample("uniform", None, input.device, tuple(input.shape), input.dtype, lower, upper)
        )
    else:
        slope = (lower + upper) / 2
    out = PUBLIC["where"](input >= 0, input, input * slope)
    return input.copy_(out) if inplace else out


@functional
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3,
           training: bool = False) -> Tensor:  # fmt: skip
    """rrelu in place."""
    return rrelu(input, lower, upper, training, True)


PUBLIC["rrelu"], PUBLIC["rrelu_"] = rrelu, rrelu_
_ = layouts
