"""Parts of graphs as modules, and parts found by patterns."""

from typing import TYPE_CHECKING

from tritorch.fx.passes.utils.common import (
    HolderModule as HolderModule,
    compare_graphs as compare_graphs,
    lift_subgraph_as_module as lift_subgraph_as_module,
)

if TYPE_CHECKING:  # modules that come when they are asked for, or with others
    from tritorch.fx.passes.utils import (
        common as common,
        fuser_utils as fuser_utils,
        matcher_utils as matcher_utils,
    )
