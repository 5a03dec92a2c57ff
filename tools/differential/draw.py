"""Draws statements from templates: `{a} + {b}` with variables and numbers that mostly fit.

A template's placeholders are methods of `Draw`.  The first tensor that a template names is what the
others are chosen for: dims are its dims, partners broadcast with it, indices fit its dim.
"""

from __future__ import annotations

import math
import random
import re
from typing import Any

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "uint8", "int16", "int8")
COMPLEX = ("complex64", "complex128")
DTYPES = FLOATS + INTS + ("bool",) + COMPLEX
_WEIGHTS = (8, 4, 2, 3, 6, 2, 3, 1, 1, 4, 3, 1)
_NICE = (0.5, -1.25, 2.0, 1.0, -0.75, 3.0, 0.25, -2.0, 1.5, -0.5, 0.125, -3.5, 0.0)
_SPECIAL = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-3, -1.0, 1.0, 2.5, 0.5)
_PLACE = re.compile(r"\{(\w+)\}")
_SMALL = (1, 2, 2, 3, 3, 4)


class Draw:
    """One program that grows: its statements, and what its variables are in torch."""

    def __init__(self, rng: random.Random, torch: Any, *, grad: bool = False) -> None:
        self.rng = rng
        self.torch = torch
        self.grad = grad
        self.special = not grad and rng.random() < 0.15
        self.statements: list[str] = []
        self.tensors: dict[str, Any] = {}  # in torch, by name
        self.count = 0
        self.pending: list[str] = []  # statements that make what the drawn one uses
        # Programs of one dtype meet fast paths more often.
        self.main = rng.choice(("float32", "float64")) if grad else self._any_dtype()
        self.shape = self._shape()

    # ---- inputs -------------------------------------------------------------------------------

    def _any_dtype(self) -> str:
        return self.rng.choices(DTYPES, _WEIGHTS)[0]

    def _shape(self) -> tuple[int, ...]:
        rng = self.rng
        ndim = rng.choices((0, 1, 2, 3, 4), (1, 3, 6, 5, 2))[0]
        shape = [rng.choice(_SMALL) for _ in range(ndim)]
        if ndim and not self.grad and rng.random() < 0.04:
            shape[rng.randrange(ndim)] = 0
        return tuple(shape)

    def value(self, dtype: str) -> str:
        """A literal element."""
        rng = self.rng
        if dtype == "bool":
            return rng.choice(("True", "False"))
        if dtype in INTS:
            return str(rng.randint(0, 9) if dtype == "uint8" else rng.randint(-5, 9))
        if dtype in COMPLEX:
            return f"({rng.choice(_NICE)}{rng.choice(_NICE):+}j)"
        if self.grad:
            return str(round(rng.uniform(-2, 2), 3))
        number = rng.choice(_SPECIAL if self.special and rng.random() < 0.4 else _NICE)
        return str(number)

    def literal(self, shape: tuple[int, ...], dtype: str, leaf: bool = False) -> str:
        """Source of a new tensor."""
        values = ", ".join(self.value(dtype) for _ in range(math.prod(shape)))
        made = f"torch.tensor({values if not shape else f'[{values}]'}, dtype=torch.{dtype})"
        if len(shape) > 1 and self.grad and self.rng.random() < 0.7:
            made = f"{made}.reshape{shape}.clone()"
        elif len(shape) > 1:
            made += f".reshape{shape}"
        return made + (".requires_grad_()" if leaf else "")

    def new_name(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def new(self, shape: tuple[int, ...], dtype: str, leaf: bool = False) -> str:
        """A variable that a pending statement will bind to a new tensor."""
        name = self.new_name()
        leaf = leaf or (self.grad and dtype in FLOATS and self.rng.random() < 0.6)
        statement = f"{name} = {self.literal(shape, dtype, leaf)}"
        self.pending.append(statement)
        names = {"torch": self.torch, "nan": float("nan"), "inf": float("inf")}
        exec(statement, names)
        self.tensors[name] = names[name]
        return name

    # ---- tensors ------------------------------------------------------------------------------

    def pick(self, fits: Any, dtype: Any, shape: Any = None) -> str:
        """A variable that fits, or a new one; sometimes any variable."""
        rng = self.rng
        names = list(self.tensors)
        if names and rng.random() < 0.04 and not self.grad:
            return rng.choice(names)
        good = [name for name in names if fits(self.tensors[name])]
        if good and rng.random() < 0.85:
            # Late variables are more interesting.
            return good[-1] if rng.random() < 0.4 else rng.choice(good)
        return self.new(shape() if shape else self._shape(), dtype())

    def _first(self, name: str) -> str:
        if self.first is None:
            self.first = self.tensors[name]
            ndim = max(self.first.ndim, 1)
            self.dim = self.rng.randrange(ndim)
        return name

    def a(self) -> str:
        """Any tensor."""
        dtype = lambda: self.main if self.rng.random() < 0.6 else self._any_dtype()
        return self._first(self.pick(lambda t: True, dtype))

    def _of(self, kinds: tuple[str, ...]) -> str:
        fits = lambda t: str(t.dtype)[6:] in kinds
        dtype = lambda: self.main if self.main in kinds else self.rng.choice(kinds)
        return self._first(self.pick(fits, dtype))

    def f(self) -> str:
        """A floating-point tensor."""
        return self._of(FLOATS)

    def fc(self) -> str:
        return self._of(FLOATS + COMPLEX)

    def i(self) -> str:
        """An integer tensor."""
        return self._of(INTS)

    def c(self) -> str:
        return self._of(COMPLEX)

    def ib(self) -> str:
        return self._of((*INTS, "bool"))

    def bools(self) -> str:
        return self._of(("bool",))

    def num(self) -> str:
        """A tensor of numbers, not complex."""
        return self._of(FLOATS + INTS)

    def _with_dims(self, low: int, high: int = 9, kinds: tuple[str, ...] = DTYPES) -> str:
        fits = lambda t: low <= t.ndim <= high and str(t.dtype)[6:] in kinds
        rng = self.rng
        shape = lambda: tuple(rng.choice(_SMALL) for _ in range(rng.randint(low, min(high, 4))))
        dtype = lambda: self.main if self.main in kinds else rng.choice(kinds)
        return self._first(self.pick(fits, dtype, shape))

    def a1(self) -> str:
        """At least one dim."""
        return self._with_dims(1)

    def a2(self) -> str:
        return self._with_dims(2)

    def a3(self) -> str:
        return self._with_dims(3)

    def m(self) -> str:
        """A matrix."""
        return self._with_dims(2, 2)

    def vec(self) -> str:
        return self._with_dims(1, 1)

    def a4(self) -> str:
        return self._with_dims(4, 4)

    def f1(self) -> str:
        return self._with_dims(1, 9, FLOATS)

    def f2(self) -> str:
        return self._with_dims(2, 9, FLOATS)

    def fm(self) -> str:
        return self._with_dims(2, 2, FLOATS)

    def f3(self) -> str:
        """Three dims exactly."""
        return self._with_dims(3, 3, FLOATS)

    def f4(self) -> str:
        return self._with_dims(4, 4, FLOATS)

    def b(self) -> str:
        """A partner that broadcasts with the first, often of its dtype."""
        first, rng = self.first, self.rng
        own = str(first.dtype)[6:]

        def fits(t: Any) -> bool:
            if rng.random() < 0.5 and t.dtype != first.dtype:
                return False
            try:
                shape = self.torch.broadcast_shapes(t.shape, first.shape)
            except RuntimeError:
                return False
            return shape == first.shape or rng.random() < 0.3

        def shape() -> tuple[int, ...]:
            sizes = [1 if rng.random() < 0.2 else n for n in first.shape]
            return tuple(sizes[rng.choice((0, 0, 0, 1)) :])

        return self.pick(fits, lambda: own if rng.random() < 0.7 else self._any_dtype(), shape)

    b2 = b

    def same(self) -> str:
        """A partner of the first's shape and dtype."""
        first = self.first
        fits = lambda t: t.shape == first.shape and t.dtype == first.dtype
        return self.pick(fits, lambda: str(first.dtype)[6:], lambda: tuple(first.shape))

    def mask(self) -> str:
        first, rng = self.first, self.rng
        fits = lambda t: str(t.dtype) == "torch.bool" and t.shape == first.shape
        shape = lambda: tuple(1 if rng.random() < 0.15 else n for n in first.shape)
        return self.pick(fits, lambda: "bool", shape)

    def out(self) -> str:
        """Where a result of the first's dtype and shape may be written."""
        rng = self.rng
        dtype = self.first.dtype if rng.random() < 0.8 else f"torch.{self._any_dtype()}"
        if rng.random() < 0.3:
            return self.same()
        if rng.random() < 0.4:
            return f"torch.empty(0, dtype={dtype})"
        name = self.new_name()
        shape = tuple(self.first.shape)
        source = (
            f"torch.zeros({shape[::-1]}, dtype={dtype}).permute({tuple(range(len(shape)))[::-1]})"
        )
        if rng.random() < 0.5:
            source = f"torch.zeros({shape}, dtype={dtype})"
        self.pending.append(f"{name} = {source}")
        self.tensors[name] = eval(source, {"torch": self.torch})
        return name

    def outbool(self) -> str:
        return "torch.empty(0, dtype=torch.bool)" if self.rng.random() < 0.5 else self.out()

    def mm_partner(self) -> str:
        """A matrix that the first can be multiplied with."""
        first, rng = self.first, self.rng
        inner = first.shape[-1] if first.ndim else 2
        fits = lambda t: (
            t.dtype == first.dtype and t.ndim >= 1 and t.shape[-2 if t.ndim > 1 else 0] == inner
        )
        return self.pick(fits, lambda: str(first.dtype)[6:], lambda: (inner, rng.choice(_SMALL)))

    def like_t(self) -> str:
        """A tensor of the first's dtype whose last dim is the first's."""
        first, rng = self.first, self.rng
        inner = first.shape[-1] if first.ndim else 2
        fits = lambda t: t.dtype == first.dtype and t.ndim == 2 and t.shape[-1] == inner
        return self.pick(fits, lambda: str(first.dtype)[6:], lambda: (rng.choice(_SMALL), inner))

    def vec_last(self) -> str:
        first = self.first
        inner = first.shape[-1] if first.ndim else 2
        fits = lambda t: t.dtype == first.dtype and tuple(t.shape) == (inner,)
        return self.pick(fits, lambda: str(first.dtype)[6:], lambda: (inner,))

    def vec_dim(self) -> str:
        """A vector along the chosen dim."""
        first = self.first
        n = self._size()
        fits = lambda t: t.dtype == first.dtype and tuple(t.shape) == (n,)
        return self.pick(fits, lambda: str(first.dtype)[6:], lambda: (n,))

    def bm(self) -> str:
        """A batch of matrices for the first, a batch itself."""
        first, rng = self.first, self.rng
        b, k = (first.shape[0], first.shape[-1]) if first.ndim == 3 else (2, 2)
        fits = lambda t: t.dtype == first.dtype and t.ndim == 3 and t.shape[:2] == (b, k)
        return self.pick(fits, lambda: str(first.dtype)[6:], lambda: (b, k, rng.choice(_SMALL)))

    # ---- numbers, dims ------------------------------------------------------------------------

    def _size(self) -> int:
        return self.first.shape[self.dim] if self.first.ndim else 1

    def n(self) -> str:
        """A Python number, mostly of the first's category."""
        rng = self.rng
        kind = str(self.first.dtype)[6:] if self.first is not None else self.main
        if rng.random() < 0.75 and kind not in COMPLEX:
            return str(rng.randint(-3, 4)) if kind in INTS else str(rng.choice(_NICE))
        return rng.choice(("2", "-1", "0.5", "1.5", "3", "True", "-2.5", "0", "(1+0.5j)"))

    def x(self) -> str:
        """A real number that is not 0."""
        return self.rng.choice(("2", "3", "0.5", "1.5", "-2", "-0.25"))

    def pos(self) -> str:
        return self.rng.choice(("2", "1", "0.5", "1.5", "3"))

    def e(self) -> str:
        """An exponent."""
        return self.rng.choice(("2", "3", "0.5", "1", "0", "-1", "2.5", "-2.0"))

    def d(self) -> str:
        """The chosen dim."""
        ndim = max(self.first.ndim, 1)
        if self.rng.random() < 0.02 and not self.grad:
            return str(ndim + 1)
        return str(self.dim - ndim if self.rng.random() < 0.4 else self.dim)

    def e_dim(self) -> str:
        """A dim of the first; any."""
        ndim = max(self.first.ndim, 1)
        return str(self.rng.randrange(-ndim, ndim))

    def new_dim(self) -> str:
        return str(self.rng.randrange(-self.first.ndim - 1, self.first.ndim + 1))

    def dims(self) -> str:
        """A dim, several, or all."""
        rng, ndim = self.rng, max(self.first.ndim, 1)
        if rng.random() < 0.5:
            return self.d()
        chosen = rng.sample(range(ndim), rng.randint(1, ndim))
        return str(tuple(chosen)) if chosen and rng.random() < 0.85 else "None"

    def perm(self) -> str:
        order = list(range(self.first.ndim))
        self.rng.shuffle(order)
        return str(tuple(order))

    def keep(self) -> str:
        return self.rng.choice(("", "", ", keepdim=True"))

    def flag(self) -> str:
        return self.rng.choice(("True", "False"))

    def k(self) -> str:
        """A count that the chosen dim has."""
        return str(self.rng.randint(1, max(self._size(), 1)))

    def at(self) -> str:
        """A place in the chosen dim."""
        n = max(self._size(), 1)
        return str(self.rng.randrange(-n, n))

    def small(self) -> str:
        return str(self.rng.randint(-2, 3))

    def one(self) -> str:
        return str(self.rng.randint(1, 3))

    def shape_of(self) -> str:
        return str(tuple(self.first.shape))

    def shape_new(self) -> str:
        return str(self._shape())

    def shape_reshaped(self) -> str:
        """Another shape of the first's elements."""
        rng, n = self.rng, self.first.numel()
        choices = [(n,), (-1,), (1, n), (n, 1)] if n else [(n,), (0, 2)]
        for p in (2, 3, 4):
            if n and n % p == 0:
                choices += [(p, n // p), (n // p, p), (p, -1), (1, p, n // p)]
        return str(rng.choice(choices))

    def shape_expanded(self) -> str:
        rng = self.rng
        sizes = [
            rng.choice((2, 3)) if n == 1 and rng.random() < 0.7 else rng.choice((n, n, -1))
            for n in self.first.shape
        ]
        lead = [rng.choice((1, 2))] if rng.random() < 0.3 else []
        return str(tuple(lead + sizes))

    def as_strided(self) -> str:
        """Arguments of as_strided that stay in the first's memory."""
        rng, first = self.rng, self.first
        room = (first.untyped_storage().nbytes() // first.element_size()) - first.storage_offset()
        size: list[int] = []
        stride: list[int] = []
        reach = 0
        for _ in range(rng.randint(1, 3)):
            n, s = rng.choice((1, 2, 2, 3)), rng.choice((1, 1, 2, 3, 0))
            if reach + (n - 1) * s < room:
                reach += (n - 1) * s
                size.append(n)
                stride.append(s)
        return f"{tuple(size)}, {tuple(stride)}"

    def split(self) -> str:
        n = self._size()
        cut = self.rng.randint(0, n)
        return f"[{cut}, {n - cut}]" if self.rng.random() < 0.5 else self.k()

    # ---- indices ------------------------------------------------------------------------------

    def index(self) -> str:
        """What stands in brackets."""
        rng, parts = self.rng, []
        advanced = False
        for n in self.first.shape[: rng.randint(1, 4)]:
            r = rng.random()
            if r < 0.25 and n:
                parts.append(str(rng.randrange(-n, n)))
            elif r < 0.6:
                start, stop = sorted((rng.randint(0, n), rng.randint(0, n)))
                step = rng.choice(("", "", ":2", ":3"))
                parts.append(
                    rng.choice((f"{start}:{stop}{step}", ":", f"{start}:{step}", f":{stop}"))
                )
            elif r < 0.68:
                parts.append(rng.choice(("None", "...")) if "..." not in parts else "None")
                continue
            elif r < 0.85 and n and not advanced:
                advanced = True
                values = [rng.randrange(-n, n) for _ in range(rng.randint(1, 3))]
                parts.append(rng.choice((str(values), f"torch.tensor({values})")))
            elif r < 0.9 and not advanced:
                advanced = True
                values = [rng.random() < 0.5 for _ in range(n)]
                parts.append(f"torch.tensor({values}, dtype=torch.bool)")
            else:
                parts.append(":")
        return ", ".join(parts) or "..."

    def basic(self) -> str:
        """What gives a view: integers and slices."""
        rng, parts = self.rng, []
        for n in self.first.shape[: rng.randint(1, 3)]:
            if n > 1 and rng.random() < 0.3:
                parts.append(str(rng.randrange(-n, n)))
            else:
                start = rng.randint(0, max(n - 1, 0))
                parts.append(rng.choice((f"{start}:", ":", f"{start}:{start + 1}", "::2")))
        return ", ".join(parts) or "..."

    def ints(self) -> str:
        """Places in the chosen dim, as a vector."""
        n = max(self._size(), 1)
        values = [self.rng.randrange(n) for _ in range(self.rng.randint(1, 4))]
        return f"torch.tensor({values})"

    def ints_n(self) -> str:
        """As many places in the chosen dim as it has."""
        n = self._size()
        return (
            f"torch.tensor({[self.rng.randrange(max(n, 1)) for _ in range(n)]}, dtype=torch.int64)"
        )

    def perm_n(self) -> str:
        order = list(range(self._size()))
        self.rng.shuffle(order)
        return f"torch.tensor({order}, dtype=torch.int64)"

    def gather_index(self) -> str:
        """Places in the chosen dim, in the first's shape."""
        shape, n = tuple(self.first.shape), max(self._size(), 1)
        values = [self.rng.randrange(n) for _ in range(self.first.numel())]
        return f"torch.tensor({values}, dtype=torch.int64).reshape({shape})"

    def flat_index(self) -> str:
        n = max(self.first.numel(), 1)
        values = [self.rng.randrange(-n, n) for _ in range(self.rng.randint(1, 4))]
        return f"torch.tensor({values})"

    # ---- words --------------------------------------------------------------------------------

    def dtype(self) -> str:
        return f"torch.{self._any_dtype()}"

    def fdtype(self) -> str:
        return f"torch.{self.rng.choice(FLOATS)}"

    def format(self) -> str:
        return self.rng.choice(
            ("torch.preserve_format", "torch.contiguous_format", "torch.channels_last")
        )

    def rounding(self) -> str:
        return self.rng.choice(("'floor'", "'trunc'", "None"))

    def reduce(self) -> str:
        return self.rng.choice(("'sum'", "'prod'", "'amax'", "'amin'", "'mean'"))

    def reduction(self) -> str:
        return self.rng.choice(("'sum'", "'mean'", "'none'"))

    # ---- gradients ----------------------------------------------------------------------------

    def leaf(self) -> str:
        """A leaf that wants a gradient."""
        names = [n for n, t in self.tensors.items() if t.is_leaf and t.requires_grad]
        return self.rng.choice(names) if names else "v0"

    def v(self) -> str:
        """A new variable."""
        return self.new_name()

    # ---- the whole ----------------------------------------------------------------------------

    def fill(self, template: str) -> str:
        """The template with everything drawn, the tensor that the rest is chosen for first."""
        self.first: Any = None
        self.dim = 0
        places = _PLACE.findall(template)
        known = {}
        for place in sorted(places, key=lambda place: place not in _FIRST):
            if place in _FIRST and place not in known:
                known[place] = getattr(self, place)()
        return _PLACE.sub(
            lambda match: known[match[1]] if match[1] in known else getattr(self, match[1])(),
            template,
        )


# Placeholders of tensors that others are chosen for: the same tensor wherever they stand.
_FIRST = frozenset(
    [
        "a",
        "f",
        "fc",
        "i",
        "c",
        "ib",
        "bools",
        "num",
        "a1",
        "a2",
        "a3",
        "a4",
        "m",
        "vec",
        "f1",
        "f2",
        "fm",
        "f3",
        "f4",
    ]
)
