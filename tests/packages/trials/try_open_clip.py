"""open_clip: a small model, its contrastive loss, its tokenizer and transforms."""

import open_clip
import torch
from open_clip.loss import ClipLoss
from PIL import Image

torch.manual_seed(0)
model = open_clip.model.CLIP(
    embed_dim=32,
    vision_cfg={"image_size": 32, "layers": 2, "width": 64, "patch_size": 8, "head_width": 32},
    text_cfg={"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
)
tokens = open_clip.tokenize(["a cat", "a dog on a mat"])
assert tokens.shape == (2, 77)
image, text, scale = model(torch.rand(2, 3, 32, 32), tokens)
loss = ClipLoss()(image, text, scale)
loss.backward()
assert loss.isfinite() and all(p.grad is not None for n, p in model.named_parameters())
transform = open_clip.image_transform(32, is_train=False)
assert transform(Image.new("RGB", (50, 40))).shape == (3, 32, 32)
assert "ViT-B-32" in open_clip.list_models()
print("ok")
