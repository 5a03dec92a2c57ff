"""Objects whose pickles are held against PyTorch's: constructors by the names of both libraries.

tools/record/layouts.py ran them with torch; layouts.json has the fields of each object's state and
the names that its file refers to.
"""

_OPTIMIZERS = "SGD Adam AdamW Adagrad Adadelta RMSprop Rprop NAdam RAdam Adamax ASGD Adafactor"
_SGD = "torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)"
_SCHEDULERS = (
    "StepLR({}, 1)", "MultiStepLR({}, [1])", "ExponentialLR({}, 0.9)", "LinearLR({})",
    "CosineAnnealingLR({}, 3)", "CosineAnnealingWarmRestarts({}, 3)", "OneCycleLR({}, 1.0, 10)",
    "ReduceLROnPlateau({})", "CyclicLR({}, 0.1, 1.0)", "CyclicLR({}, 0.1, 1.0, mode='exp_range')",
    "ConstantLR({})", "PolynomialLR({})", "LambdaLR({}, float)", "MultiplicativeLR({}, float)",
)  # fmt: skip
_DISTRIBUTIONS = (
    "Normal(0.0, 1.0)", "Bernoulli(0.5)", "Bernoulli(logits=torch.zeros(2))", "Gamma(1.0, 1.0)",
    "Categorical(torch.ones(3))", "MultivariateNormal(torch.zeros(2), torch.eye(2))",
    "Beta(1.0, 1.0)", "Dirichlet(torch.ones(2))", "Uniform(0.0, 1.0)", "Exponential(1.0)",
    "Laplace(0.0, 1.0)", "Poisson(1.0)", "StudentT(1.0)", "Cauchy(0.0, 1.0)", "Gumbel(0.0, 1.0)",
)  # fmt: skip
_MODULES = (
    "Transformer(8, 2, 1, 1, 16)", "MultiheadAttention(4, 2)", "MultiheadAttention(4, 2, kdim=3)",
    "TransformerEncoderLayer(4, 2)", "TransformerDecoderLayer(4, 2, activation='gelu')",
    "TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1)", "LSTM(2, 3, proj_size=2)",
    "GRU(2, 3)", "RNN(2, 3, 2)", "LSTM(3, 4, bias=False, bidirectional=True)", "LSTMCell(2, 3)",
    "GRUCell(2, 3)", "RNNCell(2, 3)", "AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5])",
    "Linear(3, 2)", "Conv2d(3, 4, 3, padding='same')", "ConvTranspose1d(3, 4, 3)",
    "Conv3d(1, 1, 1)",
    "Embedding(3, 2, padding_idx=0)", "EmbeddingBag(3, 2)", "LazyConv2d(2, 3)", "LazyLinear(3)",
    "LazyBatchNorm2d()", "ParameterList([nn.Parameter(torch.ones(2))])",
    "ParameterDict({'a': nn.Parameter(torch.ones(2))})", "ModuleDict({'a': nn.Identity()})",
    "ModuleList([nn.ReLU()])", "Sequential(nn.Linear(2, 2), nn.ReLU())", "Bilinear(2, 3, 4)",
    "BatchNorm2d(3)", "BatchNorm1d(3, affine=False, track_running_stats=False)",
    "InstanceNorm1d(3)", "SyncBatchNorm(3)", "LayerNorm(3)", "GroupNorm(1, 3)", "RMSNorm(3)",
    "CosineSimilarity()", "CrossMapLRN2d(3)", "Threshold(1.0, 2.0)", "GLU()", "Fold(2, 2)",
    "FractionalMaxPool2d(2, output_ratio=0.5)", "MaxUnpool2d(2)", "CircularPad2d(1)",
    "ReplicationPad1d(1)", "ConstantPad2d(1, 0.0)", "ChannelShuffle(2)", "PixelShuffle(2)",
    "Upsample(scale_factor=2)", "UpsamplingBilinear2d(scale_factor=2)", "LPPool1d(2, 2)",
    "AvgPool1d(2)", "AvgPool3d(2)", "MaxPool2d(2)", "AdaptiveMaxPool2d(2)", "Flatten()",
    "AdaptiveAvgPool1d(2)", "Unflatten(1, (2, 2))", "Unfold(2)", "LocalResponseNorm(2)",
    "PReLU()", "RReLU()", "ReLU6()", "Hardtanh()", "Softmax(1)", "Dropout()", "AlphaDropout()",
    "CrossEntropyLoss()", "NLLLoss(torch.ones(3))", "BCEWithLogitsLoss()", "CTCLoss()",
    "TripletMarginWithDistanceLoss()", "SmoothL1Loss()", "KLDivLoss()", "GaussianNLLLoss()",
    "utils.weight_norm(nn.Linear(3, 2))", "utils.spectral_norm(nn.Linear(3, 2))",
)  # fmt: skip

CASES = (
    *(f"nn.{text}" for text in _MODULES),
    *(
        f"torch.optim.{name}(nn.Linear(2, 2).parameters(){', lr=1.0' * (name == 'SGD')})"
        for name in _OPTIMIZERS.split()
    ),
    *(f"torch.optim.lr_scheduler.{text.format(_SGD)}" for text in _SCHEDULERS),
    *(f"torch.distributions.{text}" for text in _DISTRIBUTIONS),
    "nn.Linear(2, 2).state_dict()", "torch.Size([1, 2])", "torch.device('cpu')",
    "[torch.float32, torch.int64]", "nn.Parameter(torch.ones(2))",
    "torch.ones(2).to_sparse()", "torch.utils.data.TensorDataset(torch.ones(2))",
    "torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2))",
)  # fmt: skip


def layout(torch, code):
    """({field: class} of an object's state, the names in its file)."""
    import io
    import pickletools
    import warnings
    import zipfile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = eval(code, {"torch": torch, "nn": torch.nn})
    file = io.BytesIO()
    torch.save(made, file)
    with zipfile.ZipFile(file) as archive:
        data = archive.read(next(n for n in archive.namelist() if n.endswith("data.pkl")))
    names = {
        arg.replace(" ", ".") for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"
    }
    reduced = made.__reduce_ex__(2) if hasattr(made, "__dict__") else ()
    fields = reduced[2] if len(reduced) > 2 and isinstance(reduced[2], dict) else {}
    return {name: type(value).__name__ for name, value in fields.items()}, sorted(names)
