"""Sparse and quantized embeddings after training."""

from __future__ import annotations

from typing import Any

import tritorch
from tritorch.ao.pruning.sparsifier.utils import fqn_to_module, module_to_fqn
from tritorch.nn import Embedding, EmbeddingBag, Module

SUPPORTED_MODULES: set[type[Module]] = {Embedding, EmbeddingBag}


def _fetch_all_embeddings(model: Module) -> list[tuple[str, Module]]:
    """Embeddings and embedding bags of a model with their paths."""
    embeddings = []
    pending = [model]
    while pending:
        for child in pending.pop().children():
            if type(child) in SUPPORTED_MODULES:
                embeddings.append((module_to_fqn(model, child) or "", child))
            else:
                pending.append(child)
    return embeddings


def _quantize(model: Module, embeddings: list[tuple[str, Module]]) -> None:
    from tritorch.ao import quantization

    for _, embedding in embeddings:
        embedding.qconfig = quantization.float_qparams_weight_only_qconfig
    quantization.prepare(model, inplace=True)
    quantization.convert(model, inplace=True)


def _sparsify(sparsifier: Any, data: dict[str, Any]) -> None:
    for name, value in data.items():
        sparsifier.add_data(name=name.replace(".", "_"), data=value)
    sparsifier.step()
    sparsifier.squash_mask()


def post_training_sparse_quantize(
    model: Module,
    data_sparsifier_class: Any,
    sparsify_first: bool = True,
    select_embeddings: list[Module] | None = None,
    **sparse_config: Any,
) -> None:
    """Sparsifies and quantizes a model's embeddings, all or the selected ones, in place.

    With `sparsify_first=False` quantized weights are dequantized, sparsified and quantized again
    with the scales and zero points that they had. `sparse_config` is for the sparsifier.
    """
    sparsifier = data_sparsifier_class(**sparse_config)
    if select_embeddings is None:
        embeddings = _fetch_all_embeddings(model)
    else:
        embeddings = []
        if not isinstance(select_embeddings, list):
            raise AssertionError("the embedding_modules must be a list of embedding modules")
        for module in select_embeddings:
            if type(module) not in SUPPORTED_MODULES:
                raise AssertionError(
                    "the embedding_modules list must be an embedding or embedding bags"
                )
            path = module_to_fqn(model, module)
            if path is None:
                raise AssertionError("the embedding modules must be part of input model")
            embeddings.append((path, module))
    if sparsify_first:
        _sparsify(sparsifier, dict(embeddings))
        _quantize(model, embeddings)
        return
    _quantize(model, embeddings)
    quantized = {}
    for name, _ in embeddings:
        module = fqn_to_module(model, name)
        if module is None:
            raise AssertionError(f"quantized embedding {name} not found in model")
        quantized[name] = (module, module.weight())
    plain = {name: tritorch.dequantize(weight) for name, (_, weight) in quantized.items()}
    _sparsify(sparsifier, plain)
    for name, (module, weight) in quantized.items():
        module.set_weight(
            tritorch.quantize_per_channel(
                plain[name],
                scales=weight.q_per_channel_scales(),
                zero_points=weight.q_per_channel_zero_points(),
                dtype=weight.dtype,
                axis=weight.q_per_channel_axis(),
            )
        )
