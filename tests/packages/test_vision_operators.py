"""torch.ops.torchvision without torchvision: against definitions, on the CPU and the GPU."""

import math

import pytest

import tritorch as torch
from tritorch.compat.shims import torchvision  # noqa: F401  (defines the operators)

OPS = torch.ops.torchvision
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]
torch.manual_seed(0)
ROIS = torch.tensor(
    [
        [0, 0.3, 0.7, 6.9, 5.2],
        [1, 2.0, 1.0, 8.0, 8.4],
        [1, -3.0, -2.0, 4.0, 3.0],
        [0, 5.0, 5.0, 5.0, 5.0],
        [1, 7.5, 7.5, 12.0, 11.0],
    ]
)


def interpolated(image, y, x):
    """Bilinear, torchvision's way: 0 outside by more than a pixel, the border up to there."""
    h, w = image.shape[-2:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return torch.zeros(image.shape[0])
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    a, b = y - y0, x - x0
    top = image[:, y0, x0] * (1 - b) + image[:, y0, x1] * b
    return top * (1 - a) + (image[:, y1, x0] * (1 - b) + image[:, y1, x1] * b) * a


def aligned(x, scale, out, ratio, shift, least, spread):
    found = torch.zeros(len(ROIS), x.shape[1] // (out * out if spread else 1), out, out)
    for k, (b, *box) in enumerate(ROIS.tolist()):
        x1, y1, x2, y2 = (v * scale - shift for v in box)
        h, w = max(y2 - y1, least), max(x2 - x1, least)
        gh = ratio if ratio > 0 else max(math.ceil(h / out), 0)
        gw = ratio if ratio > 0 else max(math.ceil(w / out), 0)
        for i in range(out):
            for j in range(out):
                total = torch.zeros(x.shape[1])
                for a in range(gh):
                    for c in range(gw):
                        total += interpolated(
                            x[int(b)],
                            y1 + (i + (a + 0.5) / gh) * h / out,
                            x1 + (j + (c + 0.5) / gw) * w / out,
                        )
                total /= max(gh * gw, 1)
                found[k, :, i, j] = total.reshape(-1, out, out)[:, i, j] if spread else total
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ratio", [2, 0])
def test_roi_align(device, ratio):
    x, rois = torch.randn(2, 8, 9, 10), ROIS.to(device)
    for scale, shift in ((1.0, True), (0.5, False)):
        found = OPS.roi_align(x.to(device), rois, scale, 2, 2, ratio, shift)
        expected = aligned(x, scale, 2, ratio, 0.5 if shift else 0.0, 0.0 if shift else 1.0, False)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
    found, channels = OPS.ps_roi_align(x.to(device), rois, 1.0, 2, 2, ratio)
    torch.testing.assert_close(
        found.cpu(), aligned(x, 1.0, 2, ratio, 0.5, 0.0, True), rtol=1e-4, atol=1e-5
    )
    assert channels[3, 1].tolist() == [[4, 5], [6, 7]]


@pytest.mark.parametrize("device", DEVICES)
def test_pools(device):
    x, rois = torch.randn(2, 8, 9, 10), ROIS.to(device)
    found, places = OPS.roi_pool(x.to(device), rois, 1.0, 2, 2)
    means, _ = OPS.ps_roi_pool(x.to(device), rois, 1.0, 2, 2)
    half_up = lambda v: math.copysign(math.floor(abs(v) + 0.5), v)
    for k, (b, *box) in enumerate(ROIS.tolist()):
        x1, y1, x2, y2 = map(half_up, box)
        for i in range(2):
            for j in range(2):
                h, w = max(y2 - y1 + 1, 1) / 2, max(x2 - x1 + 1, 1) / 2
                ys = [
                    min(max(int(v + y1), 0), 9) for v in (math.floor(i * h), math.ceil((i + 1) * h))
                ]
                xs = [
                    min(max(int(v + x1), 0), 10)
                    for v in (math.floor(j * w), math.ceil((j + 1) * w))
                ]
                part = x[int(b), :, ys[0] : ys[1], xs[0] : xs[1]].reshape(8, -1)
                best = part.amax(1) if part.numel() else torch.zeros(8)
                assert found[k, :, i, j].cpu().equal(best), (k, i, j)
                if part.numel():
                    assert (
                        x[int(b)]
                        .reshape(8, -1)
                        .gather(1, places[k, :, i, j].cpu().long()[:, None])[:, 0]
                        .equal(best)
                    )
                h, w = max(y2 - y1, 1) / 2, max(x2 - x1, 1) / 2
                ys = [
                    min(max(int(v + y1), 0), 8) for v in (math.floor(i * h), math.ceil((i + 1) * h))
                ]
                xs = [
                    min(max(int(v + x1), 0), 9) for v in (math.floor(j * w), math.ceil((j + 1) * w))
                ]
                part = x[int(b), 2 * i + j :: 4, ys[0] : ys[1], xs[0] : xs[1]].reshape(2, -1)
                mean = part.mean(1) if part.numel() else torch.zeros(2)
                torch.testing.assert_close(means[k, :, i, j].cpu(), mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_gradients_are_transposes(name, device):
    """<backward(g), x> = <g, forward(x)>, as they are linear (of maxima: where x has them)."""
    x, rois = torch.randn(2, 8, 9, 10, device=device), ROIS.to(device)
    more = {"roi_align": (2, True), "ps_roi_align": (0,)}.get(name, ())
    out = getattr(OPS, name)(x, rois, 1.0, 2, 2, *more)
    out, *rest = (out,) if isinstance(out, torch.Tensor) else out
    g = torch.randn_like(out)
    sizes = x.shape
    given = {"roi_align": (2, 2, *sizes, 2, True), "ps_roi_align": (2, 2, 0, *sizes)}.get(
        name, (2, 2, *sizes)
    )
    dx = getattr(OPS, f"_{name}_backward")(g, rois, *rest, 1.0, *given)
    torch.testing.assert_close((dx * x).sum(), (g * out).sum(), rtol=1e-3, atol=1e-3)
    assert dx.equal(getattr(OPS, f"_{name}_backward")(g, rois, *rest, 1.0, *given))


@pytest.mark.parametrize("device", DEVICES)
def test_nms(device):
    places = torch.rand(200, 2) * 20
    boxes = torch.cat([places, places + torch.rand(200, 2) * 6 + 0.5], 1)
    scores = torch.rand(200)
    keep, left = [], scores.argsort(descending=True).tolist()
    while left:
        i = left.pop(0)
        keep.append(i)
        w = (
            torch.minimum(boxes[i, 2:], boxes[left, 2:])
            - torch.maximum(boxes[i, :2], boxes[left, :2])
        ).clamp(min=0)
        shared, area = w.prod(1), (boxes[:, 2:] - boxes[:, :2]).prod(1)
        iou = shared / (area[i] + area[left] - shared)
        left = [j for j, o in zip(left, iou.tolist()) if o <= 0.3]
    assert OPS.nms(boxes.to(device), scores.to(device), 0.3).tolist() == keep
    assert OPS.nms(boxes[:0].to(device), scores[:0].to(device), 0.3).tolist() == []
    with pytest.raises(RuntimeError, match="boxes should have 4 elements"):
        OPS.nms(boxes[:, :3].to(device), scores.to(device), 0.3)


@pytest.mark.parametrize("device", DEVICES)
def test_deformable_convolution(device):
    """Moved by whole pixels it is a convolution of moved images; its backward is autograd's."""
    x, weight = torch.randn(2, 4, 7, 6, device=device), torch.randn(6, 2, 3, 3, device=device)
    bias, mask = torch.randn(6, device=device), torch.rand(2, 9, 5, 4, device=device)
    how = (1, 1, 0, 0, 1, 1, 2, 1, True)
    offset = torch.zeros(2, 18, 5, 4, device=device)
    plain = OPS.deform_conv2d(x, weight, offset, torch.ones_like(mask), bias, *how)
    expected = torch.nn.functional.conv2d(x, weight, bias, groups=2)
    torch.testing.assert_close(plain, expected, rtol=1e-3, atol=1e-4)
    offset[:, 1::2] = 1.0  # a pixel to the right
    moved = torch.nn.functional.pad(x, (0, 1))[..., 1:]
    found = OPS.deform_conv2d(x, weight, offset, torch.ones_like(mask), bias, *how)
    torch.testing.assert_close(
        found, torch.nn.functional.conv2d(moved, weight, bias, groups=2), rtol=1e-3, atol=1e-4
    )
    offset = torch.rand_like(offset) * 0.8 + 0.1
    out = OPS.deform_conv2d(x, weight, offset, mask, bias, *how)
    g = torch.randn_like(out)
    grads = OPS._deform_conv2d_backward(g, x, weight, offset, mask, bias, *how)
    assert [a.shape for a in grads] == [a.shape for a in (x, weight, offset, mask, bias)]
    for i, (each, grad) in enumerate(zip((weight, mask, bias), (grads[1], grads[3], grads[4]))):
        linear = (each * grad).sum() if i < 2 else (g.sum((0, 2, 3)) * bias).sum()
        rest = out - bias[:, None, None] if i < 2 else bias[:, None, None].expand_as(out)
        torch.testing.assert_close(linear, (g * rest).sum(), rtol=1e-3, atol=2e-3)


def test_rotated_boxes():
    box = torch.tensor([[5.0, 5.0, 4.0, 2.0, 30.0]])
    turned = torch.tensor(
        [[5.0, 5.0, 4.0, 2.0, 120.0], [5.0, 5.0, 2.0, 4.0, 120.0], [50.0, 5.0, 4.0, 2.0, 0.0]]
    )
    iou = OPS.box_iou_rotated(box, turned)[0]
    torch.testing.assert_close(iou, torch.tensor([4 / 12, 1.0, 0.0]), rtol=1e-4, atol=1e-4)
    assert OPS.box_iou_rotated(box[:0], turned).shape == (0, 3)
