"""Random numbers: factories, samplers in place, rrelu."""

from __future__ import annotations

import math
from typing import Any

from tritorch import _C
from tritorch.arrays import arrays
from tritorch.arrays.meta import MetaArray
from tritorch.autograd.graph import check_inplace
from tritorch.core import defaults, layout as layouts, published
from tritorch.core.arguments import type_name
from tritorch.core.device import device as Device
from tritorch.core.dispatching import asked, entered, watching
from tritorch.core.dtype import bool_, dtype, float32, int64
from tritorch.core.generator import Generator, default_for
from tritorch.core.info import finfo, iinfo
from tritorch.core.promotion import category, not_implemented, scalar_name
from tritorch.core.published import PUBLIC
from tritorch.core.tensor import Tensor, attach
from tritorch.ops.interpret.vmap import active
from tritorch.ops.pointwise import arithmetic
from tritorch.ops.random import randomness
from tritorch.ops.random.integer_bounds import between, most
from tritorch.ops.record.backends import backend
from tritorch.ops.record.checks import (
    broadcast_shapes,
    looks_at_values,
    one_of,
    refuse_where,
    require_distinct_elements,
    require_int,
    require_kernel,
    require_known,
    require_options,
    require_out,
    require_storage,
    sizes,
)
from tritorch.ops.record.ends import ends_as, ends_with
from tritorch.ops.record.groups import Gradient, Rules
from tritorch.ops.record.maker import Maker
from tritorch.ops.record.operator import Operator, laid_out
from tritorch.ops.record.outputs import cpp_name, exact_out
from tritorch.ops.record.publishing import functional, public, write_out
from tritorch.ops.record.writing import differentiated, in_place
from tritorch.ops.shape.copying import write_array, written, zeros_of
from tritorch.ops.shape.factory import _check_shape, as_leaf, place


def source_for(generator: Generator | None, device: Any) -> Generator:
    """The generator given, or the device's default one."""
    source = generator or default_for(device)
    if device.backend != "meta" and source.device.type != device.type:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found '{source.device.type}'"
        )
    return source


class Drawn(int):
    """A number of a generator's place, while records' calls are noted: told from others."""


class _Reserve:
    """What stands for a record where a GPU's numbers are reserved."""

    name, kind, is_view, flushes = "reserve", "random", False, False


RESERVE = _Reserve()


def reserve(device: Device, count: int) -> tuple[int, int]:
    """Reserves numbers of a GPU's default generator: (seed, offset)."""
    if device.backend == "meta":
        numbers = (0, 0)
    else:
        numbers = default_for(device).draw(count)
    if not watching or entered.note is None:
        return numbers
    seed, offset = Drawn(numbers[0]), Drawn(numbers[1])
    entered.note("draw", RESERVE, (), (device, count), (seed, offset))
    return seed, offset


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
    if device.backend == "meta":
        return _undrawn(name, device, shape, *rest)
    if device.backend == "cpu":
        return getattr(backend("cpu", "random"), name)(source.native, shape, *rest)
    sizes = shape if isinstance(shape, tuple) else tuple(getattr(shape, "shape", (shape,)))
    count = math.prod(sizes)
    if name == "multinomial" and rest[0] > sizes[-1]:  # it draws more than there are weights
        count = math.prod(sizes[:-1]) * rest[0]
    seed, offset = source.draw(count)
    return getattr(backend("gpu", "random"), name)((seed, offset, device.index), shape, *rest)


def _undrawn(name: str, device: Device, shape: Any, *rest: Any) -> MetaArray:
    """What would be drawn, without memory."""
    if name == "multinomial":
        return shape.new((*shape.shape[:-1], rest[0]), int64)
    if type(shape) is MetaArray:
        return shape.new(shape.shape)
    return MetaArray((shape,) if isinstance(shape, int) else shape, rest[0], None, device)


def _maker(
    name: str, backend: str, bounds: tuple[Any, ...] = (), params: str = "", filled_by: str = "",
    **schema: str,
) -> Maker:  # fmt: skip
    """A factory's record: what it draws, and with which of the backend's params."""

    def make(size: Any, *rest: Any) -> Any:
        *given, kind, device, generator = rest
        return sample(backend, generator, device, size, kind, *(given or bounds))

    head = f"{params}, " if params else ""
    text = (
        f"{schema['overload']}({head}size, dtype=kind, device=device, **_with(generator=generator))"
    )
    return Maker(
        name,
        f"size {params.replace(',', '')} kind device generator",
        make,
        schema=text,
        kind="random",
        filled_by=filled_by,
    )


