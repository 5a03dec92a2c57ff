"""captum: attributions by gradients, by perturbation, and of layers."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    GuidedBackprop,
    IntegratedGradients,
    KernelShap,
    LayerConductance,
    LayerGradCam,
    NoiseTunnel,
    Occlusion,
    Saliency,
    ShapleyValueSampling,
)
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
x, base = torch.randn(5, 4), torch.zeros(5, 4)
for method in (IntegratedGradients(net), DeepLift(net), GradientShap(net)):
    found, delta = method.attribute(x, base, target=1, return_convergence_delta=True)
    assert found.shape == x.shape
    if not isinstance(method, GradientShap):
        assert delta.abs().max() < 0.05, method
exact = net(x)[:, 1] - net(base)[:, 1]
found = ShapleyValueSampling(net).attribute(x, base, target=1, n_samples=5)
torch.testing.assert_close(found.sum(1), exact, rtol=1e-3, atol=1e-3)
for method in (Saliency(net), GuidedBackprop(net), FeatureAblation(net)):
    assert method.attribute(x, target=0).shape == x.shape
assert KernelShap(net).attribute(x[:1], target=0, n_samples=20).shape == (1, 4)
assert NoiseTunnel(IntegratedGradients(net)).attribute(x, nt_samples=3, target=0).shape == x.shape
assert LayerConductance(net, net[0]).attribute(x, target=0).shape == (5, 8)
conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
image = torch.rand(2, 1, 8, 8)
assert LayerGradCam(conv, conv[0]).attribute(image, target=0).shape == (2, 1, 6, 6)
assert Occlusion(conv).attribute(image, (1, 2, 2), target=0).shape == image.shape
print("ok")
