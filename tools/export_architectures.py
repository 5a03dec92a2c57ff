"""Export models of transformers, timm and torchvision with an open batch; they equal eager.

    python -m tritorch run tools/export_architectures.py [NAME ...]

Run where transformers, timm and torchvision are installed beside tritorch.
"""

import sys

import torch
from torch.export import Dim, export

torch.manual_seed(0)


def image(*size):
    return (torch.randn(3, *size),)


def words(length=7, most=50):
    return (torch.randint(0, most, (3, length)),)


def of_vision(name, size=64, **options):
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **options), image(3, size, size)


def of_timm(name, size=64, **options):
    import timm

    return timm.create_model(name, pretrained=False, **options), image(3, size, size)


def of_transformers(kind, **options):
    import transformers

    small = {
        "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 64, "max_position_embeddings": 64,
    }  # fmt: skip
    config = getattr(transformers, f"{kind}Config")(**{**small, **options})
    config._attn_implementation = "sdpa"
    config.use_cache = False
    config.return_dict = False
    return getattr(transformers, f"{kind}Model")(config), words()


GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
HEADS = {"num_key_value_heads": 2}
MODELS = {
    "resnet18": (of_vision, "resnet18", {}),
    "mobilenet_v2": (of_vision, "mobilenet_v2", {}),
    "mobilenet_v3": (of_vision, "mobilenet_v3_small", {}),
    "vgg11": (of_vision, "vgg11_bn", {}),
    "densenet121": (of_vision, "densenet121", {}),
    "efficientnet_b0": (of_vision, "efficientnet_b0", {}),
    "shufflenet": (of_vision, "shufflenet_v2_x0_5", {}),
    "squeezenet": (of_vision, "squeezenet1_1", {}),
    "regnet": (of_vision, "regnet_y_400mf", {}),
    "convnext": (of_vision, "convnext_tiny", {}),
    "timm resnet": (of_timm, "resnet10t", {}),
    "timm vit": (of_timm, "vit_tiny_patch16_224", {"img_size": 64}),
    "timm convnext": (of_timm, "convnext_atto", {}),
    "timm mixer": (of_timm, "mixer_s32_224", {"img_size": 64}),
    "timm mobilenetv3": (of_timm, "mobilenetv3_small_050", {}),
    "timm efficientnet": (of_timm, "efficientnet_lite0", {}),
    "timm deit": (of_timm, "deit_tiny_patch16_224", {"img_size": 64}),
    "bert": (of_transformers, "Bert", {}),
    "roberta": (of_transformers, "Roberta", {}),
    "distilbert": (of_transformers, "DistilBert",
                   {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    "electra": (of_transformers, "Electra", {"embedding_size": 32}),
    "gpt2": (of_transformers, "GPT2", GPT2),
    "llama": (of_transformers, "Llama", HEADS),
    "mistral": (of_transformers, "Mistral", HEADS),
    "qwen2": (of_transformers, "Qwen2", HEADS),
    "gemma": (of_transformers, "Gemma", HEADS | {"head_dim": 8}),
}  # fmt: skip
WANTED = 20


def agree(a, b):
    """Whether two results have the same tensors."""
    x = [t for t in torch.utils._pytree.tree_leaves(a) if isinstance(t, torch.Tensor)]
    y = [t for t in torch.utils._pytree.tree_leaves(b) if isinstance(t, torch.Tensor)]
    return len(x) == len(y) and all(
        torch.allclose(u, v, atol=1e-4) for u, v in zip(x, y, strict=True)
    )


def tried(make, name, options):
    """What is wrong with a model; "" if nothing."""
    model, given = make(name, **options)
    model.eval()
    with torch.no_grad():
        program = export(model, given, dynamic_shapes=({0: Dim("batch", min=2, max=64)},))
        other = (torch.cat([given[0], given[0].flip(0)]),)
        return "" if agree(program.module()(*other), model(*other)) else "other values"


wanted = sys.argv[1:] or list(MODELS)
held = 0
for each in wanted:
    try:
        said = tried(*MODELS[each])
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    held += not said
    print(f"{each}: {said[:300] or 'ok'}", flush=True)
print(f"{held} of {len(wanted)}")
if held >= min(WANTED, len(wanted)):
    print("ok")