_OF_GENERATOR = "{'' if generator is None else '.generator'}"
_MAKERS = {
    "uniform": _maker(
        "rand", "uniform", (0.0, 1.0), filled_by="uniform_", overload=f"rand{_OF_GENERATOR}"
    ),
    "standard_normal": _maker(
        "randn", "normal", (0.0, 1.0), filled_by="normal_", overload=f"randn{_OF_GENERATOR}"
    ),
    "normal": _maker("normal", "normal", params="mean, std", overload="normal.float_float"),
    "randint": _maker(
        "randint", "randint", params="low, high",
        overload="randint.low{'' if generator is None else '_generator'}",
    ),
}  # fmt: skip


def _drawn(
    name: str, generator: Generator | None, device: Any, shape: Any, like: Tensor | None,
    kind: dtype, *params: Any,
) -> Tensor:  # fmt: skip
    """A new tensor of random numbers; on the CPU drawn in the order of another one's memory."""
    if (
        like is not None
        and device.backend == "cpu"
        and like.layout is layouts.strided
        and tuple(like.shape) == shape
        and not like.is_contiguous()
    ):
        return _in_place(published.public.empty_like(like, dtype=kind), name, generator, *params)
    if watching and (entered.modes or entered.note is not None):
        given = name if name != "normal" or params != (0.0, 1.0) else "standard_normal"
        numbers = params if given in ("normal", "randint") else ()
        return _MAKERS[given](shape, *numbers, kind, device, generator)
    return _C.wrap(sample(name, generator, device, shape, kind, *params))


def _finish(tensor: Tensor, requires_grad: bool, out: Any, pin: bool = False) -> Tensor:
    if pin:
        tensor = tensor.pin_memory()
    if out is not None:
        return write_out(tensor, out)
    return as_leaf(tensor) if requires_grad else tensor


def _drawn_like(
    input: Tensor, name: str, generator: Generator | None, kind: dtype, device: Any, format: Any,
    params: tuple[Any, ...], requires_grad: bool, pin: bool,
) -> Tensor:  # fmt: skip
    where = place(device or input.device)
    shape = tuple(input.shape)
    format = format or layouts.preserve_format
    if format is layouts.preserve_format and input.is_contiguous():
        out = _drawn(name, generator, where, shape, None, kind, *params)
    else:
        model = published.public.empty_like(input, dtype=kind, device=where, memory_format=format)
        out = _drawn(name, generator, where, shape, model, kind, *params)
        if where.backend != "cpu" and input.layout is layouts.strided:
            out = model.copy_(out)
    return _finish(out, requires_grad, None, pin)


def _answered_like(
    form: str, input: Tensor, kind: dtype | None, device: Any, requires_grad: bool, *rest: Any
) -> Tensor:
    """Numbers like a tensor, as modes and classes answer."""
    from tritorch.ops.interpret import dispatch

    named: dict[str, Any] = {} if kind is None else {"dtype": kind}
    named |= {} if device is None else {"device": place(device)}
    return _finish(dispatch.plainly(form, input, *rest, **named), requires_grad, None)


def _require_floats(name: str, kind: dtype) -> None:
    if category(kind) < 2 or kind.itemsize == 1:
        raise not_implemented(name, kind)


def _factory(name: str, backend: str, params: tuple[float, float], kernel: str) -> None:
    def function(
        *size: Any, generator: Generator | None = None, out: Tensor | None = None,
        dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, **named: Any,
    ) -> Tensor:  # fmt: skip
        shape = _check_shape(sizes(one_of(name, size, named, "size"), name))
        require_options(name, dtype, layout, requires_grad, pin_memory)
        if out is not None:
            require_out(name, out, dtype, layout, device)
        kind = dtype or (out.dtype if out is not None else defaults.dtype())
        _require_floats(kernel, kind)
        where = place(out.device if out is not None and device is None else device)
        drawn = _drawn(backend, generator, where, shape, out, kind, *params)
        return _finish(drawn, requires_grad, out, pin_memory)

    def like(
        input: Tensor, *, dtype: dtype | None = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
        generator: Generator | None = None,
    ) -> Tensor:  # fmt: skip
        require_options(f"{name}_like", dtype, layout, requires_grad, pin_memory, memory_format)
        if (watching or type(input) is not Tensor) and asked(input):
            return _answered_like(f"{name}_like", input, dtype, device, requires_grad)
        kind = dtype or input.dtype
        _require_floats(kernel, kind)
        return _drawn_like(
            input,
            backend,
            generator,
            kind,
            device,
            memory_format,
            params,
            requires_grad,
            pin_memory,
        )

    function.__name__, like.__name__ = name, f"{name}_like"
    function.__doc__ = f"A tensor of random numbers ({backend})."
    like.__doc__ = f"{name}, of another tensor's shape, dtype and device."
    PUBLIC[name], PUBLIC[f"{name}_like"] = function, like


