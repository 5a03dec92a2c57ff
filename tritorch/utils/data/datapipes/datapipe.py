"""`IterDataPipe` and `MapDataPipe`: datasets with methods that others register.

PyTorch deprecates datapipes, so here is what programs build their own on, and no ready pipes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from tritorch.utils.data.dataset import Dataset, IterableDataset

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Pipe:
    """What both kinds have: registered functions, and hooks for pickling and printing."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    str_hook: ClassVar[Callable[..., Any] | None] = None
    repr_hook: ClassVar[Callable[..., Any] | None] = None

    def __getattr__(self, attribute_name: str) -> Any:
        functions = type(self).functions
        if attribute_name in functions:
            function = functions[attribute_name]
            bound = functools.partial(function, self)
            functools.update_wrapper(bound, function, assigned=("__doc__",))
            return bound
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """function(pipe, ...) as a method of all pipes of this kind."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Another pipe's class as a method that puts it on top."""
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )

        def make(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        make.__doc__ = cls_to_register.__doc__
        cls.functions[function_name] = make

    def __getstate__(self) -> Any:
        state = self.__dict__
        hook = type(self).getstate_hook
        return hook(state) if hook is not None else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """hook(state) gives what is pickled."""
        if cls.getstate_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing getstate_hook")
        cls.getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """hook(pipe) gives how it is pickled; NotImplementedError: as usual."""
        if cls.reduce_ex_hook is not None and hook_fn is not None:
            raise RuntimeError("Attempt to override existing reduce_ex_hook")
        cls.reduce_ex_hook = hook_fn

    def __str__(self) -> str:
        hook = type(self).str_hook
        return hook(self) if hook is not None else type(self).__qualname__

    def __repr__(self) -> str:
        hook = type(self).repr_hook
        return hook(self) if hook is not None else type(self).__qualname__

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).functions]


class IterDataPipe(_Pipe, IterableDataset[T_co]):
    """An iterable dataset with registered functions, of which one iterator is valid at a time."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__iter__" in cls.__dict__:
            cls.__iter__ = _only_one(cls.__iter__)  # type: ignore[method-assign]

    def __iter__(self) -> Iterator[T_co]:
        return self

    def reset(self) -> None:
        """Called when a new iterator begins."""


def _only_one(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """An `__iter__` whose iterators end when a later one begins: a generator with its first item,
    another one at once."""
    if inspect.isgeneratorfunction(make):

        @functools.wraps(make)
        def generate(self: Any) -> Any:
            yield from _Iterator(self, make)

        return generate

    @functools.wraps(make)
    def begin(self: Any) -> Any:
        return _Iterator(self, make)

    return begin


class _Iterator:
    """An iterator of a pipe, with whatever else the pipe's own iterator has."""

    def __init__(self, pipe: Any, make: Callable[[Any], Any]) -> None:
        self._pipe = pipe
        self._number = pipe._valid_iterator_id = (pipe._valid_iterator_id or 0) + 1
        pipe._number_of_samples_yielded = 0
        pipe.reset()
        self._iterator = iter(found) if (found := make(pipe)) is not pipe else found

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        pipe = self._pipe
        if pipe._valid_iterator_id != self._number:
            raise RuntimeError(
                f"This iterator has been invalidated because another iterator has been created "
                f"from the same IterDataPipe: {pipe!r}\nThis may be caused by multiple references "
                f"to the same IterDataPipe."
            )
        item = next(self._iterator)
        pipe._number_of_samples_yielded += 1
        return item

    def __getattr__(self, name: str) -> Any:
        if name == "_iterator":  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._iterator, name)


class DFIterDataPipe(IterDataPipe[T_co]):
    """A pipe of data frames."""

    def _is_dfpipe(self) -> bool:
        return True

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class MapDataPipe(_Pipe, Dataset[T_co]):
    """A dataset with items by key and registered functions."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DataChunk(list[T]):
    """Items that belong together, such as a batch."""

    def __init__(self, items: Iterable[T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """As a list is printed, indented."""
        return indent + "[" + ", ".join(str(item) for item in self) + "]"

    def __iter__(self) -> Iterator[T]:
        yield from super().__iter__()

    def raw_iterator(self) -> Iterator[T]:
        """The items as they were given."""
        yield from self.items
