"""Reference patterns become quantized operations: `dequantize`, an operation,
`quantize_per_tensor`.

Modules are swapped for quantized ones; weights of functions are packed once, into attributes.
"""

from __future__ import annotations

from typing import Any

import tritorch
from tritorch.ao.quantization.fx import _lowering_tables as tables
from tritorch.ao.quantization.fx._lowering_tables import (
    CONV_FUNCTIONAL_OPS,
    CONV_TRANSPOSE_FUNCTIONAL_OPS,
    DYNAMIC_LOWER_FUNCTIONAL_MAP,
    DYNAMIC_LOWER_FUSED_MODULE_MAP,
    DYNAMIC_LOWER_MODULE_MAP,
    QBIN_OP_MAPPING,
    QBIN_RELU_OP_MAPPING,
    QOP_TO_ARG_NAMES_TO_SKIP,
    SPECIAL_PATTERN_LOWER_MODULE_MAP,
    STATIC_LOWER_FUNCTIONAL_MAP,
    STATIC_LOWER_FUSED_MODULE_MAP,
    STATIC_LOWER_FUSED_MODULE_TWO_INPUTS_MAP,
    STATIC_LOWER_MODULE_MAP,
    WEIGHT_ONLY_LOWER_MODULE_MAP,
    WEIGHT_PREPACK_OPS,
)
from tritorch.ao.quantization.fx._nodes import _get_module
from tritorch.ao.quantization.fx.graph_module import _load_packed_weight, _save_packed_weight
from tritorch.ao.quantization.fx.utils import (
    collect_producer_nodes,
    create_node_from_old_node_preserve_meta,
    get_linear_prepack_op_for_dtype,
    get_new_attr_name_with_prefix,
    get_qconv_prepack_op,
    graph_module_from_producer_nodes,
)
from tritorch.ao.quantization.qconfig import QConfigAny
from tritorch.ao.quantization.quantization_mappings import get_quantized_operator
from tritorch.ao.quantization.utils import _parent_name
from tritorch.fx import GraphModule
from tritorch.fx.graph import Graph
from tritorch.fx.node import Node, map_arg
from tritorch.nn import Module, ReLU, functional

ORIGINAL_WEIGHTS_LOOKUP = "original_weights_lookup"

_Found = tuple[bool, bool, bool]


def _is_node_in_list(
    node: Any,
    modules: dict[str, Module],
    func_list: list[Any],
    method_list: list[Any],
    module_type_list: list[Any],
) -> _Found:
    """True if a node calls one of the functions, of the methods, or a module of the types."""
    return (
        node.op == "call_function" and node.target in func_list,
        node.op == "call_method" and node.target in method_list,
        node.op == "call_module" and type(modules[str(node.target)]) in module_type_list,
    )


def is_fixed_qparams_node(node: Any, modules: dict[str, Module]) -> _Found:
    """True if the scale of a node's result is fixed."""
    return _is_node_in_list(node, modules, *tables.FIXED_QPARAMS)


def is_default_node(node: Any, modules: dict[str, Module]) -> _Found:
    """True if a node has a quantized form that takes the scale of its result."""
    return _is_node_in_list(node, modules, *tables.DEFAULT)


def is_copy_node(node: Any, modules: dict[str, Module]) -> _Found:
    """True if a node computes on quantized inputs as they are, with their scale."""
    return _is_node_in_list(node, modules, *tables.COPY)


def is_general_tensor_shape_node(node: Any, modules: dict[str, Module]) -> _Found:
    """True if a node moves elements, or asks for sizes."""
    return _is_node_in_list(node, modules, *tables.TENSOR_SHAPE)


def is_other_node(node: Any, modules: dict[str, Module]) -> _Found:
    """True if a node concatenates."""
    return _is_node_in_list(node, modules, *tables.OTHER)


def is_special_pattern_node(node: Any, modules: dict[str, Module]) -> _Found:
    """True if a node is of one of the kinds above."""
    kinds = (
        is_fixed_qparams_node,
        is_default_node,
        is_copy_node,
        is_general_tensor_shape_node,
        is_other_node,
    )
    found = [kind(node, modules) for kind in kinds]
    functions, methods, calls = (any(each) for each in zip(*found))
    return functions, methods, calls


def is_dequantize_node(node: Any) -> bool:
    """True if a node dequantizes."""
    return isinstance(node, Node) and node.op == "call_method" and node.target == "dequantize"


def is_getattr_tensor_metadata_node(node: Node) -> bool:
    """True if a node reads a tensor's shape."""
    return node.op == "call_function" and node.target is getattr and node.args[1] == "shape"


