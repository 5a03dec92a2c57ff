"""botorch: Gaussian processes fitted, acquisition functions optimized, Sobol points."""

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound, qExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
x = draw_sobol_samples(bounds, 12, 1, seed=0).squeeze(1)
y = -((x - 0.6) ** 2).sum(1, keepdim=True)
model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
for acquisition in (
    LogExpectedImprovement(model, best_f=y.max()),
    UpperConfidenceBound(model, beta=0.1),
    qExpectedImprovement(model, y.max(), SobolQMCNormalSampler(torch.Size([32]), seed=1)),
):
    candidate, value = optimize_acqf(acquisition, bounds, q=1, num_restarts=3, raw_samples=32)
    assert candidate.shape == (1, 2) and (candidate - 0.6).abs().max() < 0.25, (
        acquisition,
        candidate,
    )
print("ok")
