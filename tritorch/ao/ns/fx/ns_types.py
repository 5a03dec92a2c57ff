"""Types of the comparison of graphs."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from tritorch.fx.node import Node


class NSSingleResultValuesType(str, enum.Enum):  # noqa: UP042  (PyTorch's, with its str())
    """Kinds of values that are compared."""

    WEIGHT = "weight"
    NODE_OUTPUT = "node_output"
    NODE_INPUT = "node_input"


class NSSubgraph(NamedTuple):
    """Operations in a row that are matched as one; `base_op_node` says what they are."""

    start_node: Node
    end_node: Node
    base_op_node: Node


# The values of one logger or weight ("values", "type") with where they are from: "prev_node_name",
# "ref_node_name", "..._target_type", "fqn", "index_within_arg", "index_of_arg", and comparisons.
NSSingleResultType = dict[str, Any]

# Results by layer, kind of values, and model.
NSResultsType = dict[str, dict[str, dict[str, list[NSSingleResultType]]]]

# A function, a module type, or a method's name.
NSNodeTargetType = Callable[..., Any] | str