def is_get_tensor_info_node(node: Node) -> bool:
    """True if a node calls a method for a tensor's sizes."""
    return node.op == "call_method" and node.target in ["shape", "size"]


def should_skip_lowering(op: Node, qconfig_map: dict[str, QConfigAny]) -> bool:
    """True if the user asked not to quantize a node."""
    return op.name in qconfig_map and qconfig_map[op.name] is None


def _is_relu(node: Any, modules: dict[str, Module]) -> bool:
    if node.op == "call_function":
        return node.target in (functional.relu, tritorch.relu)
    return node.op == "call_module" and type(_get_module(node, modules)) is ReLU


def _match_static(
    node: Node,
    modules: dict[str, Module],
    qconfig_map: dict[str, QConfigAny],
    operations: Any,
    inputs: list[int] | None,
    allow_relu: bool = True,
) -> tuple[Node, Node | None, Node] | None:
    """A quantization, the relu before it if any, and the operation before that, one of
    `operations`.

    Of the arguments at the indices `inputs` those that are nodes are dequantized, and one is at
    least; None stands for two arguments that both are.
    """
    if node.op != "call_function" or node.target is not tritorch.quantize_per_tensor:
        return None
    reference: Any = node.args[0]
    relu = None
    if allow_relu and _is_relu(reference, modules):
        relu, reference = reference, reference.args[0]
    if should_skip_lowering(reference, qconfig_map):
        return None
    if reference.op == "call_module":
        key: Any = type(_get_module(reference, modules))
    elif reference.op == "call_function":
        key = reference.target
    else:
        return None
    if key not in operations:
        return None
    if inputs is None:
        matches = len(reference.args) == 2 and all(map(is_dequantize_node, reference.args))
    else:
        if inputs[-1] >= len(reference.args):
            raise AssertionError(
                f"Dequantize index {inputs[-1]} exceeded reference node's arg length "
                f"{len(reference.args)}"
            )
        nodes = [arg for arg in map(reference.args.__getitem__, inputs) if isinstance(arg, Node)]
        matches = len(nodes) > 0 and all(map(is_dequantize_node, nodes))
    return (node, relu, reference) if matches else None


def _read_quantized(node: Node, dequantized: Any) -> None:
    """Makes a node read the quantized form of what is dequantized for it."""
    node.replace_input_with(dequantized, dequantized.args[0])


def _swap(modules: dict[str, Module], node: Node, module: Module) -> None:
    parent, name = _parent_name(str(node.target))
    setattr(modules[parent], name, module)


def _quantized_class(module: Any, plain: dict[Any, Any], fused: dict[Any, Any]) -> Any:
    """The class for a reference module, None for a fused module without one in it."""
    kind = type(module)
    if kind not in fused:
        return plain.get(kind)
    inner, quantized = fused[kind]
    return quantized if type(module[0]) is inner else None


def _lower_static_modules(
    model: GraphModule,
    qconfig_map: dict[str, QConfigAny],
    plain: dict[Any, Any],
    fused: dict[Any, Any],
    inputs: list[int] | None,
) -> None:
    """Swaps statically quantized reference modules."""
    modules = dict(model.named_modules(remove_duplicate=False))
    operations = {**plain, **fused}
    for node in model.graph.nodes:
        match = _match_static(
            node, modules, qconfig_map, operations, inputs, allow_relu=inputs is not None
        )
        if match is None or match[2].op != "call_module":
            continue
        quantize, _, reference = match
        _, scale, zero_point, _ = quantize.args
        module = _get_module(reference, modules)
        quantized = _quantized_class(module, plain, fused)
        if quantized is None:
            continue
        _swap(
            modules,
            reference,
            quantized.from_reference(
                module,
                getattr(model, scale.target),
                getattr(model, zero_point.target),
            ),
        )
        for arg in reference.args:
            if is_dequantize_node(arg):
                _read_quantized(reference, arg)
        quantize.replace_all_uses_with(reference)
        for each in (quantize, scale, zero_point):
            model.graph.erase_node(each)


def _dynamically_quantized(node: Any) -> Node | None:
    """The dynamic quantization whose result a node dequantizes."""
    if not is_dequantize_node(node):
        return None
    source = node.args[0]
    if source.op != "call_function" or source.target is not tritorch.quantize_per_tensor_dynamic:
        return None
    dtypes = (tritorch.float16, tritorch.quint8, tritorch.qint8)
    return source if source.args[1] in dtypes else None


