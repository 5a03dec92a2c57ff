"""Modules and the inputs that they are tried with; used by the tests and by tools/record/nn.py.

A case is an expression that makes a module, and a list of inputs: a shape (floats), or a string
that is evaluated (integers and the like).
"""

import numpy as np

INDICES = "np.array([[0, 2, 1], [3, 3, 0]])"
TARGETS = "np.array([1, 0, 2])"
SIGNS = "np.array([1.0, -1.0, 1.0], np.float32)"

CASES = [
    # activations
    *((f"nn.{name}()", [(2, 3)]) for name in (
        "ReLU", "ReLU6", "Hardtanh", "ELU", "CELU", "SELU", "SiLU", "Mish", "Hardswish",
        "Hardsigmoid", "LeakyReLU", "GELU", "Softplus", "Softshrink", "Hardshrink", "Sigmoid",
        "Tanh", "LogSigmoid", "Softsign", "Tanhshrink", "PReLU", "Identity")),
    ("nn.ReLU(inplace=True)", []), ("nn.LeakyReLU(0.2, inplace=True)", []),
    ("nn.RReLU().eval()", [(2, 3)]), ("nn.Threshold(0.1, 20)", [(2, 3)]),
    ("nn.Hardtanh(-2, 2)", [(2, 3)]), ("nn.ELU(0.5)", [(2, 3)]), ("nn.GLU()", [(2, 4)]),
    ("nn.GELU(approximate='tanh')", [(2, 3)]), ("nn.Softplus(2, 3)", [(2, 3)]),
    ("nn.Softmax(dim=1)", [(2, 3)]), ("nn.LogSoftmax(dim=0)", [(2, 3)]),
    ("nn.Softmin(dim=1)", [(2, 3)]), ("nn.Softmax2d()", [(2, 3, 2, 2)]),
    ("nn.PReLU(3)", [(2, 3, 4)]),
    # dropout does nothing in evaluation
    *((f"nn.{name}(0.3).eval()", [(2, 3, 4, 4)]) for name in (
        "Dropout", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout")),
    ("nn.Dropout1d().eval()", [(2, 3, 4)]), ("nn.Dropout3d().eval()", [(2, 3, 2, 2, 2)]),
    # padding
    *((f"nn.{kind}Pad1d(2)", [(2, 3, 4)]) for kind in
      ("Circular", "Reflection", "Replication", "Zero")),
    *((f"nn.{kind}Pad2d((1, 2, 0, 1))", [(1, 2, 3, 4)]) for kind in
      ("Circular", "Reflection", "Replication", "Zero")),
    *((f"nn.{kind}Pad3d(1)", [(1, 1, 2, 3, 2)]) for kind in
      ("Circular", "Reflection", "Replication", "Zero")),
    ("nn.ConstantPad1d(2, 3.5)", [(2, 3)]), ("nn.ConstantPad2d((1, 0, 2, 1), -1)", [(1, 2, 3)]),
    ("nn.ConstantPad3d(1, 0.5)", [(1, 1, 2, 2, 2)]),
    # pooling
    ("nn.MaxPool1d(3, 2, 1)", [(2, 3, 7)]),
    ("nn.MaxPool2d((2, 3), ceil_mode=True)", [(2, 3, 5, 7)]),
    ("nn.MaxPool3d(2)", [(1, 2, 4, 4, 4)]), ("nn.AvgPool1d(3)", [(2, 3, 7)]),
    ("nn.AvgPool2d(3, 2, 1, count_include_pad=False)", [(2, 3, 5, 6)]),
    ("nn.AvgPool3d(2)", [(1, 2, 4, 4, 4)]), ("nn.LPPool1d(2, 3)", [(2, 3, 7)]),
    ("nn.LPPool2d(2, 3, stride=2)", [(2, 3, 7, 7)]), ("nn.LPPool3d(2, 2)", [(1, 1, 4, 4, 4)]),
    *((f"nn.Adaptive{kind}Pool{n}d({3 if n < 3 else 2})", [(2, 3, *(7, 5, 4)[:n])])
      for kind in ("Avg", "Max") for n in (1, 2, 3)),
    ("nn.AdaptiveAvgPool2d((None, 2))", [(2, 3, 4, 5)]),
    ("nn.MaxUnpool1d(2)", [(1, 2, 3), "np.array([[[0, 3, 5], [1, 2, 4]]])"]),
    ("nn.MaxUnpool2d((2, 1), stride=(2, 1))",
     [(1, 1, 2, 2), "np.array([[[[0, 1], [4, 7]]]])"]),
    ("nn.MaxUnpool3d(2)", [(1, 1, 1, 1, 1), "np.array([[[[[5]]]]])"]),
    ("nn.FractionalMaxPool2d(2, output_size=(3, 2), "
     "_random_samples=torch.tensor([[[0.3, 0.6], [0.1, 0.9]]]))", [(1, 2, 6, 5)]),
    ("nn.FractionalMaxPool3d((2, 1, 2), output_ratio=0.5, "
     "_random_samples=torch.tensor([[[0.3, 0.6, 0.2]]]))", [(1, 1, 4, 5, 6)]),
    ("nn.FractionalMaxPool2d(3, output_ratio=(0.5, 0.7))", []),
    ("nn.Unfold(2)", [(2, 3, 3, 4)]), ("nn.Unfold((3, 2), 2, 1, (2, 1))", [(1, 2, 6, 5)]),
    ("nn.Fold((4, 5), (2, 3), padding=1)", [(2, 12, 25)]), ("nn.Fold(4, 2, stride=2)", [(4, 4)]),
    # linear maps
    ("nn.Linear(3, 4)", [(2, 3)]), ("nn.Linear(3, 4, bias=False)", [(2, 5, 3)]),
    ("nn.Linear(2, 3, dtype=torch.float64)", []), ("nn.Bilinear(2, 3, 4)", [(5, 2), (5, 3)]),
    # convolution
    ("nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)", [(2, 4, 9)]),
    ("nn.Conv2d(3, 4, (3, 2), padding=(1, 0), dilation=(1, 2), bias=False)", [(2, 3, 6, 7)]),
    ("nn.Conv2d(2, 3, 3, padding='same', padding_mode='reflect')", [(1, 2, 5, 5)]),
    ("nn.Conv2d(2, 4, 3, padding=1, padding_mode='circular')", [(1, 2, 4, 5)]),
    ("nn.Conv3d(2, 3, 2)", [(1, 2, 3, 4, 3)]),
    ("nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1)", [(2, 3, 5)]),
    ("nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, dilation=2)", [(1, 4, 3, 4)]),
    ("nn.ConvTranspose3d(2, 2, 2)", [(1, 2, 2, 3, 2)]),
    # norms
    *((f"nn.BatchNorm{n}d(3){mode}", [(2, 3, *(4, 3, 2)[:n])]) for n in (1, 2, 3)
      for mode in ("", ".eval()")),
    ("nn.BatchNorm1d(3, momentum=None)", [(4, 3)]),
    ("nn.BatchNorm2d(3, affine=False, track_running_stats=False)", [(2, 3, 4, 4)]),
    *((f"nn.InstanceNorm{n}d(3, affine={n == 2}, track_running_stats={n == 3})",
       [(2, 3, *(4, 3, 2)[:n])]) for n in (1, 2, 3)),
    ("nn.LayerNorm(4)", [(2, 3, 4)]), ("nn.LayerNorm((3, 4), bias=False)", [(2, 3, 4)]),
    ("nn.LayerNorm(4, elementwise_affine=False)", [(2, 4)]), ("nn.GroupNorm(2, 4)", [(2, 4, 3)]),
    ("nn.GroupNorm(2, 4, affine=False)", [(2, 4, 3)]), ("nn.RMSNorm(4)", [(2, 4)]),
    # without gradients: PyTorch's are not those of what it computes
    *((f"nn.CrossMapLRN2d({args})",
       ["np.linspace(-1, 2, 40, dtype=np.float32).reshape(2, 5, 2, 2)"])
      for args in ("3", "5, 0.5, 0.5, 2", "4, 1.0")),
    ("nn.LocalResponseNorm(2)", [(2, 4, 3, 3)]), ("nn.SyncBatchNorm(3)", []),
    # embeddings
    ("nn.Embedding(4, 3)", [INDICES]), ("nn.Embedding(4, 3, padding_idx=-1)", [INDICES]),
    ("nn.EmbeddingBag(4, 3)", [INDICES]), ("nn.EmbeddingBag(4, 3, mode='sum')", [INDICES]),
    ("nn.EmbeddingBag(4, 3, mode='max', padding_idx=0)", [INDICES]),
    # shape, images, distances
    ("nn.Flatten()", [(2, 3, 4)]), ("nn.Flatten(0, 1)", [(2, 3, 4)]),
    ("nn.Unflatten(1, (2, 2))", [(2, 4)]), ("nn.PixelShuffle(2)", [(1, 4, 2, 3)]),
    ("nn.PixelUnshuffle(2)", [(1, 1, 4, 6)]), ("nn.ChannelShuffle(2)", [(1, 4, 2, 2)]),
    ("nn.Upsample(scale_factor=2)", [(1, 2, 2, 3)]),
    ("nn.Upsample(size=(4, 5), mode='bilinear')", [(1, 2, 2, 3)]),
    ("nn.Upsample(scale_factor=(2, 1.5), mode='bilinear', align_corners=True)", [(1, 1, 4, 4)]),
    ("nn.Upsample(scale_factor=2, mode='bicubic')", [(1, 1, 4, 4)]),
    ("nn.UpsamplingNearest2d(scale_factor=2)", [(1, 1, 2, 2)]),
    ("nn.UpsamplingBilinear2d(size=(3, 3))", [(1, 1, 2, 2)]),
    ("nn.CosineSimilarity()", [(2, 3), (2, 3)]), ("nn.PairwiseDistance()", [(2, 3), (2, 3)]),
    # losses
    *((f"nn.{name}({reduction})", [(3, 4), (3, 4)])
      for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss")
      for reduction in ("", "reduction='sum'", "reduction='none'")),
    ("nn.KLDivLoss(reduction='batchmean')", [(3, 4), (3, 4)]),
    ("nn.CrossEntropyLoss()", [(3, 4), TARGETS]),
    ("nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5, 1.0]), label_smoothing=0.1)",
     [(3, 4), TARGETS]),
    ("nn.CrossEntropyLoss(ignore_index=1, reduction='none')", [(3, 4), TARGETS]),
    ("nn.NLLLoss()", [(3, 4), TARGETS]),
    ("nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))", [(3, 4), (3, 4)]),
    ("nn.BCELoss()", ["np.full((3, 4), 0.3, np.float32)", "np.full((3, 4), 0.6, np.float32)"]),
    ("nn.MultiMarginLoss()", [(3, 4), TARGETS]), ("nn.SoftMarginLoss()", [(3,), SIGNS]),
    ("nn.MultiLabelSoftMarginLoss()", [(3, 4), "np.ones((3, 4), np.float32)"]),
    ("nn.MultiLabelMarginLoss()", [(1, 4), "np.array([[3, 0, -1, 1]])"]),
    ("nn.HingeEmbeddingLoss()", [(3,), SIGNS]),
    ("nn.MarginRankingLoss(0.1)", [(3,), (3,), SIGNS]),
    ("nn.CosineEmbeddingLoss()", [(3, 4), (3, 4), SIGNS]),
    ("nn.TripletMarginLoss()", [(3, 4), (3, 4), (3, 4)]),
    ("nn.TripletMarginWithDistanceLoss()", [(3, 4), (3, 4), (3, 4)]),
    ("nn.GaussianNLLLoss()", [(3, 4), (3, 4), "np.full((3, 4), 0.7, np.float32)"]),
    *((f"nn.CTCLoss({args})", [(7, 2, 4), "np.array([[1, 2, 2], [3, 1, 0]])", "np.array([7, 5])",
                               "np.array([3, 2])"])
      for args in ("", "reduction='sum'", "blank=3, reduction='none', zero_infinity=True")),
    ("nn.CTCLoss()", [(6, 2, 4), "np.array([1, 2, 3, 1])", "np.array([6, 6])", "np.array([1, 3])"]),
    ("nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0, head_bias=True)",
     [(5, 8), "np.array([0, 9, 4, 2, 6])"]),
    ("nn.LinearCrossEntropyLoss(3, 4, bias=True)", [(5, 3), "np.array([1, 0, 2, 3, 0])"]),
    ("nn.LinearCrossEntropyLoss(3, 4, weight=torch.tensor([1.0, 2.0, 0.5, 1.0]), ignore_index=2)",
     [(5, 3), "np.array([1, 0, 2, 3, 0])"]),
    *((f"nn.LinearCrossEntropyLoss(3, 4, bias=True, reduction='{reduction}', "
       "options=nn.LinearCrossEntropyOptions(batch_chunk_size=2))",
       [(5, 3), "np.array([1, 0, 2, -100, 0])"]) for reduction in ("mean", "sum", "none")),
    # recurrent
    ("nn.RNN(3, 4)", [(5, 2, 3)]), ("nn.RNN(3, 4, 2, nonlinearity='relu')", [(5, 2, 3), (2, 2, 4)]),
    ("nn.LSTM(3, 4, 2, bidirectional=True)", [(5, 2, 3)]), ("nn.LSTM(3, 4, bias=False)", [(5, 3)]),
    ("nn.LSTM(3, 4, proj_size=2, batch_first=True)", [(2, 5, 3)]),
    ("nn.GRU(3, 4, batch_first=True, bidirectional=True)", [(2, 5, 3), (2, 2, 4)]),
    ("nn.GRU(3, 4, num_layers=2, dropout=0.5).eval()", [(5, 2, 3)]),
    ("nn.RNNCell(3, 4)", [(2, 3)]), ("nn.RNNCell(3, 4, nonlinearity='relu')", [(3,)]),
    ("nn.LSTMCell(3, 4)", [(2, 3)]), ("nn.GRUCell(3, 4, bias=False)", [(2, 3), (2, 4)]),
    # attention
    ("nn.MultiheadAttention(4, 2)", [(3, 2, 4), (5, 2, 4), (5, 2, 4)]),
    ("nn.MultiheadAttention(4, 2, bias=False, kdim=3, vdim=5, batch_first=True)",
     [(2, 3, 4), (2, 6, 3), (2, 6, 5)]),
    ("nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True)",
     [(3, 4), (5, 4), (5, 4)]),
    ("nn.MultiheadAttention(4, 2)",
     [(3, 2, 4), (3, 2, 4), (3, 2, 4), "np.array([[0, 0, 1], [0, 0, 0]], bool)", "False",
      "np.triu(np.ones((3, 3), bool), 1)"]),
    ("nn.TransformerEncoderLayer(4, 2, 8).eval()", [(3, 2, 4)]),
    ("nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, norm_first=True, activation='gelu', "
     "batch_first=True)", [(2, 3, 4)]),
    ("nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0)", [(3, 2, 4), (5, 2, 4)]),
    ("nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 2, nn.LayerNorm(4))",
     [(3, 2, 4), "np.triu(np.full((3, 3), -np.inf, np.float32), 1)"]),
    ("nn.Transformer(4, 2, 1, 1, 8, dropout=0.0)", [(3, 2, 4), (5, 2, 4)]),
    # containers
    ("nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))", [(2, 3)]),
    ("nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()])", []),
    ("nn.ModuleDict({'a': nn.Linear(2, 3), 'b': nn.ReLU()})", []),
    ("nn.ParameterList([torch.zeros(2), nn.Parameter(torch.zeros(3, 2))])", []),
    ("nn.ParameterDict({'x': torch.zeros(2)})", []),
    ("nn.Container(a=nn.Linear(2, 3), b=nn.ReLU())", []),
    ("nn.DataParallel(nn.Linear(2, 3))", []),
    # parametrized and pruned
    *((f"nn.utils.{form}({layer})", [inputs])
      for form in ("parametrizations.weight_norm", "parametrizations.spectral_norm", "weight_norm",
                   "spectral_norm")
      for layer, inputs in (("nn.Linear(3, 4)", (2, 3)),
                            ("nn.ConvTranspose2d(2, 3, 2, bias=False)", (1, 2, 3, 3)))),
    ("nn.utils.parametrizations.weight_norm(nn.Linear(3, 4), dim=None)", [(2, 3)]),
    ("nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), 'bias').eval()", [(2, 3)]),
    ("nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 4)))", [(2, 3)]),
    ("nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 4)))", [(2, 3)]),
    *((f"nn.utils.parametrizations.orthogonal(nn.Linear({sizes}), orthogonal_map='{kind}')",
       [(2, n)]) for kind in ("matrix_exp", "cayley", "householder")
      for sizes, n in (("3, 3", 3), ("2, 4", 2), ("4, 2", 4))),
    ("nn.utils.parametrizations.orthogonal(nn.Linear(2, 3), use_trivialization=False)", [(3, 2)]),
    ("nn.utils.parametrize.remove_parametrizations("
     "nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), 'weight')", [(2, 2)]),
    ("nn.utils.prune.l1_unstructured(nn.Linear(3, 4), 'weight', 0.3)", [(2, 3)]),
    ("nn.utils.prune.ln_structured(nn.Conv1d(3, 4, 2), 'weight', 2, n=2, dim=0)", [(2, 3, 5)]),
    ("nn.utils.prune.remove(nn.utils.prune.identity(nn.Linear(3, 4), 'bias'), 'bias')", [(2, 3)]),
    ("nn.Sequential()", []), ("nn.ModuleList()", []),
]  # fmt: skip


def numbers(shape, seed):
    """The same numbers for both libraries."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def flat(out):
    """The tensors of nested tuples."""
    if isinstance(out, tuple):
        return [t for part in out for t in flat(part)]
    return [] if out is None else [out]


def given(torch, what, seed):
    """An input of a case."""
    if not isinstance(what, str):
        return torch.tensor(numbers(what, seed))
    value = eval(what, {"np": np})
    return value if isinstance(value, bool) else torch.tensor(value)


def run(torch, index):
    """What a case gives: {name: text or array}."""
    expression, inputs = CASES[index]
    torch.manual_seed(0)
    nn = torch.nn
    module = eval(expression, {"torch": torch, "nn": nn, "np": np})
    found = {"repr": repr(module).replace("tritorch.", "torch.")}
    state = module.state_dict()
    found["state"] = [[key, list(value.shape)] for key, value in state.items()]
    if not inputs:
        return found
    for i, (key, value) in enumerate(state.items()):
        if value.is_floating_point():
            filled = numbers(tuple(value.shape), 100 + i) * 0.5
            value.copy_(torch.tensor(abs(filled) + 0.5 if "running_var" in key else filled))
    tensors = [given(torch, x, 7 * index + i) for i, x in enumerate(inputs)]
    for x, made in zip(tensors, inputs):
        if not isinstance(made, str):
            x.requires_grad_()
    outs = flat(module(*tensors))
    total = 0
    for i, out in enumerate(outs):
        found["out" if i == 0 else f"out {i}"] = out.detach().numpy()
        if out.requires_grad:
            weight = np.cos(np.arange(max(out.numel(), 1)) + i).reshape(tuple(out.shape))
            total = total + (out * torch.tensor(weight.astype(np.float32))).sum()
    if not isinstance(total, int):
        total.backward()
        for i, x in enumerate(tensors):
            if getattr(x, "grad", None) is not None:
                found[f"input {i}"] = x.grad.numpy()
    for name, param in module.named_parameters():
        if param.grad is not None:
            found[f"grad {name}"] = param.grad.numpy()
    for name, buffer in module.named_buffers():
        found[f"buffer {name}"] = buffer.numpy()
    return found
