"""e3nn: spherical harmonics, tensor products and linear maps commute with rotations."""

import torch
from e3nn import nn, o3

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
rotation = o3.rand_matrix()
left, right, out = (
    o3.Irreps("2x0e + 2x1o"),
    o3.Irreps("0e + 1o + 2e"),
    o3.Irreps("2x0e + 2x1o + 1x2e"),
)
product = o3.FullyConnectedTensorProduct(left, right, out)
a, b = left.randn(6, -1, requires_grad=True), right.randn(6, -1)
turn = [i.D_from_matrix(rotation) for i in (left, right, out)]
torch.testing.assert_close(product(a @ turn[0].T, b @ turn[1].T), product(a, b) @ turn[2].T)
product(a, b).square().sum().backward()
assert a.grad.isfinite().all()
linear = o3.Linear(left, "3x0e + 1o")
torch.testing.assert_close(
    linear(a @ turn[0].T), linear(a) @ o3.Irreps("3x0e + 1o").D_from_matrix(rotation).T
)
points = torch.randn(5, 3)
harmonics = o3.spherical_harmonics([0, 1, 2, 3], points, normalize=True)
turned = o3.spherical_harmonics([0, 1, 2, 3], points @ rotation.T, normalize=True)
torch.testing.assert_close(turned, harmonics @ o3.Irreps("0e+1o+2e+3o").D_from_matrix(rotation).T)
gate = nn.Gate("2x0e", [torch.tanh], "1x0e", [torch.sigmoid], "1x1o")
assert gate(gate.irreps_in.randn(3, -1)).shape == (3, 5)
assert nn.BatchNorm(left)(a).shape == a.shape and o3.wigner_3j(1, 1, 2).shape == (3, 3, 5)
print("ok")
