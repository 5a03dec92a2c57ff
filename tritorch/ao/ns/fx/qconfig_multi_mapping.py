"""Several configurations for each match of a mapping."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tritorch.ao.quantization.qconfig import QConfigAny, qconfig_equals
from tritorch.ao.quantization.qconfig_mapping import _QCONFIG_STYLE_ORDER, QConfigMapping

__all__ = ["QConfigMultiMapping"]

_QCONFIG_STYLE_TO_METHOD = {
    "global_qconfig": "set_global",
    "object_type_qconfigs": "set_object_type",
    "module_name_regex_qconfigs": "set_module_name_regex",
    "module_name_qconfigs": "set_module_name",
    "module_name_object_type_order_qconfigs": "set_module_name_object_type_order",
}


def _remove_duplicates_and_none(qconfig_list: list[QConfigAny]) -> None:
    """Removes the first None and what equals an entry before it, in place."""
    kept: list[QConfigAny] = []
    for index, qconfig in enumerate(qconfig_list):
        if qconfig is None:
            kept += qconfig_list[index + 1 :]
            break
        if not any(qconfig_equals(qconfig, before) for before in qconfig_list[:index]):
            kept.append(qconfig)
    qconfig_list[:] = kept


class QConfigMultiMapping:
    """A list of mappings, for `prepare_n_shadows_model`; methods as `QConfigMapping`'s, with lists.

    A key that one of the mappings has, all have, those that have nothing to say None: else a more
    general entry would apply there.
    """

    def __init__(self) -> None:
        self.qconfig_mappings_list: list[QConfigMapping] = [QConfigMapping()]

    def _handle_list_size_mismatch(self, qconfig_list: list[QConfigAny], style: str) -> None:
        """Brings mappings and configurations to the same number."""
        mappings = self.qconfig_mappings_list
        missing = len(qconfig_list) - len(mappings)
        if missing <= 0:
            qconfig_list += [None] * -missing
            return
        empty = QConfigMapping()
        for each in _QCONFIG_STYLE_ORDER[1:]:
            getattr(empty, each).update(dict.fromkeys(getattr(mappings[0], each)))
        mappings += [copy.deepcopy(empty) for _ in range(missing)]

    def _insert_qconfig_list(
        self, style: str, args: list[Any], qconfig_list: list[QConfigAny]
    ) -> None:
        _remove_duplicates_and_none(qconfig_list)
        self._handle_list_size_mismatch(qconfig_list, style)
        for mapping, qconfig in zip(self.qconfig_mappings_list, qconfig_list):
            getattr(mapping, _QCONFIG_STYLE_TO_METHOD[style])(*args, qconfig)

    def set_global(self, global_qconfig_list: list[QConfigAny]) -> QConfigMultiMapping:
        """Sets the configurations that apply where no other does."""
        self._insert_qconfig_list("global_qconfig", [], global_qconfig_list)
        return self

    def set_object_type(
        self, object_type: Callable[..., Any] | str, qconfig_list: list[QConfigAny]
    ) -> QConfigMultiMapping:
        """Sets the configurations of a module type, function or method."""
        self._insert_qconfig_list("object_type_qconfigs", [object_type], qconfig_list)
        return self

    def set_module_name_regex(
        self, module_name_regex: str, qconfig_list: list[QConfigAny]
    ) -> QConfigMultiMapping:
        """Sets the configurations of modules whose names match."""
        self._insert_qconfig_list("module_name_regex_qconfigs", [module_name_regex], qconfig_list)
        return self

    def set_module_name(
        self, module_name: str, qconfig_list: list[QConfigAny]
    ) -> QConfigMultiMapping:
        """Sets the configurations of the module of a name."""
        self._insert_qconfig_list("module_name_qconfigs", [module_name], qconfig_list)
        return self

    def set_module_name_object_type_order(
        self,
        module_name: str,
        object_type: Callable[..., Any],
        index: int,
        qconfig_list: list[QConfigAny],
    ) -> QConfigMultiMapping:
        """Sets the configurations of the n-th call of a type in a module."""
        self._insert_qconfig_list(
            "module_name_object_type_order_qconfigs",
            [module_name, object_type, index],
            qconfig_list,
        )
        return self

    def __repr__(self) -> str:
        entries = "".join(f"\n{mapping!r}," for mapping in self.qconfig_mappings_list)
        return f"{type(self).__name__} [{entries}\n]"

    @classmethod
    def from_list_qconfig_mapping(
        cls, qconfig_mapping_list: list[QConfigMapping]
    ) -> QConfigMultiMapping:
        """The mappings of a list as one."""
        result = cls()
        result.qconfig_mappings_list = copy.deepcopy(qconfig_mapping_list)
        for style in _QCONFIG_STYLE_ORDER[1:]:
            qconfigs: dict[Any, list[QConfigAny]] = {}
            for mapping in qconfig_mapping_list:
                for key, qconfig in getattr(mapping, style).items():
                    qconfigs.setdefault(key, []).append(qconfig)
            for key, entries in qconfigs.items():
                args = list(key) if isinstance(key, tuple) else [key]
                result._insert_qconfig_list(style, args, entries)
        return result
