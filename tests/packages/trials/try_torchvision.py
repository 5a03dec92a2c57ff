"""torchvision: models of all tasks, transforms v1 and v2, operators, files of images, data sets."""

import io
import tempfile

import numpy as np
import torch
import torchvision as tv
from PIL import Image
from torchvision import ops, transforms, tv_tensors
from torchvision.models import detection, feature_extraction, segmentation, video
from torchvision.transforms import v2

torch.manual_seed(0)
x = torch.rand(2, 3, 64, 64)
for name in (
    "resnet18",
    "mobilenet_v3_small",
    "shufflenet_v2_x0_5",
    "squeezenet1_1",
    "densenet121",
    "efficientnet_b0",
    "convnext_tiny",
    "regnet_y_400mf",
    "mnasnet0_5",
):
    model = tv.models.get_model(name, weights=None, num_classes=5)
    out = model(x)
    assert out.shape == (2, 5), name
    out.square().mean().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad), name
vit = tv.models.VisionTransformer(64, 16, 2, 4, 32, 64, num_classes=5)
vit(x).sum().backward()
inner = feature_extraction.create_feature_extractor(
    tv.models.resnet18(), {"layer2": "a", "layer4": "b"}
)
assert inner(x)["a"].shape == (2, 128, 8, 8)
assert segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=3).eval()(x)[
    "out"
].shape == (2, 3, 64, 64)
assert video.r3d_18(weights=None, num_classes=4).eval()(torch.rand(1, 3, 4, 32, 32)).shape == (1, 4)

detector = detection.fasterrcnn_mobilenet_v3_large_320_fpn(
    weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=64
)
targets = [{"boxes": torch.tensor([[4.0, 4.0, 30.0, 40.0]]), "labels": torch.tensor([1])}] * 2
losses = detector([x[0], x[1]], targets)
sum(losses.values()).backward()
assert all(v.isfinite() for v in losses.values())
found = detector.eval()([x[0]])
assert set(found[0]) == {"boxes", "labels", "scores"}
masks = detection.maskrcnn_resnet50_fpn(
    weights=None, weights_backbone=None, num_classes=2, min_size=64, max_size=64
)
both = [t | {"masks": torch.ones(1, 64, 64, dtype=torch.uint8)} for t in targets]
assert "loss_mask" in masks([x[0], x[1]], both)

# The operators: gradients, and what they mean on small cases.
boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
scores = torch.tensor([0.5, 0.9, 0.1])
assert ops.nms(boxes, scores, 0.5).tolist() == [1, 2]
assert ops.batched_nms(boxes, scores, torch.tensor([0, 1, 0]), 0.5).tolist() == [1, 0, 2]
assert ops.box_iou(boxes, boxes).diagonal().eq(1).all()
image = torch.rand(1, 4, 7, 7, dtype=torch.float64, requires_grad=True)
rois = torch.tensor([[0, 0.7, 1.2, 6.9, 5.3], [0, 2.0, 2.0, 6.0, 6.0]], dtype=torch.float64)
for call in (
    lambda t: ops.roi_align(t, rois, (2, 2), 0.8, 2, True),
    lambda t: ops.roi_align(t, rois, (2, 2)),
    lambda t: ops.roi_pool(t, rois, (2, 2)),
    lambda t: ops.ps_roi_align(t, rois, (2, 2), 1.0, 2),
    lambda t: ops.ps_roi_pool(t, rois, (2, 2)),
):
    assert torch.autograd.gradcheck(call, image)
