"""gpytorch: exact, variational and multitask Gaussian processes; kernels; conjugate gradients."""

import gpytorch as G
import torch

torch.manual_seed(0)
x = torch.linspace(0, 1, 40)
y = torch.sin(6 * x) + 0.05 * torch.randn(40)


class Exact(G.models.ExactGP):
    def __init__(self, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean_module, self.covar_module = G.means.ConstantMean(), kernel

    def forward(self, x):
        return G.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


k = G.kernels
for kernel in (
    k.ScaleKernel(k.RBFKernel()),
    k.ScaleKernel(k.MaternKernel(2.5)),
    k.ScaleKernel(k.PeriodicKernel()),
    k.ScaleKernel(k.RQKernel()) + k.LinearKernel(),
    k.SpectralMixtureKernel(num_mixtures=2),
):
    likelihood = G.likelihoods.GaussianLikelihood()
    model = Exact(likelihood, kernel)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = G.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], (kernel, losses)
model.eval(), likelihood.eval()
with torch.no_grad(), G.settings.fast_pred_var():
    found = likelihood(model(x))
assert (found.mean - y).abs().mean() < 1 and (found.variance > 0).all()
lower, upper = found.confidence_region()
assert (lower < upper).all() and found.rsample(torch.Size([3])).shape == (3, 40)


class Sparse(G.models.ApproximateGP):
    def __init__(self, inducing):
        distribution = G.variational.CholeskyVariationalDistribution(inducing.size(0))
        super().__init__(G.variational.VariationalStrategy(self, inducing, distribution))
        self.mean_module = G.means.ConstantMean()
        self.covar_module = k.ScaleKernel(k.RBFKernel())

    def forward(self, x):
        return G.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


model, likelihood = Sparse(x[::4].clone()), G.likelihoods.GaussianLikelihood()
optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
objective = G.mlls.VariationalELBO(likelihood, model, num_data=40)
losses = []
for _ in range(40):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0]
with G.settings.max_cholesky_size(1), G.settings.cg_tolerance(1e-3):  # conjugate gradients
    big = Exact(G.likelihoods.GaussianLikelihood(), k.ScaleKernel(k.RBFKernel()))
    value = -G.mlls.ExactMarginalLogLikelihood(big.likelihood, big)(big(x), y)
    value.backward()
assert value.isfinite()
print("ok")
