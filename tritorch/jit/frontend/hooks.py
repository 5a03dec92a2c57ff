"""Forward hooks of modules: their checks, and the calls of them around `forward`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritorch.jit.frontend import late
from tritorch.jit.frontend.emitter import Emitter
from tritorch.jit.frontend.functions import type_comment
from tritorch.jit.frontend.python import UNIT, definition_of, method_definition
from tritorch.jit.frontend.sugared import FunctionValue, MethodValue, SimpleValue, Sugared
from tritorch.jit.ir.function import GraphFunction
from tritorch.jit.ir.graph import Value
from tritorch.jit.ir.types import ScriptClassType
from tritorch.nn.modules.module import Module
from tritorch.schema import types
from tritorch.schema.signature import FunctionSchema


def declare(kind: ScriptClassType, module: Module) -> None:
    """Gives a module's type the hooks of the module; they are compiled when they are needed."""
    named: dict[str, Any] = {}
    for title, hooks, found in (
        ("Hook", module._forward_hooks, kind.forward_hooks),
        ("Pre-hook", module._forward_pre_hooks, kind.forward_pre_hooks),
    ):
        for hook in hooks.values():
            name = hook.__name__
            if named.setdefault(name, hook) is not hook:
                raise RuntimeError(
                    f"{title} '{name}' on {type(module).__name__} has at least two different "
                    "python definitions. Please use unique names for all hooks."
                )
            found.append(method_definition(kind, name, hook, UNIT))


def check(kind: ScriptClassType) -> None:
    """Compiles the hooks of a type, and checks that they fit `forward`."""
    for hook in (*kind.forward_pre_hooks, *kind.forward_hooks):
        if hook.name in kind.methods or hook.name in kind.attributes:
            raise RuntimeError(
                f"Can't define hook: {hook.name} on class: {kind.repr_str()} because a method or "
                "hook with that name already exists."
            )
    if not kind.forward_pre_hooks and not kind.forward_hooks:
        return
    forward = kind.methods["forward"].schema
    for hook in kind.forward_pre_hooks:
        _check_pre_hook(kind, hook, forward)
    output = forward._returns[0].type
    for hook in kind.forward_hooks:
        _check_hook(kind, hook.schema, hook.name, forward, output)
        output = hook.schema._returns[0].type


# ---- checks --------------------------------------------------------------------------------------


def _inputs_text(forward: FunctionSchema) -> str:
    arguments = forward._arguments[1:]
    return ", ".join(each.type.annotation_str for each in arguments) if arguments else "()"


def _check_input(schema: FunctionSchema, forward: FunctionSchema, who: str, expected: str) -> None:
    kind = schema._arguments[1].type
    if not isinstance(kind, types.TupleType):
        raise RuntimeError(
            f"{who}expected the input argument to be typed as a Tuple but found type: "
            f"'{kind.annotation_str}' instead.\n{expected}"
        )
    wanted = [each.type for each in forward._arguments[1:]]
    given = list(kind.elements())
    received = f"Received type: '{kind.annotation_str}'.\n{expected}"
    if not wanted and given:
        raise RuntimeError(f"{who}was expecting Tuple[()] as the input type. {received}")
    if len(given) != len(wanted):
        raise RuntimeError(
            f"{who}has the wrong number of contained types for the input argument's Tuple. "
            f"{received}"
        )
    if given != wanted:
        raise RuntimeError(
            f"{who}has the wrong inner types for the input tuple argument. {received}"
        )