ones = torch.arange(25.0).reshape(1, 1, 5, 5)
middle = ops.roi_align(ones, [torch.tensor([[0.0, 0, 4, 4]])], 1, sampling_ratio=1)
assert middle.item() == 12
weight = torch.rand(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
image = torch.rand(1, 4, 4, 4, dtype=torch.float64, requires_grad=True)
offset = (torch.rand(1, 2 * 2 * 9, 2, 2, dtype=torch.float64) * 0.9 + 0.05).requires_grad_()
mask = torch.rand(1, 2 * 9, 2, 2, dtype=torch.float64, requires_grad=True)
bias = torch.rand(2, dtype=torch.float64, requires_grad=True)
call = lambda i, o, w, b, m: ops.deform_conv2d(i, o, w, b, mask=m)
assert torch.autograd.gradcheck(call, (image, offset, weight, bias, mask))
plain = ops.deform_conv2d(image, torch.zeros_like(offset), weight, bias)
torch.testing.assert_close(plain, torch.nn.functional.conv2d(image, weight, bias, groups=2))
rotated = torch.tensor([[5.0, 5.0, 4.0, 4.0, 0.0], [5.0, 5.0, 4.0, 4.0, 45.0]])
iou = torch.ops.torchvision.box_iou_rotated(rotated, rotated)
assert abs(iou[0, 1] - 0.7071) < 1e-3 and (iou.diagonal() - 1).abs().max() < 1e-4
ops.sigmoid_focal_loss(
    torch.randn(4, requires_grad=True), torch.tensor([0.0, 1, 0, 1])
).sum().backward()
ops.FeaturePyramidNetwork([8, 16], 4)({"a": torch.rand(1, 8, 8, 8), "b": torch.rand(1, 16, 4, 4)})

# Transforms of tensors and of Pillow's images.
pillow = Image.fromarray((np.random.rand(40, 50, 3) * 255).astype(np.uint8))
old = transforms.Compose(
    [
        transforms.RandomResizedCrop(32),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(0.2, 0.2, 0.2, 0.1),
        transforms.RandomAffine(10, (0.1, 0.1)),
        transforms.ToTensor(),
        transforms.RandomErasing(1.0),
        transforms.Normalize([0.5] * 3, [0.5] * 3),
    ]
)
assert old(pillow).shape == (3, 32, 32)
new = v2.Compose(
    [
        v2.ToImage(),
        v2.RandomIoUCrop(),
        v2.Resize((48, 48), antialias=True),
        v2.RandomHorizontalFlip(1.0),
        v2.RandomPerspective(p=1.0),
        v2.GaussianBlur(3),
        v2.ToDtype(torch.float32, scale=True),
        v2.SanitizeBoundingBoxes(),
    ]
)
given = {
    "image": pillow,
    "labels": torch.tensor([1]),
    "boxes": tv_tensors.BoundingBoxes([[5, 5, 25, 30]], format="XYXY", canvas_size=(40, 50)),
    "masks": tv_tensors.Mask(torch.ones(1, 40, 50, dtype=torch.uint8)),
}
done = new(given)
assert isinstance(done["boxes"], tv_tensors.BoundingBoxes) and done["image"].shape == (3, 48, 48)
for policy in (v2.RandAugment(), v2.AutoAugment(), v2.TrivialAugmentWide(), v2.AugMix()):
    assert policy((x[0] * 255).byte()).shape == (3, 64, 64)
mixed, labels = v2.MixUp(num_classes=3)(x, torch.tensor([0, 1]))
assert labels.shape == (2, 3)

# Images in files, and data sets.
with tempfile.TemporaryDirectory() as folder:
    tv.utils.save_image(tv.utils.make_grid(x), f"{folder}/a.png")
    read = tv.io.read_image(f"{folder}/a.png")
    assert read.dtype == torch.uint8 and read.shape[0] == 3
    tv.io.write_jpeg(read, f"{folder}/b.jpg", quality=95)
    again = tv.io.decode_image(tv.io.read_file(f"{folder}/b.jpg"), tv.io.ImageReadMode.RGB)
    assert (
        again.shape == read.shape and (again.float() - read).abs().mean() < 60
    )  # noise compresses badly
    assert torch.equal(tv.io.decode_png(tv.io.encode_png(read)), read)
buffer = io.BytesIO()
transforms.ToPILImage()(read).save(buffer, "png")
fake = tv.datasets.FakeData(8, (3, 16, 16), 4, transforms.ToTensor())
assert next(iter(torch.utils.data.DataLoader(fake, 4)))[0].shape == (4, 3, 16, 16)
drawn = tv.utils.draw_bounding_boxes((x[0] * 255).byte(), boxes[:, :4], ["a", "b", "c"])
assert drawn.shape == (3, 64, 64)
print("ok")
