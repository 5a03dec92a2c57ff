"""Passes over graphs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.fx.passes import (
        graph_manipulation as graph_manipulation,
        shape_prop as shape_prop,
        split_module as split_module,
        tools_common as tools_common,
    )
