"""Exported programs: a graph of ATen's operators, what its inputs are, and the state it reads."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tritorch.core.tensor import Tensor
from tritorch.export.decomp_utils import CustomDecompTable
from tritorch.export.graph_signature import (
    ArgumentSpec,
    ExportGraphSignature,
    InputKind,
)
from tritorch.fx.graph import Graph
from tritorch.fx.graph_module import GraphModule
from tritorch.nn.modules.module import Module
from tritorch.nn.parameter import Parameter
from tritorch.utils._pytree import TreeSpec

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    """What a call of a module is given and gives."""

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None

    def replace_all_uses_with(self, original_node: Any, new_node: Any) -> None:
        """Renames a node."""
        for each in (*self.inputs, *self.outputs):
            if getattr(each, "name", None) == original_node.name:
                each.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A module of the program, by its name; its signature where that was asked for."""

    fqn: str
    signature: ModuleCallSignature | None = None


class CallSpec(NamedTuple):
    """The structures of arguments and results."""

    in_spec: TreeSpec
    out_spec: TreeSpec


class Verifier:
    """What a program's graph must be like."""

    dialect = "TRAINING"


def default_decompositions() -> CustomDecompTable:
    """The table that `run_decompositions` takes without one; programs change a copy."""
    return CustomDecompTable()


class ExportedProgram:
    """A program as a graph.  `module()` gives what runs it."""

    _guards: list[Any]

    def __init__(
        self,
        root: Module | dict[str, Any],
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        range_constraints: dict[Any, Any],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: list[type[Verifier]] | None = None,
    ) -> None:
        graph._codegen = type(Graph()._codegen)()
        self._graph_module = GraphModule(root, graph, "GraphModule")
        self._graph_signature = graph_signature
        self._state_dict, self._constants = state_dict, dict(constants or {})
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._verifiers = verifiers or [Verifier]
        self._guards = []

    # ---- parts --------------------------------------------------------------------------------

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module of flat inputs."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What inputs and outputs are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and persistent buffers, by their names."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Other tensors that the graph reads, by their names."""
        return self._constants

    tensor_constants = constants

    @property
    def range_constraints(self) -> dict[Any, Any]:
        """Between which numbers symbols lie."""
        return self._range_constraints

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules of the program."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> Any:
        """The arguments that the program was exported with."""
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value: Any) -> None:
        if value is not None:
            if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple)
                    and isinstance(value[1], dict)):  # fmt: skip
                raise ValueError("Example inputs should be a tuple of args, a tuple, and kwargs")
        self._example_inputs = value

    @property
    def call_spec(self) -> CallSpec:
        """The structures of arguments and results."""
        signature = self._module_call_graph[0].signature
        assert signature is not None
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def verifier(self) -> Any:
        """What the graph must be like."""
        return self._verifiers[0]

    @property
    def verifiers(self) -> list[Any]:
        """What the graph must be like."""
        return self._verifiers

    @property
    def dialect(self) -> str:
        """Which operators the graph may have."""
        return self._verifiers[0].dialect

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their names."""
        for name in self.graph_signature.parameters:
            yield name, self._state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names."""
        hidden = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, (self._constants if name in hidden else self._state_dict)[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` "
            "instead."
        )

    def __str__(self) -> str:
        code = self._graph_module.print_readable(print_output=False, colored=False)
        code = code.replace("\n", "\n    ")
        signature = str(self._graph_signature).replace("\n", "\n    ")
        return (
            f"ExportedProgram:\n    {code}\nGraph signature: {signature}\n"
            f"Range constraints: {self._range_constraints}\n"
        )

    __repr__ = __str__

    # ---- what is made of it -------------------------------------------------------------------

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that is called as the original one, whose state this program's is."""
        from tritorch.export._unlift import unlifted

        return unlifted(self, check_guards)

    def run_decompositions(
        self, decomp_table: dict[Any, Callable[..., Any]] | None = None,
        decompose_custom_triton_ops: bool = False,
    ) -> ExportedProgram:  # fmt: skip
        """The program without writes, of smaller operators: `decomp_table` says which functions
        stand for which; without one, for all that ATen's core set lacks."""
        from tritorch.export._functional import decomposed

        return decomposed(self, decomp_table)

    def _transform_do_not_use(self, *passes: Callable[[GraphModule], Any]) -> ExportedProgram:
        """The program after passes over a copy of its graph."""
        made = self._graph_module
        for each in passes:
            result = each(copy.deepcopy(made))
            made = getattr(result, "graph_module", made) if result is not None else made
        return self._update(made, self._graph_signature)

    def _update(
        self, graph_module: GraphModule, graph_signature: ExportGraphSignature, *,
        state_dict: dict[str, Any] | None = None, constants: dict[str, Any] | None = None,
        verifiers: Any = None,
    ) -> ExportedProgram:  # fmt: skip
        """The same program with another graph."""
        made = ExportedProgram(
            graph_module, graph_module.graph, graph_signature,
            self._state_dict if state_dict is None else state_dict,
            dict(self._range_constraints), copy.deepcopy(self._module_call_graph),
            self._example_inputs, self._constants if constants is None else constants,
            verifiers=verifiers or self._verifiers,
        )  # fmt: skip
        made._guards = list(self._guards)
        return made

    def validate(self) -> None:
        """Looks whether the graph and its signature fit."""
        placed = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        said = [spec.arg.name for spec in self.graph_signature.input_specs]
        if placed != said:
            raise AssertionError(f"inputs {placed} of the graph are not those of its signature")
        self.graph.lint()

    _validate = validate

    def _num_lifted_params_buffers(self) -> int:
        kinds = [spec.kind for spec in self.graph_signature.input_specs]
        return next((i for i, k in enumerate(kinds) if k is InputKind.USER_INPUT), len(kinds))


def _fixed(name: str) -> property:
    """A property that programs may not set."""
    plain = getattr(ExportedProgram, name)

    def refuse(self: Any, value: Any) -> None:
        raise RuntimeError(
            f"Unable to set ExportedProgram's {name} attribute. Use `_update` for a new program."
        )

    return plain.setter(refuse)


for _name in ("graph_module", "graph", "graph_signature", "state_dict", "range_constraints",
              "module_call_graph", "call_spec", "verifier", "verifiers", "dialect",
              "tensor_constants", "constants"):  # fmt: skip
    setattr(ExportedProgram, _name, _fixed(_name))
