"""Tables of patterns for fusion and quantization."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from tritorch.ao.quantization.fake_quantize import FixedQParamsFakeQuantize
from tritorch.ao.quantization.utils import Pattern

__all__ = [
    "get_default_fusion_patterns",
    "get_default_output_activation_post_process_map",
    "get_default_quant_patterns",
]

QuantizeHandler = Any

_DEFAULT_FUSION_PATTERNS: dict[Pattern, QuantizeHandler] = OrderedDict()
_DEFAULT_QUANTIZATION_PATTERNS: dict[Pattern, QuantizeHandler] = OrderedDict()
_DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP: dict[Pattern, QuantizeHandler] = {}
_DEFAULT_OUTPUT_OBSERVER_MAP: dict[Pattern, QuantizeHandler] = {}


def _register_fusion_pattern(pattern: Pattern) -> Callable[[Any], Any]:
    """Decorates the handler of a pattern that is fused."""

    def insert(handler: Any) -> Any:
        _DEFAULT_FUSION_PATTERNS[pattern] = handler
        return handler

    return insert


def get_default_fusion_patterns() -> dict[Pattern, QuantizeHandler]:
    """A copy of the table of fusion patterns."""
    return copy.copy(_DEFAULT_FUSION_PATTERNS)


def _register_quant_pattern(
    pattern: Pattern, fixed_qparams_observer: Any = None
) -> Callable[[Any], Any]:
    """Decorates the handler of a pattern that is quantized, with its output's observer if fixed."""

    def insert(handler: Any) -> Any:
        _DEFAULT_QUANTIZATION_PATTERNS[pattern] = handler
        if fixed_qparams_observer is not None:
            _DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP[pattern] = FixedQParamsFakeQuantize.with_args(
                observer=fixed_qparams_observer
            )
            _DEFAULT_OUTPUT_OBSERVER_MAP[pattern] = fixed_qparams_observer
        return handler

    return insert


def get_default_quant_patterns() -> dict[Pattern, QuantizeHandler]:
    """A copy of the table of quantization patterns."""
    return copy.copy(_DEFAULT_QUANTIZATION_PATTERNS)


def get_default_output_activation_post_process_map(is_training: bool) -> dict[Pattern, Any]:
    """A copy of the table of observers, or fake quantizes for training, by pattern."""
    if is_training:
        return copy.copy(_DEFAULT_OUTPUT_FAKE_QUANTIZE_MAP)
    return copy.copy(_DEFAULT_OUTPUT_OBSERVER_MAP)


def _size(pattern: Any) -> int:
    return sum(map(_size, pattern)) if isinstance(pattern, tuple) else 1


def _sorted_patterns_dict(
    patterns_dict: dict[Pattern, QuantizeHandler],
) -> dict[Pattern, QuantizeHandler]:
    """The table with the largest patterns first, so that they match before their parts."""

    def rank(item: tuple[Any, Any]) -> int:
        return -_size(item[0]) if isinstance(item[0], tuple) else 1

    return OrderedDict(sorted(patterns_dict.items(), key=rank))
