"""A program's own node of a symbolic number, by PyTorch's protocol: it computes with a value."""

# fmt: off


class N:
    """A node that knows its number."""

    def __init__(self, x): self.x = x
    def is_int(self): return isinstance(self.x, int) and not isinstance(self.x, bool)
    def is_float(self): return isinstance(self.x, float)
    def is_bool(self): return isinstance(self.x, bool)
    def is_symbolic(self): return True
    def is_constant(self): return False
    def is_nested_int(self): return False
    def str(self): return f"n{self.x}"
    def _graph_repr(self): return f"n{self.x}"
    def wrap_int(self, k): return N(k)
    def wrap_float(self, k): return N(k)
    def wrap_bool(self, k): return N(k)
    def maybe_as_int(self): return self.x if self.is_int() else None
    def int_(self): return int(self.x)
    def guard_int(self, f, l): return int(self.x)
    def guard_float(self, f, l): return float(self.x)
    def guard_bool(self, f, l): return bool(self.x)
    def bool_(self): return bool(self.x)
    def sym_float(self): return N(float(self.x))
    def sym_int(self): return N(int(self.x))
    def sym_not(self): return N(not self.x)
    def sym_ite(self, a, b): return a if self.x else b
    def sym_max(self, o): return N(max(self.x, o.x))
    def sym_min(self, o): return N(min(self.x, o.x))
    def sym_and(self, o): return N(self.x and o.x)
    def sym_or(self, o): return N(self.x or o.x)
    def and_(self, o): return N(self.x & o.x)
    def or_(self, o): return N(self.x | o.x)
    def add(self, o): return N(self.x + o.x)
    def sub(self, o): return N(self.x - o.x)
    def mul(self, o): return N(self.x * o.x)
    def mod(self, o): return N(self.x % o.x)
    def pow(self, o): return N(self.x ** o.x)
    def pow_by_natural(self, o): return N(self.x ** o.x)
    def float_pow(self, o): return N(float(self.x) ** float(o.x))
    def floordiv(self, o): return N(self.x // o.x)
    def int_floordiv(self, o): return N(self.x // o.x)
    def truediv(self, o): return N(self.x / o.x)
    def int_truediv(self, o): return N(self.x / o.x)
    def float_truediv(self, o): return N(self.x / o.x)
    def neg(self): return N(-self.x)
    def abs(self): return N(abs(self.x))
    def eq(self, o): return N(self.x == o.x)
    def ne(self, o): return N(self.x != o.x)
    def lt(self, o): return N(self.x < o.x)
    def le(self, o): return N(self.x <= o.x)
    def gt(self, o): return N(self.x > o.x)
    def ge(self, o): return N(self.x >= o.x)
    def round(self, n=None): return N(round(self.x))
    def trunc(self): return N(int(self.x))
    def floor(self): return N(int(self.x // 1))
    def ceil(self): return N(int(-(-self.x // 1)))
    def sqrt(self): return N(self.x ** 0.5)
    def sym_sqrt(self): return N(self.x ** 0.5)
    def is_integer(self): return N(float(self.x).is_integer())
    def lshift(self, o): return N(self.x << o.x)
    def rshift(self, o): return N(self.x >> o.x)
    def bitwise_and(self, o): return N(self.x & o.x)
    def bitwise_or(self, o): return N(self.x | o.x)
    def clone(self): return self
