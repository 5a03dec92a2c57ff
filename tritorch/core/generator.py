"""Generators of random numbers, one for each device, and their seeds and states."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tritorch import _C
from tritorch.core import locks
from tritorch.core.device import device as Device

DEFAULT_SEED = 67280421310721  # PyTorch's


def _numpy_generator(bits: np.random.Philox) -> np.random.Generator:
    locks.renewed(bits.lock)  # held while numbers are drawn, without the interpreter's
    return np.random.Generator(bits)


class Generator:
    """A source of random numbers on one device.

    On the CPU a NumPy generator (Philox); on a GPU a seed and a count of what was drawn, from which
    each kernel computes its numbers, whatever its launch configuration.
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = Device("cuda", _C.current_device())
        self._lock = locks.lock()
        self._seed = DEFAULT_SEED
        self._offset = 0
        self._numpy: np.random.Generator | None = None

    def manual_seed(self, seed: int) -> Generator:
        """Starts again from a seed."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError(
                "Overflow when unpacking long long" if seed > 0 else "seed is out of range"
            )
        self._seed = seed % 2**64
        self._offset = 0
        self._numpy = None
        return self

    def seed(self) -> int:
        """Starts again from a random seed, which is returned."""
        seed = int.from_bytes(os.urandom(8), "little") >> 1
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that this generator started from."""
        return self._seed

    def get_offset(self) -> int:
        """How many numbers a GPU's generator has given."""
        return self._offset

    def set_offset(self, offset: int) -> Generator:
        """Moves a GPU's generator to a place in its sequence."""
        self._offset = int(offset)
        return self

    @property
    def numpy(self) -> np.random.Generator:
        """The CPU's generator."""
        if self._numpy is None:
            self._numpy = _numpy_generator(np.random.Philox(key=self._seed))
        return self._numpy

    def draw(self, count: int) -> tuple[int, int]:
        """Reserves `count` numbers of a GPU's sequence: (seed, offset)."""
        with self._lock:
            offset = self._offset
            self._offset += -(-count // 4) * 4
        return self._seed, offset

    def get_state(self) -> Any:
        """The state as a uint8 tensor."""
        if self.device.type == "cuda":
            words = np.array([self._seed, self._offset], np.uint64)
            return _C.wrap(words.view(np.uint8).copy())
        state: Any = self.numpy.bit_generator.state
        words = np.concatenate(
            [
                np.array(
                    [self._seed, state["buffer_pos"], state["has_uint32"], state["uinteger"]],
                    np.uint64,
                ),
                state["state"]["counter"],
                state["state"]["key"],
                state["buffer"],
            ]
        )
        return _C.wrap(words.astype(np.uint64).view(np.uint8).copy())

    def set_state(self, new_state: Any) -> Generator:
        """Restores what get_state gave."""
        if not isinstance(new_state, _C.TensorBase) or new_state.dtype.name != "uint8":
            raise TypeError("expected a torch.ByteTensor, but got " + type(new_state).__name__)
        array = new_state._array
        host = array if type(array) is np.ndarray else array.numpy()
        words = np.ascontiguousarray(host).view(np.uint64)
        if self.device.type == "cuda":
            if words.size != 2:
                raise RuntimeError("RNG state is wrong size")
            self._seed, self._offset = int(words[0]), int(words[1])
            return self
        if words.size != 14:
            raise RuntimeError("RNG state is wrong size")
        self._seed = int(words[0])
        bits = np.random.Philox(key=self._seed)
        bits.state = {
            "bit_generator": "Philox",
            "state": {"counter": words[4:8].copy(), "key": words[8:10].copy()},
            "buffer": words[10:14].copy(),
            "buffer_pos": int(words[1]),
            "has_uint32": int(words[2]),
            "uinteger": int(words[3]),
        }
        self._numpy = _numpy_generator(bits)
        return self

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        return Generator(self.device).set_state(self.get_state())

    def __repr__(self) -> str:
        return f"<tritorch._C.Generator object at {id(self):#x}>"

    def __reduce__(self) -> Any:
        return _restore, (str(self.device), self.get_state())


def _restore(device: str, state: Any) -> Generator:
    return Generator(device).set_state(state)


default_generator = Generator("cpu")
_cuda: dict[int, Generator] = {}
_cuda_seed: int | None = None


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


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Within, random numbers leave the generators outside as they were."""
    if not enabled:
        yield
        return
    if devices is None:
        indices = list(_cuda)
    else:
        indices = [d if isinstance(d, int) else Device(d).index or 0 for d in devices]
    cpu = default_generator.get_state()
    gpus = [(i, cuda_generator(i).get_state()) for i in indices]
    try:
        yield
    finally:
        default_generator.set_state(cpu)
        for i, state in gpus:
            cuda_generator(i).set_state(state)
