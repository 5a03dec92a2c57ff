"""A module's tensors and submodules by their dotted names: read, set, deleted and exchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tritorch.core.tensor import Tensor
from tritorch.nn.modules.module import Module

_MISSING: Any = object()  # what an exchange gives for a name that there was not, and takes it away


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Sets a module's own attribute: a parameter and a buffer stay what they are."""
    _require_module(module)
    _require_tensor(tensor, "")
    _require_name(name, "tensor")
    table = _table_of(module, name)
    if table is None:
        setattr(module, name, tensor)
    else:
        table[name] = tensor


def swap_tensor(
    module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False
) -> Any:
    """Sets a module's own attribute and gives what it was before."""
    _require_module(module)
    _require_tensor(tensor, "")
    _require_name(name, "tensor")
    table = _table_of(module, name)
    if table is not None:
        before = table[name]
        if tensor is _MISSING:
            del table[name]
        else:
            table[name] = tensor
        return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    _require_tensor(before, f"attribute `{name}`: ")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Sets a module's own submodule and gives what it was before."""
    _require_module(module)
    _require_module(submodule)
    _require_name(name, "submodule")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    before = module._modules[name]
    if not isinstance(before, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return before


def _table_of(module: Module, name: str) -> dict[str, Any] | None:
    """Where a module has a parameter or a buffer of a name."""
    tables: tuple[Any, ...] = (module._parameters, module._buffers)
    return next((table for table in tables if name in table), None)


def _require_module(value: Any) -> None:
    if not isinstance(value, Module):
        raise TypeError(f"{value} is not an instance of torch.nn.Module")


def _require_tensor(value: Any, which: str) -> None:
    if value is not None and value is not _MISSING and not isinstance(value, Tensor):
        raise TypeError(f"{which}{value} is not an instance of torch.Tensor")


def _require_name(name: str, what: str) -> None:
    if "." in name:
        raise KeyError(f'{what} name can\'t contain "."')
    if not name:
        raise KeyError(f'{what} name can\'t be empty string ""')


class NamedMemberAccessor:
    """Reads and writes what is below a module by dotted names; submodules are looked up once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {}

    def __repr__(self) -> str:
        return f"NamedMemberAccessor({self.module})"

    # ---- submodules ---------------------------------------------------------------------------

    def get_submodule(self, name: str) -> Module:
        """The module of a dotted name; "" is the module itself."""
        if not name:
            return self.module
        found = self.memo.get(name)
        if found is None:
            prefix, _, last = name.rpartition(".")
            owner = self.get_submodule(prefix)
            found = _attribute(owner, last, last)
            if not isinstance(found, Module):
                raise TypeError(
                    f"submodule `{name}`: {found} is not an instance of torch.nn.Module"
                )
            self.memo[name] = found
        return found

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Sets a submodule and gives what it was before."""
        owner, name = self._place(path)
        self.memo.clear()  # what was below the former one
        return swap_submodule(owner, name, value)

    def _place(self, path: str) -> tuple[Module, str]:
        prefix, _, name = path.rpartition(".")
        return self.get_submodule(prefix), name

    # ---- tensors ------------------------------------------------------------------------------

    def get_tensor(self, name: str) -> Any:
        """The tensor of a dotted name, or None."""
        owner, last = self._place(name)
        found = _attribute(owner, last, name)
        _require_tensor(found, "")
        return found

    def tensor_or_missing(self, name: str) -> Any:
        """The tensor under a dotted name, or the object that `swap_tensor` takes for none."""
        owner, last = self._place(name)
        if last in owner._parameters:
            return owner._parameters[last]
        if last in owner._buffers:
            return owner._buffers[last]
        return getattr(owner, last, _MISSING)

    def set_tensor(self, name: str, value: Tensor | None) -> None:
        """Sets the tensor of a dotted name."""
        owner, last = self._place(name)
        set_tensor(owner, last, value)

    def del_tensor(self, name: str) -> None:
        """Deletes the tensor of a dotted name."""
        owner, last = self._place(name)
        try:
            delattr(owner, last)
        except AttributeError as error:
            raise _no_attribute(owner, name) from error

    def swap_tensor(self, name: str, value: Tensor | None, allow_missing: bool = False) -> Any:
        """Sets the tensor of a dotted name and gives what it was before."""
        owner, last = self._place(name)
        return swap_tensor(owner, last, value, allow_missing=allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Any]:
        """The tensors of dotted names."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor | None]) -> None:
        """Sets the tensors of dotted names."""
        for name, value in _paired(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: Mapping[str, Tensor | None]) -> None:
        """Sets the tensors of dotted names."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Deletes the tensors of dotted names."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(
        self, names: Iterable[str], values: Iterable[Tensor | None], allow_missing: bool = False
    ) -> list[Any]:
        """Sets the tensors of dotted names and gives what they were before."""
        return [
            self.swap_tensor(name, value, allow_missing=allow_missing)
            for name, value in _paired(names, values)
        ]

    def swap_tensors_dict(
        self, named_tensors: Mapping[str, Tensor | None], allow_missing: bool = False
    ) -> tuple[dict[str, Any], list[str]]:
        """Sets the tensors of dotted names, all or none; gives what they were before, and which
        were not there."""
        before: dict[str, Any] = {}
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
            missing = [name for name, value in before.items() if value is _MISSING]
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """Names of the module's tensors that are not among some, and of those the unknown ones."""
        given = set(keys)
        known = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(known - given), sorted(given - known)

    # ---- all of them --------------------------------------------------------------------------

    def named_parameters(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """All parameters with their names."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """All buffers with their names."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """All parameters, then all buffers, with their names."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """All modules with their names."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _attribute(owner: Module, name: str, shown: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise _no_attribute(owner, shown) from error


def _no_attribute(owner: Module, name: str) -> AttributeError:
    return AttributeError(f"{owner._get_name()} has no attribute `{name}`")


def _paired(names: Iterable[str], values: Iterable[Any]) -> list[tuple[str, Any]]:
    names, values = [*names], [*values]
    if len(names) != len(values):
        raise AssertionError(
            f"names and values must have the same length, got {len(names)} names and "
            f"{len(values)} values"
        )
    return [*zip(names, values)]
