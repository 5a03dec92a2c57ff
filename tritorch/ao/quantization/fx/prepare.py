"""Observers in graphs: `prepare` finds what is quantized, and inserts them between operations."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import tritorch
from tritorch.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from tritorch.ao.quantization.backend_config.utils import (
    get_fusion_pattern_to_root_node_getter,
    get_module_to_qat_module,
)
from tritorch.ao.quantization.fx._equalize import (
    is_equalization_observer,
    node_supports_equalization,
)
from tritorch.ao.quantization.fx._target_dtypes import (
    _FLOAT,
    TargetDtypes,
    info_of,
    input_constructor,
    propagate_dtypes_for_known_nodes,
)
from tritorch.ao.quantization.fx.custom_config import (
    PrepareCustomConfig,
    StandaloneModuleConfigEntry,
    _from_dict_or_config,
)
from tritorch.ao.quantization.fx.match_utils import _find_matches, _MatchResultWithQConfig
from tritorch.ao.quantization.fx.pattern_utils import _sorted_patterns_dict
from tritorch.ao.quantization.fx.qconfig_mapping_utils import (
    _generate_node_name_to_qconfig,
    _get_flattened_qconfig_dict,
    _update_qconfig_for_fusion,
    _update_qconfig_for_qat,
)
from tritorch.ao.quantization.fx.quantize_handler import _get_pattern_to_quantize_handlers
from tritorch.ao.quantization.fx.utils import (
    ObservedGraphModuleAttrs,
    _insert_dequant_stubs_for_custom_module_lstm_output,
    _is_custom_module_lstm,
    _maybe_get_custom_module_lstm_from_node_arg,
    assert_and_get_unique_device,
    get_custom_module_class_keys,
    get_new_attr_name_with_prefix,
    node_arg_is_bias,
    node_arg_is_weight,
)
from tritorch.ao.quantization.observer import ObserverBase, _is_activation_post_process
from tritorch.ao.quantization.qconfig import QConfigAny
from tritorch.ao.quantization.qconfig_mapping import QConfigMapping
from tritorch.ao.quantization.quantize import convert, propagate_qconfig_
from tritorch.ao.quantization.utils import _parent_name, get_swapped_custom_module_class
from tritorch.core.dtype import dtype as DType
from tritorch.fx import GraphModule
from tritorch.fx.node import Node
from tritorch.nn import Module

__all__ = ["insert_observers_for_model", "prepare", "propagate_dtypes_for_known_nodes"]

_DO_NOT_OBS_DTYPE_LIST = [int, float, tritorch.bool, None]
_OBS_DTYPE_LIST = [
    tritorch.quint8,
    tritorch.qint8,
    tritorch.qint32,
    tritorch.float16,
    tritorch.uint8,
    tritorch.int8,
    tritorch.int16,
    tritorch.int32,
    tritorch.float8_e5m2,
    tritorch.float8_e4m3fn,
]


def _needs_obs_or_fq(
    prev_output_dtype: Any,
    cur_target_dtype: Any,
    cur_target_is_dynamic: bool,
    reuse_input_obs_or_fq: bool = False,
    is_zeroth_arg: bool = False,
) -> bool:
    """True if an observer goes between a value of one type and a use that wants another.

    Of dynamically quantized operations only the first argument is observed.
    """
    if cur_target_is_dynamic:
        if cur_target_dtype not in _OBS_DTYPE_LIST:
            raise AssertionError(
                f"Expected cur_target_dtype to be torch.float, but got: {cur_target_dtype}"
            )
        if prev_output_dtype in _DO_NOT_OBS_DTYPE_LIST:
            raise AssertionError("prev_output_dtype must not be in _DO_NOT_OBS_DTYPE_LIST")
        return is_zeroth_arg
    if reuse_input_obs_or_fq or cur_target_dtype not in _OBS_DTYPE_LIST:
        return False
    observable = [*_OBS_DTYPE_LIST, tritorch.float32]
    return prev_output_dtype in observable and cur_target_dtype != prev_output_dtype


def _is_activation_post_process_node(node: Any, named_modules: dict[str, Module]) -> bool:
    return (
        isinstance(node, Node)
        and node.op == "call_module"
        and _is_activation_post_process(named_modules[str(node.target)])
    )


def _get_standalone_module_configs(
    node: Node,
    named_modules: dict[str, Module],
    prepare_custom_config: PrepareCustomConfig,
    parent_qconfig: QConfigAny,
    parent_backend_config: BackendConfig | None,
) -> tuple[QConfigMapping, tuple[Any, ...], PrepareCustomConfig, BackendConfig | None]:
    """The configurations of a standalone module, by its name, by its class, or its parent's."""
    custom, name = prepare_custom_config, str(node.target)
    entry = StandaloneModuleConfigEntry(None, (), None, None)
    entry = custom.standalone_module_classes.get(type(named_modules[name]), entry)
    entry = custom.standalone_module_names.get(name, entry)
    return (
        entry.qconfig_mapping or QConfigMapping().set_global(parent_qconfig),
        entry.example_inputs,
        entry.prepare_custom_config or PrepareCustomConfig(),
        entry.backend_config or parent_backend_config,
    )


