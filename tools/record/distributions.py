"""Writes tests/distributions/recorded.npz: what torch and scipy.stats tell of distributions.

Runs under an interpreter that has torch and scipy: `python tools/record/distributions.py`.  The
tests need neither.
"""

import json
import warnings

import numpy as np
import torch
from recording import TESTS, read_cases
from scipy import stats

cases = read_cases(TESTS / "distributions/cases.py")
warnings.simplefilter("ignore")
make = cases.Maker(torch)
torch.manual_seed(0)
arrays, texts = {}, {}

# GeneralizedPareto compares with a number of the default type.
torch.set_default_dtype(torch.float64)
for name, expression in cases.DISTRIBUTIONS.items():
    made = make(expression)
    x = made.sample((2,))
    arrays[f"{name} x"] = x.numpy()
    found, texts[name] = cases.values(make, name, x)
    arrays |= {f"{name} {key}": value for key, value in found.items()}

torch.set_default_dtype(torch.float32)

refused = []
for p in cases.DISTRIBUTIONS:
    for q in cases.DISTRIBUTIONS:
        try:
            divergence = torch.distributions.kl_divergence(
                make(cases.DISTRIBUTIONS[p]), make(cases.DISTRIBUTIONS[q])
            )
        except NotImplementedError:
            refused.append(f"{p} {q}")
        except (RuntimeError, ValueError):
            pass  # shapes that do not broadcast
        else:
            arrays[f"kl {p} | {q}"] = divergence.detach().numpy()

for expression in cases.TRANSFORMS:
    transform = make(expression)
    x = make.tensor("3 3")
    y = transform(x)
    arrays[f"{expression} y"] = y.numpy()
    arrays[f"{expression} back"] = transform.inv(make.tensor(y.numpy())).numpy()
    try:
        arrays[f"{expression} change"] = transform.log_abs_det_jacobian(x, y).numpy()
    except NotImplementedError:
        pass
    texts[expression] = cases.told(repr(transform))

for expression in cases.CONSTRAINTS:
    constraint = make(f"C.{expression}")
    texts[expression] = [cases.told(repr(constraint))]
    for registry in ("biject_to", "transform_to"):
        try:
            transform = getattr(torch.distributions, registry)(constraint)
            texts[expression].append(cases.told(repr(transform)))
        except NotImplementedError:
            texts[expression].append("")
    for i, matrix in enumerate(cases.MATRICES):
        try:
            arrays[f"{expression} {i}"] = constraint.check(make.tensor(matrix)).numpy()
        except Exception:
            pass

errors = {expression: cases.complaint(make, expression) for expression in cases.ERRORS}
print("\n".join(f"{call}: {why}" for call, why in errors.items() if not why[0]))

# scipy: the distribution function and density, where the samples below are counted.
chances = np.linspace(0.02, 0.98, 33)
for name, expression in cases.SCIPY.items():
    frozen = eval(expression, {"S": stats, "np": np, "T": lambda given: make.tensor(given).numpy()})
    at = np.unique(frozen.ppf(chances))
    arrays[f"scipy {name} at"] = at
    arrays[f"scipy {name} cdf"] = frozen.cdf(at)
    density = frozen.logpmf if hasattr(frozen.dist, "_pmf") else frozen.logpdf
    arrays[f"scipy {name} log"] = density(at)


# Implicit gradients: differences of quantiles.
def slope(quantile, a):
    h = 1e-3 * a
    w = (1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280)
    return sum(c * quantile(a + k * h) for c, k in zip(w, range(-4, 5))) / h


rows = []
for a in (0.05, 0.4, 1.0, 3.0, 20.0, 80.0, 700.0):
    for u in (0.01, 0.3, 0.7, 0.99):
        rows.append((a, stats.gamma(a).ppf(u), slope(lambda a, u=u: stats.gamma(a).ppf(u), a)))
arrays["gamma slopes"] = np.array(rows)
rows = []
for a, b in ((0.3, 0.6), (1.0, 1.0), (4.0, 2.0), (30.0, 2.0), (0.5, 90.0), (80.0, 90.0)):
    for u in (0.02, 0.3, 0.7, 0.98):
        rows.append(
            (a, b, stats.beta(a, b).ppf(u), slope(lambda a, u=u, b=b: stats.beta(a, b).ppf(u), a))
        )
arrays["beta slopes"] = np.array(rows)

path = TESTS / "distributions/recorded.npz"
told = json.dumps({"texts": texts, "errors": errors, "refused": refused})
np.savez_compressed(path, told=told, **arrays)
print(f"{len(arrays)} arrays, {path.stat().st_size} bytes, {torch.__version__}")
