"""Generators of random numbers, one for each device, and their seeds and states."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import locks
from tritorch.core.device import device as Device
from tritorch.core.naming import as_native
from tritorch.core.scopes import Scope, scoped, set_back, unchanged

DEFAULT_SEED = 67280421310721  # PyTorch's


class Generator:
    """A source of random numbers on one device.

    On the CPU PyTorch's Mersenne Twister, with its numbers and its state; on a GPU a seed and a
    count of what was drawn, from which each kernel computes its numbers, whatever its launch
    configuration.
    """

    _told_by_value = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) > 1:
            raise TypeError(
                f"Generator() takes from 0 to 1 positional arguments but {len(args)} were given"
            )
        other = next((name for name in kwargs if name != "device"), None)
        if other is not None:
            raise TypeError(f"Generator() got an unexpected keyword argument '{other}'")
        device = args[0] if args else kwargs.get("device", "cpu")
        self.device = Device(device)
        if self.device.type == "meta":
            raise RuntimeError("META device type not an accelerator.")
        if self.device.type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"Device type {self.device.type} is not supported for torch.Generator() api."
            )
        if self.device.type == "cuda" and self.device.index is None:
            self.device = Device("cuda", _C.current_device())
        if self.device.type == "cpu":
            self.native = _C.CpuGenerator(DEFAULT_SEED)
        else:
            self._lock = locks.lock()
            self._state = [DEFAULT_SEED, 0]  # seed and offset; graphsafe_set_state shares it

    def manual_seed(self, seed: int) -> Generator:
        """Starts again from a seed."""
        _C.flush()
        if not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        seed %= 2**64
        if self.device.type == "cpu":
            self.native.manual_seed(seed)
        else:
            self._state[:] = seed, 0
        return self

    def seed(self) -> int:
        """Starts again from a random seed, which is returned."""
        seed = int.from_bytes(os.urandom(8), "little")
        if self.device.type == "cuda":
            seed >>= 11
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that this generator started from."""
        return self.native.seed if self.device.type == "cpu" else self._state[0]

    def get_offset(self) -> int:
        """How many numbers a GPU's generator has given."""
        _C.flush()
        self._require_offset()
        return self._state[1]

    def set_offset(self, offset: int) -> Generator:
        """Moves a GPU's generator to a place in its sequence."""
        _C.flush()
        self._require_offset()
        self._state[1] = int(offset)
        return self

    def _require_offset(self) -> None:
        if self.device.type == "cpu":
            raise RuntimeError("CPU Generator does not use offset")

    def draw(self, count: int) -> tuple[int, int]:
        """Reserves `count` numbers of a GPU's sequence: (seed, offset)."""
        with self._lock:
            seed, offset = self._state
            self._state[1] += -(-count // 4) * 4
        if _C.is_recording():  # whoever launches the same again draws others
            return _C.recorded_draw(self, count, seed, offset)
        return seed, offset

    def _rewind(self, offset: int) -> None:
        """Takes back what was drawn from an offset on."""
        with self._lock:
            self._state[1] = offset

    def get_state(self) -> Any:
        """The state as a uint8 tensor."""
        _C.flush()
        if self.device.type == "cuda":
            words = np.array(self._state, np.uint64)
            return _C.wrap(words.view(np.uint8).copy())
        return _C.wrap(np.frombuffer(bytearray(self.native.get_state()), np.uint8))

    def set_state(self, new_state: Any) -> Generator:
        """Restores what get_state gave."""
        _C.flush()
        if not isinstance(new_state, _C.TensorBase):
            raise TypeError("expected a torch.ByteTensor, but got " + type(new_state).__name__)
        if new_state.dtype.name != "uint8":
            raise TypeError("RNG state must be a torch.ByteTensor")
        array = new_state._array
        host = array if type(array) is np.ndarray else array.numpy()
        if self.device.type == "cpu":
            if host.size != (size := len(self.native.get_state())):
                raise RuntimeError(
                    f"Expected a CPUGeneratorImplState of size {size} but found the input RNG "
                    f"state size to be {host.size}"
                )
            self.native.set_state(host.tobytes())
            return self
        if host.size != 16:
            raise RuntimeError("RNG state is wrong size")
        words = np.ascontiguousarray(host).view(np.uint64)
        self._state[:] = int(words[0]), int(words[1])
        return self

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        return Generator(self.device).set_state(self.get_state())

    def graphsafe_get_state(self) -> Generator:
        """A generator that goes on with this one's numbers, whichever of the two draws."""
        _C.flush()
        if self.device.type == "cpu":
            raise NotImplementedError("graphsafe_get_state is not supported in this Generator")
        shared = Generator(self.device)
        shared._state, shared._lock = self._state, self._lock
        return shared

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """From now on this one and another draw the same numbers in turn."""
        _C.flush()
        if self.device.type == "cpu":
            raise NotImplementedError("graphsafe_set_state is not supported in this Generator")
        self._state, self._lock = state._state, state._lock
        return self

    def __repr__(self) -> str:
        return f"<torch._C.Generator object at {id(self):#x}>"

    def __reduce__(self) -> Any:
        offset = None if self.device.type == "cpu" else self._state[1]
        return Generator, (self.device,), (self.initial_seed(), offset, self.get_state())

    def __setstate__(self, state: tuple[int, int | None, Any]) -> None:
        self.set_state(state[2])


Generator.__module__ = "tritorch._C"
as_native(Generator, "torch._C.Generator", final=False)
default_generator = Generator("cpu")
default_generator.seed()  # a program that gives no seed draws other numbers every time
_cuda: dict[int, Generator] = {}
_cuda_seed: int | None = None


def default_generators() -> list[Generator]:
    """Those that programs draw from, but for ones that they made themselves."""
    return [default_generator, *_cuda.values()]


def states(generators: Iterable[Generator]) -> list[tuple[Generator, Any]]:
    """Where generators are, for `restore`."""
    return [
        (g, g.native.get_state() if g.device.type == "cpu" else tuple(g._state)) for g in generators
    ]


def restore(saved: list[tuple[Generator, Any]]) -> None:
    """Puts generators where they were."""
    for g, state in saved:
        if g.device.type == "cpu":
            g.native.set_state(state)
        else:
            g._state[:] = state


def cuda_generator(index: int) -> Generator:
    """A GPU's default generator."""
    if index not in _cuda:
        _cuda[index] = Generator(Device("cuda", index))
        if _cuda_seed is not None:
            _cuda[index].manual_seed(_cuda_seed)
    return _cuda[index]


def default_for(device: Device) -> Generator:
    """A device's default generator."""
    return default_generator if device.type == "cpu" else cuda_generator(device.index or 0)


def seed_all_gpus(seed: int) -> None:
    """Seeds the generators of all GPUs, also of those not used yet."""
    global _cuda_seed
    _cuda_seed = int(seed)
    for generator in _cuda.values():
        generator.manual_seed(seed)


def manual_seed(seed: int) -> Generator:
    """Seeds the default generators of all devices."""
    seed_all_gpus(int(seed))
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seeds the default generators of all devices randomly."""
    value = default_generator.seed()
    seed_all_gpus(value)
    return value


def initial_seed() -> int:
    """The seed of the CPU's default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the CPU's default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Restores the state of the CPU's default generator."""
    default_generator.set_state(new_state)


@scoped
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Scope:
    """Within, random numbers leave the generators outside as they were."""
    if not enabled:
        return unchanged
    if devices is None:
        indices = list(_cuda)
    else:
        indices = [d if isinstance(d, int) else Device(d).index or 0 for d in devices]
    forked = [default_generator, *map(cuda_generator, indices)]
    states = [(generator, generator.get_state()) for generator in forked]
    return Scope(set_back(_set_states, states))


def _set_states(states: list[tuple[Any, Any]]) -> None:
    for generator, state in states:
        generator.set_state(state)