def _lower_dynamic_weighted_ref_module(model: GraphModule) -> None:
    """Swaps dynamically quantized reference modules."""
    modules = dict(model.named_modules(remove_duplicate=False))
    known = {*DYNAMIC_LOWER_MODULE_MAP, *DYNAMIC_LOWER_FUSED_MODULE_MAP}
    for node in model.graph.nodes:
        if node.op != "call_module" or type(modules[str(node.target)]) not in known:
            continue
        dequantized = node.args[0]
        source = _dynamically_quantized(dequantized)
        module = modules[str(node.target)]
        quantized = _quantized_class(
            module, DYNAMIC_LOWER_MODULE_MAP, DYNAMIC_LOWER_FUSED_MODULE_MAP
        )
        if source is None or quantized is None:
            continue
        _swap(modules, node, quantized.from_reference(module))
        node.replace_input_with(dequantized, source.args[0])


def _lower_weight_only_weighted_ref_module(model: GraphModule) -> None:
    """Swaps reference modules whose weight alone is quantized."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for node in model.graph.nodes:
        if node.op == "call_module":
            module = modules[str(node.target)]
            quantized = WEIGHT_ONLY_LOWER_MODULE_MAP.get(type(module))
            if quantized is not None:
                _swap(modules, node, quantized.from_reference(module))


def _prepack(function: Any, weight: Node, rest: list[Any]) -> tuple[Any, list[Any]]:
    """The operator that packs the weight of a function, and its arguments.

    Numbers for one dim become tuples; transposed convolutions swap dilation and groups.
    """
    args: list[Any] = [weight, *rest]
    if function is functional.linear:
        return get_linear_prepack_op_for_dtype(weight.args[-1]), args
    transposed = function in CONV_TRANSPOSE_FUNCTIONAL_OPS
    if not transposed and function not in CONV_FUNCTIONAL_OPS:
        raise ValueError(f"Lowering is not supported for op '{function}'")
    pack = get_qconv_prepack_op(function)
    if pack in (
        tritorch.ops.quantized.conv1d_prepack,
        tritorch.ops.quantized.conv_transpose1d_prepack,
    ):
        for index in (2, 3, 4, 6) if transposed else (2, 3, 4):
            if len(args) > index and isinstance(args[index], int):
                args[index] = (args[index],)
    if transposed and len(args) > 6:
        args[5], args[6] = args[6], args[5]
    return pack, args


def _with_renamed_bias(node: Node) -> dict[str, Any]:
    """Keyword arguments of a function as the packing operator calls them."""
    named = dict(node.kwargs)
    if node.target is functional.linear and "bias" in named:
        named["B"] = named.pop("bias")
    return named


def _lower_static_weighted_ref_functional(
    model: GraphModule, qconfig_map: dict[str, QConfigAny]
) -> None:
    """Replaces statically quantized functions with weights."""
    modules = dict(model.named_modules(remove_duplicate=False))
    quantizations = (tritorch.quantize_per_tensor, tritorch.quantize_per_channel)
    for node in model.graph.nodes:
        match = _match_static(node, modules, qconfig_map, STATIC_LOWER_FUNCTIONAL_MAP, [0, 1])
        if match is None:
            continue
        quantize, relu, function = match
        _, scale, zero_point, _ = quantize.args
        source, weight_source, *rest = function.args
        weight: Any = weight_source.args[0]
        if weight.op != "call_function" or weight.target not in quantizations:
            continue
        pack, args = _prepack(function.target, weight, rest)
        with model.graph.inserting_before(scale):
            packed = model.graph.create_node(
                "call_function", pack, tuple(args), _with_renamed_bias(function)
            )
        alone, with_relu = STATIC_LOWER_FUNCTIONAL_MAP[function.target]
        function.target = alone if relu is None or with_relu is None else with_relu
        function.args = (source.args[0], packed, scale, zero_point)
        function.kwargs = {}
        quantize.replace_all_uses_with(function)
        zero_point.append(function)
        model.graph.erase_node(quantize)
        if relu is not None and with_relu is not None:
            model.graph.erase_node(relu)


def _lower_dynamic_weighted_ref_functional(
    model: GraphModule, qconfig_map: dict[str, QConfigAny]
) -> None:
    """Replaces dynamically quantized functions with weights, from the end, so that a relu is found
    before the function that it follows."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for node in reversed(model.graph.nodes):
        function, relu = node, None
        if _is_relu(node, modules) and node.target is not tritorch.relu:
            relu, function = node, node.args[0]
        if should_skip_lowering(function, qconfig_map):
            continue
        if function.op != "call_function" or function.target not in DYNAMIC_LOWER_FUNCTIONAL_MAP:
            continue
        dequantized, weight_source, *rest = function.args
        dynamic = _dynamically_quantized(dequantized)
        if dynamic is None or not is_dequantize_node(weight_source):
            continue
        source, activation, *reduce_range = dynamic.args
        weight = weight_source.args[0]
        key = (activation, weight.args[-1])
        choices = DYNAMIC_LOWER_FUNCTIONAL_MAP[function.target]
        if key not in choices:
            print(
                f"Didn't find dtype combination {key} during "
                f"dynamic quantized op lowering for {function.target}"
            )
            continue
        alone, with_relu = choices[key]
        if alone is None or with_relu is None:
            print(
                "Didn't find corresponding quantized function or quantized relu function "
                f"for {function.target}, {key}"
            )
            continue
        pack, args = _prepack(function.target, weight, rest)
        named = _with_renamed_bias(function)
        with model.graph.inserting_before(function):
            bias = {"B": named.pop("B")} if "B" in named else {}
            packed = model.graph.create_node("call_function", pack, tuple(args), bias)
        function.kwargs = named
        function.target = alone if relu is None else with_relu
        function.args = (source, packed)
        if activation != tritorch.float16:
            function.args = (source, packed, *reduce_range)
        if relu is not None:
            relu.replace_all_uses_with(function)
            model.graph.erase_node(relu)


