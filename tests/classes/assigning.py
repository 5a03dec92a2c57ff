"""Attributes of instances that a program may assign.  Runs with torch, too.

python -m tests.classes.assigning [torch]    print them as JSON, of torch or of tritorch
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

# Arguments of constructors where none are not enough; the others are made without.
ARGUMENTS: dict[str, str] = {
    "nn": """
        AdaptiveAvgPool1d 2; AdaptiveAvgPool2d 2; AdaptiveAvgPool3d 2; AdaptiveMaxPool1d 2
        AdaptiveMaxPool2d 2; AdaptiveMaxPool3d 2; AdaptiveLogSoftmaxWithLoss 4, 6, [2]; AvgPool1d 2
        AvgPool2d 2; AvgPool3d 2; BatchNorm1d 2; BatchNorm2d 2; BatchNorm3d 2; SyncBatchNorm 2
        Bilinear 2, 3, 4; ChannelShuffle 2; CircularPad1d 1; CircularPad2d 1; CircularPad3d 1
        ConstantPad1d 1, 0.5; ConstantPad2d 1, 0.5; ConstantPad3d 1, 0.5; Conv1d 2, 3, 1
        Conv2d 2, 3, 1; Conv3d 2, 3, 1; ConvTranspose1d 2, 3, 1; ConvTranspose2d 2, 3, 1
        ConvTranspose3d 2, 3, 1; CrossMapLRN2d 2; Embedding 3, 2; EmbeddingBag 3, 2; Fold 2, 1
        FractionalMaxPool2d 2, 1; FractionalMaxPool3d 2, 1; GRU 2, 3; GRUCell 2, 3; GroupNorm 1, 2
        InstanceNorm1d 2; InstanceNorm2d 2; InstanceNorm3d 2; LPPool1d 2, 2; LPPool2d 2, 2
        LPPool3d 2, 2; LSTM 2, 3, 2; LSTMCell 2, 3; LayerNorm 2; LazyLinear 2; Linear 2, 3
        LocalResponseNorm 2; MaxPool1d 2; MaxPool2d 2; MaxPool3d 2; MaxUnpool1d 2; MaxUnpool2d 2
        MaxUnpool3d 2; MultiheadAttention 4, 2; PixelShuffle 2; PixelUnshuffle 2; RMSNorm 2
        RNN 2, 3; RNNCell 2, 3; ReflectionPad1d 1; ReflectionPad2d 1; ReflectionPad3d 1
        ReplicationPad1d 1; ReplicationPad2d 1; ReplicationPad3d 1; Threshold 0.5, 1.0
        Transformer 4, 2, 1, 1, 4; TransformerDecoderLayer 4, 2, 4; TransformerEncoderLayer 4, 2, 4
        TransformerEncoder nn.TransformerEncoderLayer(4, 2, 4), 1; Unflatten 0, (1, 2); ZeroPad1d 1
        TransformerDecoder nn.TransformerDecoderLayer(4, 2, 4), 1; ZeroPad2d 1; ZeroPad3d 1
        UpsamplingBilinear2d 2; UpsamplingNearest2d 2; Upsample 2; Identity; ReLU; ReLU6; ELU; CELU
        SELU; GLU; GELU; Hardshrink; Hardsigmoid; Hardswish; Hardtanh; LeakyReLU; LogSigmoid
        LogSoftmax; Mish; PReLU; RReLU; SiLU; Sigmoid; Softmax; Softmax2d; Softmin; Softplus
        Softshrink; Softsign; Tanh; Tanhshrink; Dropout; Dropout1d; Dropout2d; Dropout3d
        AlphaDropout; FeatureAlphaDropout; Flatten; Unfold 1; CosineSimilarity; PairwiseDistance
        BCELoss; BCEWithLogitsLoss; CTCLoss; CosineEmbeddingLoss; CrossEntropyLoss; GaussianNLLLoss
        HingeEmbeddingLoss; HuberLoss; KLDivLoss; L1Loss; MSELoss; MarginRankingLoss; NLLLoss
        MultiLabelMarginLoss; MultiLabelSoftMarginLoss; MultiMarginLoss; PoissonNLLLoss
        SmoothL1Loss; SoftMarginLoss; TripletMarginLoss; TripletMarginWithDistanceLoss; Module
        Sequential nn.ReLU(); ModuleList; ModuleDict; ParameterList; ParameterDict
    """,
    "distributions": """
        Bernoulli p; Beta x, x; Binomial 3, p; Categorical p; Cauchy x, x; Chi2 x; Dirichlet p
        ContinuousBernoulli p; Exponential x; FisherSnedecor x, x; Gamma x, x; Geometric p
        Gumbel x, x; HalfCauchy x; HalfNormal x; Independent distributions.Normal(p, p), 1
        InverseGamma x, x; Kumaraswamy x, x; LKJCholesky 2; Laplace x, x; LogNormal x, x
        LogisticNormal p, p; LowRankMultivariateNormal p, torch.eye(2), p; Multinomial 2, p
        MultivariateNormal p, torch.eye(2); NegativeBinomial 3, p; Normal x, x
        OneHotCategorical p; OneHotCategoricalStraightThrough p; Pareto x, x; Poisson x
        RelaxedBernoulli x, p; RelaxedOneHotCategorical x, p; StudentT x; Uniform x, x + 1
        VonMises x, x; Weibull x, x; Wishart x, torch.eye(2)
        MixtureSameFamily distributions.Categorical(p), distributions.Normal(p, p)
        TransformedDistribution distributions.Normal(x, x), [distributions.ExpTransform()]
        AffineTransform x, x; ExpTransform; PowerTransform x; SigmoidTransform; TanhTransform
        SoftmaxTransform; StickBreakingTransform; AbsTransform; LowerCholeskyTransform
    """,
    "optim": """
        ASGD w; Adadelta w; Adafactor w; Adagrad w; Adam w; AdamW w; Adamax w; LBFGS w; NAdam w
        RAdam w; RMSprop w; Rprop w; SGD w; SparseAdam w
    """,
    "optim.lr_scheduler": """
        ConstantLR s; CosineAnnealingLR s, 3; CosineAnnealingWarmRestarts s, 3; CyclicLR s, 0.1, 0.2
        ExponentialLR s, 0.9; LambdaLR s, abs; LinearLR s; MultiStepLR s, [1]
        MultiplicativeLR s, abs
        OneCycleLR s, 0.1, 5; PolynomialLR s; ReduceLROnPlateau s; StepLR s, 2
    """,
    "utils.data": """
        BatchSampler range(4), 2, False; RandomSampler [1, 2]; SequentialSampler [1, 2]
        SubsetRandomSampler [0]; WeightedRandomSampler [0.5, 0.5], 2; DataLoader [1, 2]
        DistributedSampler [1, 2], 2, 0; Subset [1, 2], [0]; TensorDataset x.reshape(1)
        ConcatDataset [[1]]; ChainDataset [[1]]; StackDataset [1]
    """,
}


def instances(torch: Any) -> dict[str, Any]:
    """Instances by their expressions."""
    weight = torch.nn.Parameter(torch.ones(2))
    names = {
        "torch": torch, "nn": torch.nn, "distributions": torch.distributions,
        "x": torch.tensor(2.0), "p": torch.tensor([0.25, 0.75]), "w": [weight],
        "s": torch.optim.SGD([weight], lr=0.1, momentum=0.9),
    }  # fmt: skip
    made = {}
    for module, text in ARGUMENTS.items():
        for entry in text.replace("\n", ";").split(";"):
            name, _, arguments = entry.strip().partition(" ")
            if name:
                expression = f"torch.{module}.{name}({arguments})"
                made[expression] = eval(expression, names)
    return made


def attributes(instance: Any, base: Any) -> list[str]:
    """The names of what an instance holds, a module without what the base of all holds."""
    names = set(vars(instance))
    if isinstance(instance, type(base)) and type(instance) is not type(base):
        names -= set(vars(base))
    for group in ("_parameters", "_buffers", "_modules"):
        names |= set(vars(instance).get(group) or ())
    return sorted(names)


def assignable(instance: Any, name: str) -> bool:
    """True if an attribute may be assigned its own value."""
    try:
        value = getattr(instance, name)
    except AttributeError:
        value = None  # what there is not may be added
    try:
        setattr(instance, name, value)
    except Exception:
        return False
    found = getattr(instance, name)
    return found is value or found == value


def main(torch: Any) -> None:
    """Prints what is assignable."""
    base = torch.nn.Module()
    found = {
        expression: [name for name in attributes(made, base) if assignable(made, name)]
        for expression, made in instances(torch).items()
    }
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["torch"]:
        import torch  # type: ignore[import-not-found, unused-ignore]
    else:
        import tritorch as torch
    import importlib

    for path in ("utils.data", "utils.data.distributed", "optim.lr_scheduler", "distributions"):
        importlib.import_module(f"{torch.__name__}.{path}")
    main(torch)
