"""pyro: variational inference, Hamiltonian sampling, enumeration, guides, predictive draws."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoLowRankMultivariateNormal, AutoNormal
from pyro.optim import ClippedAdam

pyro.set_rng_seed(0)
data = torch.randn(60) * 0.5 + 2.0


def model(data=None):
    mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
    with pyro.plate("data", 60 if data is None else len(data)):
        return pyro.sample("x", dist.Normal(mean, scale), obs=data)


for kind in (AutoNormal, AutoLowRankMultivariateNormal):
    pyro.clear_param_store()
    guide = kind(model)
    svi = SVI(model, guide, ClippedAdam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(data) for _ in range(250)]
    assert losses[-1] < losses[0]
    assert abs(guide.median()["mean"] - 2.0) < 0.3
drawn = Predictive(model, guide=guide, num_samples=20)()
assert drawn["x"].shape == (20, 60)
sampler = MCMC(NUTS(model), num_samples=60, warmup_steps=40, disable_progbar=True)
sampler.run(data)
assert abs(sampler.get_samples()["mean"].mean() - 2.0) < 0.3


@config_enumerate
def mixture(x):
    weights = pyro.param("weights", torch.ones(2) / 2, constraint=dist.constraints.simplex)
    places = pyro.param("places", torch.tensor([-1.0, 1.0]))
    with pyro.plate("points", len(x)):
        which = pyro.sample("which", dist.Categorical(weights))
        pyro.sample("x", dist.Normal(places[which], 0.5), obs=x)


pyro.clear_param_store()
points = torch.cat([torch.randn(40) * 0.5 - 3, torch.randn(40) * 0.5 + 3])
svi = SVI(mixture, lambda x: None, ClippedAdam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
for _ in range(120):
    svi.step(points)
assert pyro.param("places")[0] < -2 and pyro.param("places")[1] > 2


class Regression(pyro.nn.PyroModule):
    def __init__(self):
        super().__init__()
        self.linear = pyro.nn.PyroModule[torch.nn.Linear](1, 1)
        self.linear.weight = pyro.nn.PyroSample(dist.Normal(0.0, 1.0).expand([1, 1]).to_event(2))

    def forward(self, x, y=None):
        mean = self.linear(x).squeeze(-1)
        with pyro.plate("d", len(x)):
            return pyro.sample("y", dist.Normal(mean, 0.1), obs=y)


x = torch.linspace(-1, 1, 20)[:, None]
svi = SVI(Regression(), AutoNormal(Regression()), ClippedAdam({"lr": 0.01}), Trace_ELBO())
assert svi.step(x, x[:, 0]) > 0
print("ok")