def _lower_quantized_binary_op(model: GraphModule, qconfig_map: dict[str, QConfigAny]) -> None:
    """Replaces sums and products; with a number they keep the scale of the tensor."""
    modules = dict(model.named_modules(remove_duplicate=False))
    operations = [each for each in QBIN_OP_MAPPING if each in QBIN_RELU_OP_MAPPING]
    operations.append(tritorch.matmul)
    for node in model.graph.nodes:
        match = _match_static(node, modules, qconfig_map, operations, [0, 1])
        if match is None:
            continue
        quantize, relu, operation = match
        _, scale, zero_point, _ = quantize.args
        tensors = [arg for arg in operation.args if is_dequantize_node(arg)]
        if not tensors:
            raise AssertionError("Expected at least one dequantize node in binary op args")
        for arg in tensors:
            _read_quantized(operation, arg)
        table = QBIN_OP_MAPPING if relu is None else QBIN_RELU_OP_MAPPING
        args = operation.args
        if len(tensors) == 2:
            args = (*args, scale, zero_point)
        with model.graph.inserting_after(quantize):
            quantized = create_node_from_old_node_preserve_meta(
                model.graph, ("call_function", table[operation.target], args, {}), operation
            )
        quantize.replace_all_uses_with(quantized)
        model.graph.erase_node(quantize)
        if relu is not None:
            model.graph.erase_node(relu)
        model.graph.erase_node(operation)


def special_pattern_replacement(model: GraphModule) -> GraphModule:
    """Replaces the operations of the kinds above that dequantized inputs and a quantized, or half,
    result have: they read quantized inputs."""
    modules = dict(model.named_modules(remove_duplicate=False))
    for node in model.graph.nodes:
        is_quantize = node.target is tritorch.quantize_per_tensor
        to_half = (
            node.op == "call_method"
            and node.target == "to"
            and len(node.args) == 2
            and node.args[1] == tritorch.float16
        )
        if not is_quantize and not to_half:
            continue
        reference: Any = node.args[0]
        only_reference = any(is_fixed_qparams_node(reference, modules)) or any(
            is_default_node(reference, modules)
        )
        if (to_half and only_reference) or not any(is_special_pattern_node(reference, modules)):
            continue
        if len(reference.args) <= 0 and len(reference.kwargs) <= 0:
            raise AssertionError("Expected ref_node to have args or kwargs")
        first = reference.args[0] if reference.args else next(iter(reference.kwargs.values()))
        if not isinstance(first, (Node, tuple, list)):
            raise AssertionError("Expected dq_node_or_nodes to be a Node, tuple, or list")
        inputs = [first] if isinstance(first, Node) else list(first)
        if not all(map(is_dequantize_node, inputs)):
            continue
        _, *qparams = node.args
        if reference.op == "call_module" and is_quantize:
            module = modules[reference.target]
            quantized = SPECIAL_PATTERN_LOWER_MODULE_MAP.get(type(module))
            if quantized is not None:
                scale, zero_point = (getattr(model, each.target) for each in qparams[:2])
                _swap(modules, reference, quantized.from_reference(module, scale, zero_point))
        for arg in inputs:
            _read_quantized(reference, arg)
        node.replace_all_uses_with(reference)
        model.graph.erase_node(node)
        if is_default_node(reference, modules)[0]:
            _replace_function(model.graph, reference, qparams)
        else:
            for each in qparams:
                if isinstance(each, Node):
                    model.graph.erase_node(each)
    return model