def _check_pre_hook(kind: ScriptClassType, hook: GraphFunction, forward: FunctionSchema) -> None:
    schema, name = hook.schema, hook.name
    who = f"Pre-hook '{name}' on module '{kind.name()}' "
    inputs = _inputs_text(forward)
    wanted = [each.type for each in forward._arguments[1:]]
    single = ""
    if len(wanted) == 1 and not isinstance(wanted[0], types.TupleType):
        single = f", '{wanted[0].annotation_str}',"
    expected = (
        f"This error occurred while scripting the forward pre-hook '{name}' on module "
        f"'{kind.name()}'. If you did not want to script this pre-hook remove it from the original "
        f"NN module before scripting. Pre-hooks for module '{kind.name()}' are expected to have "
        f"the following signature: {name}(self, input: Tuple[{inputs}]) with a return type of "
        f"either 'None'{single} or 'Tuple[{inputs}]'.\n"
    )
    count = len(schema._arguments)
    if count != 2:
        raise RuntimeError(
            f"{who}was expected to only have exactly 2 inputs but it had {count} inputs. {expected}"
        )
    _check_input(schema, forward, who, expected)
    if not _says_what_it_returns(hook.python):
        raise RuntimeError(
            f"{who}is missing a return annotation. Return annotations are required, please add one."
            f"\n{expected}"
        )
    result = schema._returns[0].type
    wrong = f"{who}returned the wrong type of: '{result.annotation_str}'."
    if isinstance(result, types.NoneType):
        return
    if len(wanted) == 1 and wanted[0] == result:
        if isinstance(result, types.TupleType):
            raise RuntimeError(
                f"{wrong} When forward has a single tuple input argument, the return needs to be "
                "'None' or a nested tuple containing forward's input tuple argument as in: "
                f"'Tuple[{result.annotation_str}]'.\n{expected}"
            )
        return
    if not isinstance(result, types.TupleType):
        raise RuntimeError(wrong + expected)
    given = list(result.elements())
    if not wanted and given:
        raise RuntimeError(
            f"{wrong} Was expecting either 'None' or 'Tuple[()]' since forward had no arguments.\n"
            f"{expected}"
        )
    if len(given) != len(wanted):
        raise RuntimeError(
            f"{wrong} The returned tuple contains the wrong number of contained types.\n{expected}"
        )
    if given != wanted:
        raise RuntimeError(
            f"{wrong} The returned tuple contains the wrong inner types.\n{expected}"
        )


def _says_what_it_returns(function: Any) -> bool:
    source, node = definition_of(function)
    return node.returns is not None or type_comment(node, source) is not None


def _check_hook(
    kind: ScriptClassType, schema: FunctionSchema, name: str, forward: FunctionSchema,
    output: types.Type,
) -> None:  # fmt: skip
    who = f"Hook '{name}' on module '{kind.name()}' "
    expected = (
        f"This error occurred while scripting the forward hook '{name}' on module {kind.name()}. "
        "If you did not want to script this hook remove it from the original NN module before "
        f"scripting. This hook was expected to have the following signature: {name}(self, input: "
        f"Tuple[{_inputs_text(forward)}], output: {output.annotation_str}). The type of the output "
        "arg is the returned type from either the forward method or the previous hook if it "
        "exists. Note that hooks can return anything, but if the hook is on a submodule the outer "
        "module is expecting the same return type as the submodule's forward.\n"
    )
    count = len(schema._arguments)
    if count != 3:
        raise RuntimeError(
            f"{who}was expected to only have exactly 3 inputs but it had {count} inputs. {expected}"
        )
    _check_input(schema, forward, who, expected)
    given = schema._arguments[2].type
    if given != output:
        raise RuntimeError(
            f"{who}has the wrong type for the output argument. Received type: "
            f"'{given.annotation_str}'. Expected type: '{output.annotation_str}'.\n{expected}"
        )


# ---- calls ---------------------------------------------------------------------------------------


def call(
    em: Emitter, owner: Value, kind: ScriptClassType, args: Sequence[Value],
    kwargs: Mapping[str, Value], place: Any,
) -> Sugared:  # fmt: skip
    """The result of a call of a module: of `forward`, with the hooks before and after it."""
    given = em.pack_tuple([*args, *kwargs.values()])
    for hook in kind.forward_pre_hooks:
        changed = _value(em, hook, [owner, given], place)
        if not isinstance(changed._type, types.NoneType):
            is_tuple = isinstance(changed._type, types.TupleType)
            given = changed if is_tuple else em.pack_tuple([changed])
    if kind.forward_pre_hooks and args:
        args = em.unpack_tuple(given)
    result = MethodValue(owner, kind, "forward").call(em, args, kwargs, place)
    for hook in kind.forward_hooks:
        changed = _value(em, hook, [owner, given, result.as_value(em, place)], place)
        if not isinstance(changed._type, types.NoneType):
            result = SimpleValue(changed)
    return result


def _value(em: Emitter, hook: Any, args: Sequence[Value], place: Any) -> Value:
    return FunctionValue(hook).call(em, args, {}, place).as_value(em, place)


late.provides(call, "call_with_hooks")
