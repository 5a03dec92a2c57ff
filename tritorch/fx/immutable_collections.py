"""Lists and dicts that arguments of nodes are kept in: changed only as a whole."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from tritorch.fx._compatibility import compatibility
from tritorch.utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")
_HELP = (
    "If you are attempting to modify the kwargs or args of a torch.fx.Node object,\n"
    "instead create a new copy of it and assign the copy to the node:\n\n"
    "    new_args = ...  # copy and mutate args\n"
    "    node.args = new_args"
)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_HELP}")


@compatibility(is_backward_compatible=True)
class immutable_list(list[_T]):
    """A list that refuses to be changed."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


@compatibility(is_backward_compatible=True)
class immutable_dict(dict[_K, _V]):
    """A dict that refuses to be changed."""

    clear = pop = popitem = setdefault = update = _refuse
    __delitem__ = __ior__ = __setitem__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


_pytree.register_pytree_node(
    immutable_list,
    lambda x: _pytree._list_flatten(x),
    lambda values, context: immutable_list(values),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=_pytree._list_flatten_with_keys,
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda x: _pytree._dict_flatten(x),
    lambda values, context: immutable_dict(_pytree._dict_unflatten(values, context)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_pytree._dict_flatten_with_keys,
)