_factory("rand", "uniform", (0.0, 1.0), "check_uniform_bounds")
_factory("randn", "normal", (0.0, 1.0), "normal_kernel_cpu")


def _bounds(values: list[Any], named: dict[str, Any]) -> tuple[Any, Any]:
    """randint's low and high, of which low may be left out."""
    if "low" in named:
        return named["low"], named.get("high", values[0] if values else None)
    if "high" in named:
        return (values[0] if values else 0), named["high"]
    return (0, values[0]) if len(values) == 1 else (values[0], values[1])


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
    wanted = 1 + ("size" not in named) - ("high" in named)
    if not wanted <= len(values) <= wanted + ("low" not in named):
        raise TypeError(
            "randint() received an invalid combination of arguments - got "
            f"({', '.join(map(type_name, values))}), but expected one of:\n"
            " * (int high, tuple of ints size)\n * (int low, int high, tuple of ints size)\n"
        )
    size = named.get("size") if "size" in named else values.pop()
    low, high = _bounds(values, named)
    kind = dtype or (out.dtype if out is not None else int64)
    low, high = between(int(low), int(high), kind)
    where = place(out.device if out is not None and device is None else device)
    shape = _check_shape(sizes((size,)))
    return _finish(
        _drawn("randint", generator, where, shape, out, kind, low, high), requires_grad, out
    )


@public(method=False)
def randint_like(
    input: Tensor, *args: Any, dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None, **named: Any,
) -> Tensor:  # fmt: skip
    """randint, of another tensor's shape, dtype and device."""
    require_known("randint_like", named, "low", "high", "generator")
    require_options("randint_like", dtype, layout, requires_grad, pin_memory, memory_format)
    kind, generator = dtype or input.dtype, named.pop("generator", None)
    low, high = _bounds(list(args), named)
    if (watching or type(input) is not Tensor) and asked(input):
        ends = (int(low), int(high)) if low else (int(high),)
        form = "randint_like.low_dtype" if low else "randint_like"
        return _answered_like(form, input, dtype, device, requires_grad, *ends)
    params = between(int(low), int(high), kind)
    return _drawn_like(
        input, "randint", generator, kind, device, memory_format, params, requires_grad, pin_memory
    )


_randperm = Maker(
    "randperm", "n kind device generator",
    lambda n, kind, device, generator: sample("randperm", generator, device, n, kind),
    schema=f"randperm{_OF_GENERATOR}(n, dtype=kind, device=device, **_with(generator=generator))",
    kind="random",
)  # fmt: skip


