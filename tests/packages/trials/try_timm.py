"""timm: models of ten families forward and backward, features, optimizers, schedules, mixup."""

import timm
import timm.optim
import torch
from timm.data import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV2, accuracy

torch.manual_seed(0)
x = torch.randn(2, 3, 64, 64)
for name, kwargs in {
    "resnet18": {},
    "resnetv2_50": {},
    "efficientnet_b0": {},
    "mobilenetv3_small_100": {},
    "convnext_atto": {},
    "regnetx_002": {},
    "vit_tiny_patch16_224": {"img_size": 64},
    "deit3_small_patch16_224": {"img_size": 64, "depth": 2},
    "mixer_s32_224": {"img_size": 64},
    "swin_tiny_patch4_window7_224": {"img_size": 64, "window_size": 2, "depths": (1, 1, 1, 1)},
}.items():
    model = timm.create_model(name, pretrained=False, num_classes=5, **kwargs)
    out = model(x)
    assert out.shape == (2, 5)
    out.square().mean().backward()
    missing = [
        n for n, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()
    ]
    assert not missing, (name, missing)
    model.eval()
    assert model.forward_features(x).shape[0] == 2
    model.reset_classifier(0)
    assert model(x).ndim == 2
features = timm.create_model("resnet18", pretrained=False, features_only=True)
assert [f.shape[1] for f in features(x)] == [64, 64, 128, 256, 512]
model = timm.create_model("resnet10t", pretrained=False, num_classes=4)
for name in ("adamw", "lamb", "lion", "adabelief", "radam", "nadamw", "lookahead_sgd", "rmsproptf"):
    optimizer = timm.optim.create_optimizer_v2(model, opt=name, lr=1e-4, weight_decay=0.01)
    loss = LabelSmoothingCrossEntropy(0.1)(model(x), torch.tensor([0, 1]))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    assert loss.isfinite()
schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=2, warmup_lr_init=1e-6)
schedule.step(1)
ema = ModelEmaV2(model, decay=0.9)
ema.update(model)
mixed, target = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=4)(x, torch.tensor([0, 1]))
SoftTargetCrossEntropy()(model(mixed), target).backward()
assert accuracy(model(x), torch.tensor([0, 1]), topk=(1, 2))[1] >= 0
print("ok")