def _qat_swap_modules(root: Module, module_to_qat_module: dict[Any, type[Module]]) -> None:
    convert(root, mapping=module_to_qat_module, inplace=True, remove_qconfig=False)


def _node_names(matched: Any) -> set[str]:
    """Names of the nodes of a match."""
    if isinstance(matched, Node):
        return {matched.name}
    if isinstance(matched, (list, tuple)):
        return set().union(*map(_node_names, matched))
    return set()


def _observed_above(node: Any, named_modules: dict[str, Module], any_arg: bool) -> Node | None:
    """The observer that a value comes from through operations that are not observed.

    `any_arg` follows the first argument that is a node, else the first one.
    """
    for _ in range(10001):
        if _is_activation_post_process_node(node, named_modules):
            return node
        if not isinstance(node, Node) or len(node.args) < 1:
            return None
        if any_arg:
            if node.op == "placeholder":
                return None
            nodes = [arg for arg in node.args if isinstance(arg, Node)]
            node = nodes[0] if nodes else node.args[-1]
        else:
            node = node.args[0]
    raise AssertionError("Unable to find observer of previous node")


class _Insertion:
    """Inserts observers into one model, node by node; a node's inputs are done before it."""

    def __init__(
        self,
        model: GraphModule,
        matches: dict[str, _MatchResultWithQConfig],
        node_name_to_qconfig: dict[str, QConfigAny],
        prepare_custom_config: PrepareCustomConfig,
        equalization_config_map: dict[str, Any],
        backend_config: BackendConfig,
        observed_node_names: set[str],
    ) -> None:
        self.model, self.graph = model, model.graph
        self.matches = matches
        self.node_name_to_qconfig = node_name_to_qconfig
        self.custom = prepare_custom_config
        self.equalization = equalization_config_map
        self.observed_node_names = observed_node_names
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.dtypes = TargetDtypes(backend_config, self.modules)
        self.device = assert_and_get_unique_device(model)
        self.swapped: set[Any] = set()

    def run(self) -> Node | None:
        """Inserts all observers; returns the output's node."""
        custom = self.custom
        self.dtypes.initialize(
            self.graph,
            self.matches,
            custom.input_quantized_indexes,
            custom.output_quantized_indexes,
        )
        output = None
        for node in list(self.graph.nodes):
            if node.op == "output":
                node.args = tuple(self._observed_result(arg) for arg in node.args)
                output = node
            elif node.op in ("call_module", "call_method", "call_function"):
                self._observe(node)
        return output

    def _observe(self, node: Node) -> None:
        """Inserts the observers of one operation, if it is quantized."""
        last_node, matched, pattern, handler, qconfig = self.matches.get(node.name, (None,) * 5)
        supported = self.dtypes.is_supported(pattern, matched, qconfig)
        if qconfig is None or info_of(node) is None or not supported:
            return
        if matched is None:
            raise AssertionError("matched_node_pattern must not be None")
        self.observed_node_names |= _node_names(matched)
        branches = self._is_branch(node)
        if node is self.dtypes.root_node(pattern, matched):
            self._observe_inputs(node, qconfig, handler)
            self._observe_for_equalization(node, branches)
        if node is not last_node:
            return
        if _is_custom_module_lstm(node, self.modules, qconfig, handler):
            _insert_dequant_stubs_for_custom_module_lstm_output(
                node, self.model, self.modules, self.graph
            )
            self._swap_to_observed(node, qconfig)
            return
        observer = self._observe_output(node)
        if observer is None:
            return
        for user in list(node.users):
            if user is not observer:
                user.replace_input_with(node, observer)
        info = info_of(node)
        shares = info.get("input_output_share_observers", False) and self._is_observed_here(node)
        if (shares or info.get("reuse_input_obs_or_fq", False)) and not self._share(node):
            self._remove_output_observer(node)
        if handler is not None and handler.is_custom_module():
            self._swap_to_observed(node, qconfig)

    def _insert(self, node: Node, observer: Any) -> Node:
        """A call of a new observer of the model on a node."""
        if self.device:
            observer.to(self.device)
        equalizes = is_equalization_observer(observer)
        prefix = f"{node.name}_equalization_process_" if equalizes else "activation_post_process_"
        name = get_new_attr_name_with_prefix(prefix)(self.model)
        setattr(self.model, name, observer)
        self.modules[name] = observer
        with self.graph.inserting_after(node):
            return self.graph.create_node("call_module", name, (node,), {})

    def _dtype_as_output(self, arg: Node) -> DType | None:
        """The type that a value has, through the observers that were inserted."""
        source: Any = _maybe_get_custom_module_lstm_from_node_arg(arg, self.modules)
        if source is None and _is_activation_post_process_node(arg, self.modules):
            source = arg.args[0]
            if not isinstance(source, Node):
                raise AssertionError("Currently we only support observing Node")
        if source is not None:
            return self.dtypes.of(info_of(source)["output_act_obs_or_fq_ctr"])[0]
        info = arg.meta.get("target_dtype_info", {})
        return self.dtypes.of(info.get("output_act_obs_or_fq_ctr", _FLOAT))[0]

    def _observe_inputs(self, node: Node, qconfig: Any, handler: Any) -> None:
        """Observes the arguments that a node wants in another type."""
        node.args = tuple(self._observed_arg(node, arg, qconfig, handler) for arg in node.args)
        node.kwargs = {
            key: self._observed_arg(node, arg, qconfig, handler) for key, arg in node.kwargs.items()
        }

    def _observed_arg(self, node: Node, arg: Any, qconfig: Any, handler: Any) -> Any:
        if isinstance(arg, (list, tuple)):
            return type(arg)(self._observed_arg(node, each, qconfig, handler) for each in arg)
        if not isinstance(arg, Node):
            return arg
        if handler is not None and handler.is_standalone_module():
            constructor = qconfig.activation
            wanted, needed = self._standalone_input(node, arg, qconfig)
        else:
            constructor = input_constructor(node, arg)
            wanted, is_dynamic = self.dtypes.of(constructor)
            needed = _needs_obs_or_fq(
                self._dtype_as_output(arg),
                wanted,
                is_dynamic,
                info_of(node).get("reuse_input_obs_or_fq", False),
                is_zeroth_arg=len(node.args) > 0 and arg is node.args[0],
            )
        if not needed:
            return arg
        observer = constructor() if constructor else None
        for user in arg.users:  # another use may have been observed before
            if user.op == "call_module":
                module = self.modules[str(user.target)]
                if type(module) is type(observer) and module.dtype == wanted:
                    return user
        if observer is None:
            raise AssertionError("arg_as_input_act_obs_or_fq must not be None")
        return self._insert(arg, observer)

    def _standalone_input(self, node: Node, arg: Node, qconfig: Any) -> tuple[Any, bool]:
        """The type that a standalone module wants an input in, and whether it has another."""
        if qconfig is None:
            raise AssertionError("qconfig must not be None")
        backend = self.dtypes.backend_config
        custom = _get_standalone_module_configs(node, self.modules, self.custom, qconfig, backend)[
            2
        ]
        indices = [index for index, each in enumerate(node.args) if each is arg]
        if not indices or indices[0] not in custom.input_quantized_indexes:
            return tritorch.float32, False
        return tritorch.quint8, self._dtype_as_output(arg) != tritorch.quint8

    def _is_branch(self, node: Node) -> bool:
        """True if another quantized operation reads the node's first input."""
        source = node.args[0] if node.args else None
        if not isinstance(source, Node) or len(source.users) <= 1:
            return False
        return any(
            self.node_name_to_qconfig.get(user.name) is not None
            or (
                user.op == "call_module"
                and isinstance(self.modules[str(user.target)], ObserverBase)
            )
            for user in source.users
            if user is not node
        )

    def _observe_for_equalization(self, node: Node, branches: bool) -> None:
        """Inserts the observers of input and weight that equalization needs."""
        qconfig = self.equalization.get(node.name)
        if qconfig is None or not node_supports_equalization(node, self.modules):
            return
        if branches:
            warnings.warn(f"Cannot equalize {node} because it is part of a branch.", stacklevel=2)
            return
        new_args: list[Any] = []
        for arg in node.args:
            if isinstance(arg, Node) and not node_arg_is_bias(node, arg):
                is_weight = node_arg_is_weight(node, arg)
                arg = self._insert(
                    arg, (qconfig.weight if is_weight else qconfig.input_activation)()
                )
            new_args.append(arg)
        node.args = tuple(new_args)

    def _observe_output(self, node: Node) -> Node | None:
        """The observer of a node's output, if it needs one; dynamic and standalone ones do not."""
        info = info_of(node)
        constructor: Any = info.get("output_act_obs_or_fq_ctr")
        dtype, is_dynamic = self.dtypes.of(constructor)
        if is_dynamic or info.get("_is_standalone_module", False):
            return None
        if not _needs_obs_or_fq(tritorch.float32, dtype, False):
            return None
        return self._insert(node, constructor())

    def _is_observed_here(self, node: Node) -> bool:
        """True if the observer of a node's input is in this graph; that of a quantized input of the
        graph is not."""
        source = node.args[0] if node.args else None
        quantized = self._dtype_as_output(node) in (tritorch.quint8, tritorch.uint8)
        return not (isinstance(source, Node) and quantized and source.op == "placeholder")

    def _replace_module(self, target: Any, module: Module) -> None:
        parent, name = _parent_name(target)
        setattr(self.modules[parent], name, module)
        self.modules[target] = module

    def _share(self, node: Node) -> bool:
        """Makes all inputs and the output use the observer of the first input; False without
        one."""
        first = next((arg for arg in node.args if isinstance(arg, (Node, list, tuple))), None)
        if first is None:
            return False
        entries = list(first) if isinstance(first, (list, tuple)) else [first]
        source = _observed_above(entries[0], self.modules, any_arg=True)
        if source is None:
            return False
        shared = self.modules[str(source.target)]
        for entry in entries[1:]:
            other = _observed_above(entry, self.modules, any_arg=False)
            if other is None:
                return False
            self._replace_module(other.target, shared)
        for user in node.users:
            if not _is_activation_post_process_node(user, self.modules):
                raise AssertionError("output_obs_node must be an activation post process node")
            self._replace_module(user.target, shared)
        return True

    def _remove_output_observer(self, node: Node) -> None:
        for user in list(node.users):
            if not _is_activation_post_process_node(user, self.modules):
                raise AssertionError("output_obs_node must be an activation post process node")
            user.replace_all_uses_with(node)
            self.graph.erase_node(user)

    def _swap_to_observed(self, node: Node, qconfig: QConfigAny) -> None:
        """Swaps a custom module for its observed form, once however often it is called."""
        if node.target in self.swapped:
            return
        self.swapped.add(node.target)
        module = self.modules[str(node.target)]
        observed_class = get_swapped_custom_module_class(
            module, self.custom.float_to_observed_mapping, qconfig
        )
        self._replace_module(node.target, observed_class.from_float(module))

    def _observed_result(self, value: Any) -> Any:
        """The result of a graph, with observers where it is to be quantized and is not."""
        if isinstance(value, (list, tuple)):
            results = [self._observed_result(entry) for entry in value]
            return results if isinstance(value, list) else tuple(results)
        if isinstance(value, dict):
            return {key: self._observed_result(entry) for key, entry in value.items()}
        if value is None:
            return None
        if not isinstance(value, Node):
            raise Exception("Unhandled type for returned node:", value)
        constructor = value.meta.get("target_dtype_info", {}).get("input_act_obs_or_fq_ctr")
        wanted = self.dtypes.of(constructor)[0] if constructor else tritorch.float32
        if wanted == tritorch.float32 or self._dtype_as_output(value) == wanted:
            return value
        return self._insert(value, constructor())