@public(method=False)
def randperm(
    n: int, *, generator: Generator | None = None, out: Tensor | None = None, dtype: dtype = int64,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """0 .. n - 1 in random order."""
    require_options("randperm", dtype, layout, requires_grad, pin_memory)
    require_int("randperm", "n", 1, n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    require_storage((n,))
    kind = out.dtype if out is not None else dtype
    if category(kind) == 1 and n - 1 > iinfo(kind).max:
        raise RuntimeError(f"value cannot be converted to type {kind.name}_t without overflow")
    bits = {"float16": 11, "float32": 24, "float64": 53}.get(kind.name)
    if bits is not None and n > 2**bits + 1:
        most = 2**11 + 1 if bits == 11 else f"2^{bits}+1"
        raise RuntimeError(f"n cannot be greater than {most} for {scalar_name(kind)} type.")
    where = place(out.device if out is not None and device is None else device)
    return _finish(_randperm(int(n), kind, where, generator), requires_grad, out)


@looks_at_values
def _no_deviation(std: Tensor) -> Tensor:
    return ~(std >= 0)


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
        where, shape = place(device), _check_shape(sizes((size,)))
        drawn = _drawn("normal", generator, where, shape, out, kind, float(mean), float(std))
        return _finish(drawn, requires_grad, out)
    tensors = [v for v in (mean, std) if isinstance(v, Tensor)]
    if isinstance(std, Tensor):
        if std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        text = "normal expects all elements of std >= 0.0"
        refuse_where(_no_deviation, (std,), RuntimeError, text)
    else:
        _check_std(std)
    if not tensors:
        raise TypeError("normal() expects a tensor or a size")
    shape = broadcast_shapes(*(t.shape for t in tensors))
    kind, where = tensors[0].dtype, tensors[0].device
    if isinstance(std, Tensor):
        drawn = _drawn("normal", generator, where, shape, out, kind, 0.0, 1.0) * std.detach()
    else:
        drawn = _drawn("normal", generator, where, shape, out, kind, 0.0, float(std))
    if not isinstance(mean, Tensor):
        mean = float(kind.numpy.type(mean))  # rounded, as all that is added
    drawn = drawn + (mean.detach() if isinstance(mean, Tensor) else mean)
    if drawn.dtype is not kind:
        drawn = drawn.to(kind)
    if differentiated(mean, std) and out is None:
        given = [v if isinstance(v, Tensor) else None for v in (mean, std)]
        kinds = ("Tensor" if v is not None else "float" for v in given)
        drawn = _of_parameters.call((*given, drawn), ())
        return ends_as(f"normal.{'_'.join(kinds)}", drawn)
    return drawn if out is None else write_out(drawn, out)


def _zeros_of(g: Tensor, shape: Any) -> Tensor:
    return g.new_zeros(shape)


# A sample as it is; that parameters have gradients, of zeros, is all that autograd has of it.
_of_parameters = Operator(
    "drawn_by", "a b sample",
    schema="(Tensor? a, Tensor? b, Tensor sample) -> Tensor", kind="internal",
    cpu=lambda a, b, sample: sample, gpu=lambda a, b, sample: sample,
    grad=(lambda g, a_shape: _zeros_of(g, a_shape), lambda g, b_shape: _zeros_of(g, b_shape)),
    rules=Rules(infer=lambda a, b, sample: sample),
)  # fmt: skip


def _check_std(std: float) -> None:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


# ---- in place ------------------------------------------------------------------------------------


def _filled(name: str, params: str = "", schema: str = "", node: str = "") -> Operator:
    """The record of a form that overwrites a tensor with random numbers."""
    text = schema or f"{name}(self, {params}, generator=generator)"
    return Operator(
        name, "self", f"{params.replace(',', '')} generator",
        schema=text, kind="in_place", grad=Gradient(zeros_of, node=node),
        rules=Rules(axes="...->..."),
    )  # fmt: skip


# By the backend's name of the distribution.
_FILLS = {
    "uniform": _filled("uniform_", "low, high"),
    "normal": _filled("normal_", "mean, std"),
    "exponential": _filled("exponential_", "lambd"),
    "cauchy": _filled("cauchy_", "median, sigma"),
    "geometric": _filled("geometric_", "p"),
    "log_normal": _filled("log_normal_", "mean, std"),
    "random": _filled("random_", "most", "random_(self, generator=generator)", "Random2"),
    "randint": _filled(
        "random_from_", "low, high", "random_.from(self, low, high, generator=generator)",
        "Random0",
    ),
    "randint_to": _filled(
        "random_to_", "high", "random_.to(self, high, generator=generator)", "Random1"
    ),
    "coins": _filled(
        "bernoulli_", "p", "bernoulli_.float(self, p, generator=generator)", "Bernoulli2"
    ),
}  # fmt: skip
_bernoulli_by = Operator(
    "bernoulli_by_", "self p", "generator",
    schema="bernoulli_.Tensor(self, p, generator=generator)", kind="in_place",
    grad=Gradient((zeros_of, None), node="Bernoulli1"), rules=Rules(axes="...,...->..."),
)  # fmt: skip


def _in_place(
    self: Tensor, name: str, generator: Generator | None, *params: Any, to: bool = False
) -> Tensor:
    """Overwrites a tensor; to: of integers, the bound below was not given."""
    check_inplace(self)
    require_distinct_elements(self)
    if active.levels:
        draw = lambda shape: _sample(name, generator, self.device, shape, self.dtype, *params)
        write = lambda: randomness.overwrite(self._array, draw, tuple(self.shape))
    elif self.device.backend == "cpu" and self.layout is layouts.strided:
        native, fill = source_for(generator, self.device).native, backend("cpu", "random").fill
        write = lambda: fill(native, name, self._array, self.dtype, *params)
    else:
        draw = lambda shape: _sample(name, generator, self.device, shape, self.dtype, *params)
        write = lambda: write_array(self._array, draw(tuple(self.shape)))
    record, said = (_FILLS["randint_to"], params[1:]) if to else (_FILLS[name], params)
    return in_place(record, self, (*said, generator), (self,), write)


def uniform_(self: Tensor, *args: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Uniform in [from, to)."""
    require_known("uniform_", named, "from", "to")
    low = args[0] if args else named.get("from", 0.0)
    high = args[1] if len(args) > 1 else named.get("to", 1.0)
    _require_floats("check_uniform_bounds", self.dtype)
    most = finfo(self.dtype).max
    for name, bound in (("from", low), ("to", high)):
        if not -most <= bound <= most:
            raise RuntimeError(f"{name} is out of bounds for {cpp_name(self.dtype)}")
    if high - low > most:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{scalar_name(self.dtype)}>::max(), "
            f"but found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )
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
    _require_floats("normal_kernel_cpu", self.dtype)
    return _in_place(self, "normal", generator, float(mean), float(std))


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Exponentially distributed."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _require_floats("exponential_kernel_cpu", self.dtype)
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
    _require_floats("log_normal_kernel_cpu", self.dtype)
    return _in_place(self, "log_normal", generator, float(mean), float(std))


def random_(self: Tensor, *args: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Integers in [from, to); all that the dtype holds exactly by default."""
    require_known("random_", named, "from", "to")
    if not args and not named:
        if self.is_complex():
            raise not_implemented("random_kernel_cpu", self.dtype)
        return _in_place(self, "random", generator, most(self.dtype))
    low = named.get("from", args[0] if len(args) > 1 else 0)
    high = named.get("to", args[-1] if args else None)
    low, high = between(int(low), None if high is None else int(high), self.dtype)
    to = low == 0 and high is not None and len(args) < 2 and "from" not in named
    return _in_place(self, "randint", generator, low, high, to=to)


for _method in (uniform_, normal_, exponential_, cauchy_, geometric_, log_normal_, random_):
    setattr(Tensor, _method.__name__, _method)

# ---- draws ---------------------------------------------------------------------------------------


def _check_probabilities(p: Tensor) -> None:
    if p.is_cpu:
        text = "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
        refuse_where(_no_probability, (p,), RuntimeError, text)


@looks_at_values
def _no_probability(p: Tensor) -> Tensor:
    return ~((p >= 0) & (p <= 1))


@public(out=True)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with probability input (or p), else 0."""
    if p is not None:
        like = published.public.empty_like(input, memory_format=layouts.contiguous_format)
        return like.bernoulli_(p, generator=generator)
    if not input.is_floating_point():
        raise not_implemented("bernoulli_tensor_cpu_p_", input.dtype)
    _check_probabilities(input)
    if asked(input) or entered.note is not None:
        drawn = _bernoulli.call((input.detach(),), (generator,))
    else:
        drawn = _C.wrap(sample("bernoulli", generator, input.device, input._array, input.dtype))
    if not differentiated(input):
        return drawn
    return ends_as("bernoulli", _of_parameters.call((input, None, drawn), ()))


def _coins(p: Any, generator: Generator | None) -> Any:
    return sample("bernoulli", generator, arrays.device_of(p), p, arrays.dtype_of(p))


_bernoulli = Operator(
    "bernoulli", "p", "generator",
    schema="bernoulli(p, generator=generator)", kind="random", cpu=_coins, gpu=_coins,
    rules=Rules(infer=lambda p, generator: p.new(p.shape), axes="...->..."),
)  # fmt: skip


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with probability p, else 0."""
    if not isinstance(p, Tensor):
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
        return _in_place(self, "coins", generator, float(p))
    _check_probabilities(p)
    chances = p.to(self.device).expand(self.shape)._array
    if self.device.backend == "cpu" and not active.levels:
        check_inplace(self)
        require_distinct_elements(self)
        native, fill = (
            source_for(generator, self.device).native,
            backend("cpu", "random").fill_bernoulli,
        )
        write = lambda: fill(native, self._array, self.dtype, chances)
    else:
        array = sample("bernoulli", generator, self.device, chances, self.dtype)
        put = randomness.overwrite_with if active.levels else write_array
        write = lambda: put(self._array, array)
    return in_place(_bernoulli_by, self, (generator,), (self, p.detach()), write)


attach(bernoulli_=bernoulli_)


@looks_at_values
def _no_weight(weights: Tensor) -> Tensor:
    return ~(weights.isfinite() & (weights >= 0))


@looks_at_values
def _all_zero(weights: Tensor) -> Tensor:
    return weights.amax(-1) == 0


@public(out=True)
@exact_out("multinomial expects Long tensor out, got: {Out}")
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
    if input.numel() and input.is_cpu:
        text = "probability tensor contains either `inf`, `nan` or element < 0"
        refuse_where(_no_weight, (input,), RuntimeError, text)
        text = "invalid multinomial distribution (sum of probabilities <= 0)"
        refuse_where(_all_zero, (input,), RuntimeError, text)
    params = (int(num_samples), bool(replacement), generator)
    if asked(input) or entered.note is not None:
        return _multinomial.call((input.detach(),), params)
    return _C.wrap(_picked(input._array, *params))


def _picked(weights: Any, count: int, replacement: bool, generator: Generator | None) -> Any:
    where = arrays.device_of(weights)
    return sample("multinomial", generator, where, weights, count, replacement)


_multinomial = Operator(
    "multinomial", "weights", "count replacement generator",
    schema="multinomial(weights, count, replacement, generator=generator)", kind="random",
    cpu=_picked, gpu=_picked,
    rules=Rules(
        infer=lambda weights, count, *rest: _undrawn(
            "multinomial", weights.device, weights, count),
    ),
)  # fmt: skip


# ---- rrelu ---------------------------------------------------------------------------------------


def _slopes(x: Any, lower: float, upper: float, generator: Any = None) -> Any:
    """What rrelu multiplies negative elements by.  The CPU draws for those alone."""
    where = arrays.device_of(x)
    if where.backend == "cpu" and not active.levels:
        return sample("slopes", None, where, x, lower, upper)
    return sample("uniform", None, where, tuple(x.shape), arrays.dtype_of(x), lower, upper)


def _like_slopes(x: MetaArray, *params: Any) -> MetaArray:
    narrow = x.dtype.itemsize < 4 and x.device.type == "cpu"
    return x.new(x.shape, float32 if narrow else x.dtype)


_drawn_slopes = Operator(
    "rrelu_slopes", "x", "lower upper generator",
    schema="(Tensor x, float lower, float upper, Generator? generator) -> Tensor", kind="internal",
    cpu=_slopes, gpu=_slopes, rules=Rules(infer=_like_slopes),
)  # fmt: skip


def _sloped(x: Tensor, slope: Tensor) -> Tensor:
    """Slopes of narrow types are wider: a product is rounded once."""
    return arithmetic.where(x <= 0, (x * slope).to(x.dtype), x)


_rrelu, _rrelu_ = (
    Operator(
        name, "x slope",
        schema="(Tensor x, Tensor slope) -> Tensor", composed=_sloped,
        grad=Gradient(grad, node="RreluWithNoise" + "1" * (name[-1] == "_")), layout="row-major",
        rules=Rules(axes="...,...->...")
    )
    for name, grad in (
        ("rrelu", lambda g, x, slope: laid_out(
            "row-major", arithmetic.where(x <= 0, (g * slope).to(g.dtype), g)
        )),
        ("rrelu_", lambda g, out, slope: arithmetic.where(out <= 0, (g * slope).to(g.dtype), g)),
    )
)  # fmt: skip


@functional
@ends_with("rrelu_with_noise")
def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False,
          inplace: bool = False) -> Tensor:  # fmt: skip
    """leaky_relu with a random slope in training, the mean slope otherwise."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        out = published.functional.leaky_relu(input, (lower + upper) / 2, inplace=inplace)
        return ends_as("rrelu_with_noise_", out) if inplace else laid_out("row-major", out)
    require_kernel("rrelu_with_noise_out_cpu", input, "bool int float16 complex")
    if watching and entered.note is not None:
        slope = _drawn_slopes.call((input.detach(),), (float(lower), float(upper), None))
    else:
        slope = _C.wrap(_slopes(input.detach()._array, lower, upper))
    return written(_rrelu_, input, (), slope) if inplace else _rrelu.call((input, slope), ())


@functional
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3,
           training: bool = False) -> Tensor:  # fmt: skip
    """rrelu in place."""
    return rrelu(input, lower, upper, training, True)


PUBLIC["rrelu"], PUBLIC["rrelu_"] = rrelu, rrelu_
