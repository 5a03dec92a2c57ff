"""Types of a graph as precise as what is known of them allows."""

from __future__ import annotations

from typing import Any

from tritorch.fx.experimental.graph_gradual_typechecker import Refine
from tritorch.fx.experimental.refinement_types import Equality
from tritorch.fx.experimental.unification import Var, unify
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.fx.tensor_type import TensorType

__all__ = [
    "check_for_type_equality", "convert_eq", "infer_symbolic_types",
    "infer_symbolic_types_single_pass", "substitute_all_types", "substitute_solution_one_type",
    "unify_eq",
]  # fmt: skip


def infer_symbolic_types_single_pass(traced: GraphModule) -> None:
    """Finds what has to be equal in a graph's types, and writes it into them."""
    refine = Refine(traced)
    refine.refine()
    substitute_all_types(traced.graph, unify_eq(refine.constraints))


def infer_symbolic_types(traced: GraphModule) -> None:
    """The same twice, as broadcasting may need it; then sizes are computed from sizes."""
    infer_symbolic_types_single_pass(traced)
    infer_symbolic_types_single_pass(traced)
    Refine(traced).symbolic_relations()


def convert_eq(list_of_eq: list[Equality]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The left sides of equalities, and the right sides."""
    return tuple(eq.lhs for eq in list_of_eq), tuple(eq.rhs for eq in list_of_eq)


def unify_eq(list_of_eq: list[Equality]) -> Any:
    """The values of variables for which all equalities hold."""
    return unify(*convert_eq(list_of_eq))


def substitute_solution_one_type(mapping: dict[Any, Any], t: Any) -> Any:
    """A type with values in the place of variables."""
    if isinstance(t, Var):
        return mapping.get(t, t)
    if isinstance(t, TensorType):
        known = lambda dim: mapping[dim] if isinstance(dim, Var) and dim in mapping else dim
        return TensorType(tuple(known(dim) for dim in t.dims))
    if isinstance(t, (list, tuple)):
        return type(t)(substitute_solution_one_type(mapping, each) for each in t)
    return t


def substitute_all_types(graph: Graph, mapping: dict[Any, Any]) -> None:
    """Writes values of variables, and of those that they stand for, into all types of a graph."""
    changed = True
    while changed:
        changed = False
        for key, value in mapping.items():
            further = mapping.get(value, value) if isinstance(value, Var) else value
            if further != value:
                mapping[key] = further
                changed = True
    for node in graph.nodes:
        node.type = substitute_solution_one_type(mapping, node.type)


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Whether the nodes of two graphs have the same types."""
    return all(n.type == m.type for n, m in zip(g1.nodes, g2.nodes))