def insert_observers_for_model(
    model: GraphModule,
    node_name_to_match_result_with_qconfig: dict[str, _MatchResultWithQConfig],
    node_name_to_qconfig: dict[str, QConfigAny],
    prepare_custom_config: PrepareCustomConfig,
    equalization_config_map: dict[str, Any],
    backend_config: BackendConfig,
    observed_node_names: set[str],
    is_qat: bool,
) -> Node | None:
    """Inserts observers where an operation wants its inputs in other types than they have, and
    after operations whose results are quantized; returns the output's node.

    `observed_node_names` gets the names of all nodes of the operations that are quantized.
    """
    return _Insertion(
        model,
        node_name_to_match_result_with_qconfig,
        node_name_to_qconfig,
        prepare_custom_config,
        equalization_config_map,
        backend_config,
        observed_node_names,
    ).run()


def _run_prepare_fx_on_standalone_modules(
    model: Module,
    is_qat: bool,
    named_modules: dict[str, Module],
    node_name_to_match_result_with_qconfig: dict[str, Any],
    prepare_custom_config: PrepareCustomConfig,
    backend_config: BackendConfig,
) -> None:
    """Replaces standalone modules by prepared ones; the graph stays as it is."""
    from tritorch.ao.quantization.quantize_fx import _prepare_standalone_module_fx

    for node, _, _, handler, qconfig in node_name_to_match_result_with_qconfig.values():
        if handler is None or not handler.is_standalone_module():
            continue
        mapping, inputs, custom, backend = _get_standalone_module_configs(
            node, named_modules, prepare_custom_config, qconfig, backend_config
        )
        observed = _prepare_standalone_module_fx(
            named_modules[node.target],
            mapping,
            is_qat,
            example_inputs=inputs,
            prepare_custom_config=custom,
            backend_config=backend,
        )
        parent, name = _parent_name(node.target)
        setattr(named_modules[parent], name, observed)
        named_modules[node.target] = observed


