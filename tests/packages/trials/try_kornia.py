"""kornia: color, filters, geometry, augmentation, features, losses."""

import kornia as K
import torch

torch.manual_seed(0)
x = torch.rand(2, 3, 32, 32, requires_grad=True)
for name in (
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_lab",
    "rgb_to_ycbcr",
    "rgb_to_luv",
    "rgb_to_yuv",
):
    getattr(K.color, name)(x).mean().backward()
assert (K.color.hsv_to_rgb(K.color.rgb_to_hsv(x)) - x).abs().max() < 1e-4
for call in (
    lambda t: K.filters.gaussian_blur2d(t, (5, 5), (1.5, 1.5)),
    lambda t: K.filters.sobel(t),
    lambda t: K.filters.median_blur(t, (3, 3)),
    lambda t: K.filters.bilateral_blur(t, (3, 3), 0.1, (1.5, 1.5)),
    lambda t: K.filters.canny(t)[0],
    lambda t: K.filters.unsharp_mask(t, (5, 5), (1.5, 1.5)),
    lambda t: K.enhance.adjust_gamma(t, 0.8),
    lambda t: K.enhance.equalize_clahe(t),
    lambda t: K.morphology.dilation(t, torch.ones(3, 3)),
    lambda t: K.geometry.transform.pyrdown(t),
):
    out = call(x)
    assert out.isfinite().all()
angle = torch.tensor([30.0, -10.0])
matrix = K.geometry.transform.get_rotation_matrix2d(
    torch.full((2, 2), 16.0), angle, torch.ones(2, 2)
)
turned = K.geometry.transform.warp_affine(x, matrix, (32, 32))
back = K.geometry.transform.rotate(turned, -angle)
assert (back - x)[:, :, 12:20, 12:20].abs().mean() < 0.2
src = torch.tensor([[[0.0, 0], [31, 0], [31, 31], [0, 31]]])
h = K.geometry.transform.get_perspective_transform(src, src + torch.rand(1, 4, 2))
K.geometry.transform.warp_perspective(x[:1], h, (32, 32)).mean().backward()
points = torch.rand(1, 20, 2) * 30
f = K.geometry.epipolar.find_fundamental(
    points, points + torch.randn(1, 20, 2) * 0.1, torch.ones(1, 20)
)
assert f.shape == (1, 3, 3)
q = K.geometry.quaternion.Quaternion.random(4)
assert (q.matrix() @ q.matrix().mT - torch.eye(3)).abs().max() < 1e-4
many = K.augmentation.AugmentationSequential(
    K.augmentation.RandomAffine(20.0, p=1.0),
    K.augmentation.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
    K.augmentation.RandomPerspective(0.2, p=1.0),
    data_keys=["input", "mask"],
)
image, mask = many(x.detach(), torch.ones(2, 1, 32, 32))
assert image.shape == x.shape and mask.shape == (2, 1, 32, 32)
loss = K.losses.ssim_loss(x, x.detach().roll(1, -1), 5) + K.losses.total_variation(x).mean()
loss = loss + K.losses.FocalLoss(0.5, reduction="mean")(
    torch.randn(2, 4, 8, 8, requires_grad=True), torch.zeros(2, 8, 8).long()
)
loss.backward()
response = K.feature.harris_response(K.color.rgb_to_grayscale(x))
lafs, scores = K.feature.ScaleSpaceDetector(10)(K.color.rgb_to_grayscale(x.detach()))
assert lafs.shape[1] == 10 and response.shape == (2, 1, 32, 32)
print("ok")