def _replace_function(graph: Graph, node: Node, qparams: list[Any]) -> None:
    """Replaces a function by its quantized form, after the scale and zero point that it takes."""
    operator = get_quantized_operator(node.target)
    skipped = QOP_TO_ARG_NAMES_TO_SKIP.get(operator, [])
    named = {key: value for key, value in node.kwargs.items() if key not in skipped}
    named |= {"output_scale": qparams[0], "output_zero_point": qparams[1]}
    with graph.inserting_after(qparams[1]):
        quantized = create_node_from_old_node_preserve_meta(
            graph, ("call_function", operator, node.args, named), node
        )
    node.replace_all_uses_with(quantized)
    graph.erase_node(node)


def _lower_tensor_info(model: GraphModule) -> None:
    """Asks quantized tensors for their sizes, not dequantized ones."""
    for node in model.graph.nodes:
        if is_getattr_tensor_metadata_node(node) or is_get_tensor_info_node(node):
            first, *rest = node.args
            if is_dequantize_node(first):
                node.args = (first.args[0], *rest)


def fold_weight(
    quantized_model: GraphModule,
    node_name_to_scope: dict[str, tuple[str, type]],
    keep_original_weights: bool = False,
) -> GraphModule:
    """Packs weights now: attributes with packed weights replace the nodes that packed them.

    `keep_original_weights` leaves weights and biases in `original_weights_lookup`, by attribute.
    """
    packed: dict[str, Any] = {}
    originals: dict[str, list[Any]] = {}
    folded: dict[str, Node] = {}
    for node in quantized_model.graph.nodes:
        if node.op != "call_function" or node.target not in WEIGHT_PREPACK_OPS:
            continue
        producers = collect_producer_nodes(node)
        if producers is None:
            continue
        folded.update({producer.name: node for producer in producers})
        packing = graph_module_from_producer_nodes(quantized_model, producers)
        packed[node.name] = packing()
        tensors = sorted(packing.state_dict().values(), key=lambda t: t.numel(), reverse=True)
        originals[node.name] = tensors if len(tensors) > 1 else [*tensors, None]

    graph = Graph()
    copied: dict[str, Any] = {}
    lookup = {}
    for node in quantized_model.graph.nodes:
        producer_of = folded.get(node.name)
        if producer_of is None:
            copied[node.name] = graph.node_copy(
                node, lambda arg: map_arg(arg, lambda each: copied[each.name])
            )
        elif producer_of is node:
            path, _ = node_name_to_scope[next(iter(node.users)).name]
            name = get_new_attr_name_with_prefix(f"{path}_packed_weight_")(quantized_model)
            setattr(quantized_model, name, packed[node.name])
            copied[node.name] = graph.create_node("get_attr", name, (), {})
            key = name.translate(str.maketrans(":/|", "___", " ")).lower()
            lookup[key] = originals[node.name]
    quantized_model = GraphModule(quantized_model, graph)
    quantized_model._register_state_dict_hook(_save_packed_weight)
    quantized_model.register_load_state_dict_pre_hook(_load_packed_weight)
    if keep_original_weights:
        setattr(quantized_model, ORIGINAL_WEIGHTS_LOOKUP, lookup)
    return quantized_model


def _lower_to_native_backend(
    model: GraphModule,
    qconfig_map: dict[str, QConfigAny],
    node_name_to_scope: dict[str, tuple[str, type]],
    keep_original_weights: bool = False,
) -> GraphModule:
    """The graph with quantized operations in place of reference patterns."""
    static, fused = STATIC_LOWER_MODULE_MAP, STATIC_LOWER_FUSED_MODULE_MAP
    _lower_static_modules(model, qconfig_map, static, fused, [0])
    two_inputs = STATIC_LOWER_FUSED_MODULE_TWO_INPUTS_MAP
    _lower_static_modules(model, qconfig_map, {}, two_inputs, None)
    _lower_dynamic_weighted_ref_module(model)
    _lower_weight_only_weighted_ref_module(model)
    _lower_static_weighted_ref_functional(model, qconfig_map)
    _lower_dynamic_weighted_ref_functional(model, qconfig_map)
    _lower_quantized_binary_op(model, qconfig_map)
    _lower_tensor_info(model)
    special_pattern_replacement(model)
    model.graph.eliminate_dead_code()
    model = fold_weight(model, node_name_to_scope, keep_original_weights)
    model.graph.eliminate_dead_code()
    model.recompile()
    model.graph.lint()
    return model
