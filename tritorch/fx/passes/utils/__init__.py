"""Parts of graphs as modules, and parts found by patterns."""

from tritorch.fx.passes.utils.common import HolderModule, compare_graphs, lift_subgraph_as_module
