"""segmentation-models: architectures on encoders, losses, metrics."""

import segmentation_models_pytorch as smp
import torch

torch.manual_seed(0)
x, y = torch.rand(2, 3, 64, 64), torch.randint(0, 2, (2, 1, 64, 64))
for kind in (
    smp.Unet,
    smp.FPN,
    smp.UnetPlusPlus,
    smp.DeepLabV3Plus,
    smp.PSPNet,
    smp.MAnet,
    smp.Linknet,
):
    model = kind("resnet18", encoder_weights=None, classes=1)
    out = model(x)
    assert out.shape == (2, 1, 64, 64), kind
    for loss in (
        smp.losses.DiceLoss("binary"),
        smp.losses.FocalLoss("binary"),
        smp.losses.JaccardLoss("binary"),
        smp.losses.TverskyLoss("binary"),
        smp.losses.SoftBCEWithLogitsLoss(),
    ):
        value = loss(out, y.float() if isinstance(loss, smp.losses.SoftBCEWithLogitsLoss) else y)
        assert value.isfinite()
    value.backward()
stats = smp.metrics.get_stats((out.sigmoid() > 0.5).long(), y, mode="binary")
assert 0 <= smp.metrics.iou_score(*stats, reduction="micro") <= 1
model = smp.Unet("mobilenet_v2", encoder_weights=None, classes=3, aux_params={"classes": 4})
mask, label = model(x)
assert mask.shape == (2, 3, 64, 64) and label.shape == (2, 4)
print("ok")