def prepare(
    model: GraphModule,
    qconfig_mapping: QConfigMapping | dict[str, Any],
    is_qat: bool,
    node_name_to_scope: dict[str, tuple[str, type]],
    example_inputs: tuple[Any, ...],
    prepare_custom_config: PrepareCustomConfig | dict[str, Any] | None = None,
    _equalization_config: QConfigMapping | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
    is_standalone_module: bool = False,
) -> GraphModule:
    """A graph with observers, whose meta has what `convert` needs.

    `node_name_to_scope` has the path and type of the module whose code a node is from. A standalone
    module's quantized inputs are observed by its parent, which meta says too.
    """
    mapping = _from_dict_or_config(qconfig_mapping, QConfigMapping, "QConfig dictionary", "prepare")
    equalization: Any = _equalization_config
    if isinstance(equalization, dict):
        warnings.warn(
            "Passing a QConfig dictionary to prepare for equalization is deprecated and will not "
            "be supported in a future version. Please pass in a QConfigMapping instead.",
            FutureWarning,
            stacklevel=2,
        )
        equalization = QConfigMapping.from_dict(equalization)
    custom = _from_dict_or_config(
        prepare_custom_config, PrepareCustomConfig, "prepare_custom_config_dict", "prepare"
    )
    if backend_config is None:
        backend_config = get_native_backend_config()
    backend = _from_dict_or_config(backend_config, BackendConfig, "backend_config_dict", "prepare")
    if not isinstance(mapping, QConfigMapping):
        raise AssertionError("qconfig_mapping must be a QConfigMapping")
    if equalization is None:
        equalization = QConfigMapping()
    if not isinstance(equalization, QConfigMapping):
        raise AssertionError("_equalization_config must be a QConfigMapping")
    mapping, equalization = copy.deepcopy(mapping), copy.deepcopy(equalization)

    _update_qconfig_for_fusion(model, mapping)
    _update_qconfig_for_fusion(model, equalization)
    propagate_qconfig_(model, _get_flattened_qconfig_dict(mapping), custom.to_dict())
    if is_qat:
        _qat_swap_modules(model, get_module_to_qat_module(backend))
        _update_qconfig_for_qat(mapping, backend)
    modules = dict(model.named_modules(remove_duplicate=False))
    equalization_qconfigs = _generate_node_name_to_qconfig(
        model, modules, model.graph, equalization, node_name_to_scope
    )
    qconfigs = _generate_node_name_to_qconfig(
        model, modules, model.graph, mapping, node_name_to_scope
    )
    matches = _find_matches(
        model.graph,
        modules,
        _sorted_patterns_dict(_get_pattern_to_quantize_handlers(backend)),
        get_fusion_pattern_to_root_node_getter(backend),
        list(custom.standalone_module_names),
        list(custom.standalone_module_classes),
        get_custom_module_class_keys(custom.float_to_observed_mapping),
    )
    with_qconfig: Any = {name: (*match, qconfigs[name]) for name, match in matches.items()}
    _run_prepare_fx_on_standalone_modules(model, is_qat, modules, with_qconfig, custom, backend)
    observed_names: set[str] = set()
    output = insert_observers_for_model(
        model,
        with_qconfig,
        qconfigs,
        custom,
        equalization_qconfigs,
        backend,
        observed_names,
        is_qat,
    )
    model = GraphModule(model, model.graph)
    attributes = ObservedGraphModuleAttrs(
        node_name_to_qconfig=qconfigs,
        node_name_to_scope=node_name_to_scope,
        prepare_custom_config=custom,
        equalization_node_name_to_qconfig=equalization_qconfigs,
        qconfig_mapping=mapping,
        is_qat=is_qat,
        observed_node_names=observed_names,
    )
    model.meta["_observed_graph_module_attrs"] = attributes
    if is_standalone_module:
        if output is None:
            raise AssertionError("result_node must not be None for standalone modules")
        if not isinstance(output.args[0], Node):
            raise AssertionError(
                "standalone module only supports returning simple value currently "
                "(not tuple, dict etc.)"
            )
        attributes.is_observed_standalone_module = True
        attributes.standalone_module_input_quantized_idxs = custom.input_quantized_indexes
        attributes.standalone_module_output_quantized_idxs = custom.output_quantized_indexes
    return model
