"""The keys by which PyTorch chooses an operator's code, and sets of them.

Nothing here is chosen by them (the type of a tensor's array is what decides, `core/tensor.py`):
they are names with numbers, for programs that compare, print and combine them.

A set is an integer.  Its low bits are backends, those above functionalities; a key such as
SparseCPU is one of each, so a union holds every pair: CPU | SparseCUDA has SparseCPU and CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

_BACKEND_NAMES = """
    CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta
"""
# From 0 on.  Those in parentheses are no attributes of DispatchKey in PyTorch.
_FUNCTIONALITY_NAMES = """
    Undefined Dense (FPGA) (Vulkan) (Metal) Quantized (CustomRNGKeyId) (MkldnnCPU) Sparse
    SparseCsr NestedTensor BackendSelect (Fake) Python FuncTorchDynamicLayerBackMode Functionalize
    Conjugate Negative ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality
    AutogradNestedTensor (Tracer) AutocastCPU (AutocastMTIA) (AutocastMAIA) AutocastXPU
    AutocastIPU AutocastHPU (AutocastXLA) AutocastMPS AutocastCUDA AutocastPrivateUse1
    FuncTorchBatched (BatchedNestedTensor) FuncTorchVmapMode (Batched) (VmapMode)
    FuncTorchGradWrapper (DeferredInit) PythonTLSSnapshot FuncTorchDynamicLayerFrontMode
    (TESTING_ONLY_GenericWrapper) (TESTING_ONLY_GenericMode) PreDispatch PythonDispatcher
    (UnknownUnknown)
"""
# Functionalities that each backend has, and what its keys begin with.
_OF_BACKENDS = {
    "Dense": "",
    "Quantized": "Quantized",
    "Sparse": "Sparse",
    "SparseCsr": "SparseCsr",
    "NestedTensor": "NestedTensor",
    "AutogradFunctionality": "Autograd",
}
# What stands for several keys; in no set.
_ALIAS_NAMES = """
    Autograd CompositeImplicitAutograd FuncTorchBatchedDecomposition
    CompositeImplicitAutogradNestedTensor CompositeExplicitAutograd
    CompositeExplicitAutogradNonFunctional
"""

_BACKENDS, _FUNCTIONALITIES = _BACKEND_NAMES.split(), _FUNCTIONALITY_NAMES.split()
_NAMES: list[str] = [name.strip("()") for name in _FUNCTIONALITIES]
_HIDDEN = {name.strip("()") for name in _FUNCTIONALITIES if name.startswith("(")}
_BIT: dict[int, int] = {  # of a key's number, its set
    i: 1 << (len(_BACKENDS) - 1 + i) for i in range(1, len(_FUNCTIONALITIES))
}
_FIRST: dict[int, int] = {}  # of a functionality's number, the number before its first backend's
_LAST: dict[str, int] = {}  # names for the last of each
for _functionality, _prefix in _OF_BACKENDS.items():
    _number = _NAMES.index(_functionality)
    _FIRST[_number] = len(_NAMES)
    _BIT[len(_NAMES)] = _BIT[_number]
    _block = f"{_prefix or 'Dense'}Backends".replace("AutogradB", f"{_functionality}B")
    _NAMES.append(f"StartOf{_block}")
    for _i, _backend in enumerate(_BACKENDS):
        _BIT[len(_NAMES)] = _BIT[_number] | 1 << _i
        _NAMES.append(_prefix + _backend)
    _LAST[f"EndOf{_block}"] = len(_NAMES) - 1
_NAMES += _ALIAS_NAMES.split()
_LOW = (1 << len(_BACKENDS)) - 1


class _ByName(type):
    """What has the keys as attributes: they are set below, out of a type checker's sight."""

    def __getattr__(cls, name: str) -> DispatchKey:
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


class DispatchKey(metaclass=_ByName):
    """A key: a name and its number."""

    __members__: ClassVar[dict[str, DispatchKey]] = {}
    _value: int

    def __new__(cls, value: int | DispatchKey) -> DispatchKey:
        if not hasattr(value, "__index__"):
            raise TypeError(f"DispatchKey(): expected an integer, got {value!r}")
        self = super().__new__(cls)
        self._value = value.__index__()
        return self

    @property
    def value(self) -> int:
        """The number."""
        return self._value

    @property
    def name(self) -> str:
        """The name; ??? for a number that has none."""
        name = _NAMES[self._value] if 0 <= self._value < len(_NAMES) else "???"
        return "???" if name in _HIDDEN else name

    def __index__(self) -> int:
        return self._value

    __int__ = __hash__ = __index__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKey) and self._value == other._value

    def __repr__(self) -> str:
        return f"<DispatchKey.{self.name}: {self._value}>"

    def __str__(self) -> str:
        return f"DispatchKey.{self.name}"

    def __reduce__(self) -> tuple[type[DispatchKey], tuple[int]]:
        return DispatchKey, (self._value,)


class DispatchKeySet:
    """A set of keys, which `|`, `&`, `-`, `add` and `remove` make others of."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, key: DispatchKey) -> None:
        if not isinstance(key, DispatchKey):
            raise TypeError(f"DispatchKeySet(): expected a DispatchKey, got {key!r}")
        self._bits = _BIT.get(key.value, 0)

    @staticmethod
    def from_raw_repr(bits: int) -> DispatchKeySet:
        """The set that is this integer."""
        if not 0 <= bits < 1 << 64:
            raise TypeError(f"from_raw_repr(): expected an integer of 64 bits, got {bits}")
        made = DispatchKeySet(DispatchKey(0))
        made._bits = bits
        return made

    def raw_repr(self) -> int:
        """The integer."""
        return self._bits

    def _of(self, other: DispatchKeySet) -> int:
        if not isinstance(other, DispatchKeySet):
            raise TypeError(f"expected a DispatchKeySet, got {other!r}")
        return other._bits

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self.from_raw_repr(self._bits | self._of(other))

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self.from_raw_repr(self._bits & self._of(other))

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        """Without the other's functionalities; backends stay, as other keys may need them."""
        return self.from_raw_repr(self._bits & (_LOW | ~self._of(other)))

    def __eq__(self, other: object) -> bool:
        return self._bits == self._of(other)  # type: ignore[arg-type]

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """With one key more."""
        return self | DispatchKeySet(key)

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """Without the functionality of a key."""
        return self - DispatchKeySet(key)

    def has(self, key: DispatchKey) -> bool:
        """Whether the key is in the set."""
        wanted = DispatchKeySet(key)._bits
        return self._bits & wanted == wanted

    def highestPriorityTypeId(self) -> DispatchKey:
        """The key whose code would run first."""
        number = max(self._bits.bit_length() - len(_BACKENDS), 0)
        if number in _FIRST:
            number = _FIRST[number] + (self._bits & _LOW).bit_length()
        return DispatchKey(number)

    def _keys(self) -> Iterator[str]:
        for number in range(1, len(_FUNCTIONALITIES) - 1):
            if not self._bits & _BIT[number]:
                continue
            if number not in _FIRST:
                yield _NAMES[number]
                continue
            for i in range(len(_BACKENDS)):
                if self._bits >> i & 1:
                    yield _NAMES[_FIRST[number] + 1 + i]

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(self._keys())})"

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return self.from_raw_repr, (self._bits,)


for _number, _name in (*enumerate(_NAMES), *((number, name) for name, number in _LAST.items())):
    if _name not in _HIDDEN:
        DispatchKey.__members__[_name] = DispatchKey(_number)
        setattr(DispatchKey, _name, DispatchKey.__members__[_name])
DispatchKey.__module__ = DispatchKeySet.__module__ = "tritorch"
