"""Modules of torch.nn scripted and traced: they compute what they compute in Python."""

import io

import pytest

import tritorch as torch
from tritorch import nn  # noqa: F401 - the cases name it

pytestmark = pytest.mark.filterwarnings("ignore")
v = torch.randn(3, 4)
x1, x2, x3 = torch.randn(2, 4, 8), torch.randn(2, 4, 8, 8), torch.randn(2, 4, 6, 6, 6)
steps, classes = torch.randn(5, 2, 4), torch.tensor([0, 1, 2])
CASES = {
    "Linear(4,5)": v,
    "Identity()": v,
    "Bilinear(4,4,3)": (v, v),
    "PReLU()": v,
    "ReLU()": v,
    "ReLU6()": v,
    "Hardtanh()": v,
    "ELU()": v,
    "CELU()": v,
    "SELU()": v,
    "SiLU()": v,
    "Mish()": v,
    "Hardswish()": v,
    "Hardsigmoid()": v,
    "LeakyReLU()": v,
    "Threshold(0.1,0.2)": v,
    "GELU()": v,
    "GLU()": v,
    "Softplus()": v,
    "Softshrink()": v,
    "Hardshrink()": v,
    "Sigmoid()": v,
    "Tanh()": v,
    "LogSigmoid()": v,
    "Softsign()": v,
    "Tanhshrink()": v,
    "Softmax(dim=1)": v,
    "LogSoftmax(dim=1)": v,
    "Softmin(dim=1)": v,
    "Softmax2d()": x2,
    "RReLU()": v,
    "ReLU(inplace=True)": v,
    "Dropout()": v,
    "Dropout1d()": x1,
    "Dropout2d()": x2,
    "Dropout3d()": x3,
    "AlphaDropout()": v,
    "FeatureAlphaDropout()": x2,
    "Conv1d(4,2,3)": x1,
    "Conv2d(4,2,3,padding=1)": x2,
    "Conv3d(4,2,3)": x3,
    "Conv2d(4,2,3,padding='same')": x2,
    "Conv2d(4,2,3,padding=1,padding_mode='circular')": x2,
    "ConvTranspose1d(4,2,3)": x1,
    "ConvTranspose2d(4,2,3,stride=2)": x2,
    "ConvTranspose3d(4,2,3)": x3,
    "BatchNorm1d(4)": x1,
    "BatchNorm2d(4)": x2,
    "BatchNorm3d(4)": x3,
    "InstanceNorm1d(4)": x1,
    "InstanceNorm2d(4)": x2,
    "InstanceNorm3d(4)": x3,
    "LayerNorm(4)": v,
    "GroupNorm(2,4)": x2,
    "RMSNorm(4)": v,
    "LocalResponseNorm(2)": x2,
    "MaxPool1d(2)": x1,
    "MaxPool2d(2)": x2,
    "MaxPool3d(2)": x3,
    "MaxPool2d(2,return_indices=True)": x2,
    "AvgPool1d(2)": x1,
    "AvgPool2d(2)": x2,
    "AvgPool3d(2)": x3,
    "AdaptiveAvgPool1d(2)": x1,
    "AdaptiveAvgPool2d(2)": x2,
    "AdaptiveAvgPool2d((2,None))": x2,
    "AdaptiveAvgPool3d(2)": x3,
    "AdaptiveMaxPool2d(2)": x2,
    "LPPool2d(2,2)": x2,
    "LPPool1d(2,2)": x1,
    "ZeroPad2d(1)": x2,
    "ConstantPad1d(1,2.0)": x1,
    "ReflectionPad2d(1)": x2,
    "ReplicationPad2d(1)": x2,
    "CircularPad2d(1)": x2,
    "Flatten()": x2,
    "Unflatten(1,(2,2))": v,
    "PixelShuffle(2)": x2,
    "PixelUnshuffle(2)": x2,
    "ChannelShuffle(2)": x2,
    "Upsample(scale_factor=2.0)": x2,
    "Upsample(size=5,mode='nearest')": x2,
    "UpsamplingBilinear2d(scale_factor=2)": x2,
    "Unfold(2)": x2,
    "Fold((4,4),(2,2))": torch.randn(1, 8, 9),
    "CosineSimilarity()": (v, v),
    "PairwiseDistance()": (v, v),
    "Embedding(10,3)": torch.tensor([[1, 2], [3, 4]]),
    "EmbeddingBag(10,3)": torch.tensor([[1, 2], [3, 4]]),
    "RNN(4,3)": steps,
    "LSTM(4,3)": steps,
    "GRU(4,3,2,bidirectional=True)": steps,
    "LSTMCell(4,3)": v,
    "GRUCell(4,3)": v,
    "RNNCell(4,3)": v,
    "MultiheadAttention(4,2)": (steps,) * 3,
    "TransformerEncoderLayer(4,2,8)": steps,
    "TransformerEncoder(nn.TransformerEncoderLayer(4,2,8),2)": steps,
    "TransformerDecoderLayer(4,2,8)": (steps,) * 2,
    "Transformer(4,2,1,1,8)": (steps,) * 2,
    "MSELoss()": (v, v),
    "L1Loss()": (v, v),
    "SmoothL1Loss()": (v, v),
    "HuberLoss()": (v, v),
    "CrossEntropyLoss()": (v, classes),
    "NLLLoss()": (v, classes),
    "BCELoss()": (v.sigmoid(), v.sigmoid()),
    "BCEWithLogitsLoss()": (v, v.sigmoid()),
    "KLDivLoss()": (v.log_softmax(1), v.softmax(1)),
    "PoissonNLLLoss()": (v, v.abs()),
    "GaussianNLLLoss()": (v, v, v.abs()),
    "HingeEmbeddingLoss()": (v, v.sign()),
    "SoftMarginLoss()": (v, v.sign()),
    "CosineEmbeddingLoss()": (v, v, torch.ones(3)),
    "MarginRankingLoss()": (v, v, v.sign()),
    "TripletMarginLoss()": (v, v, v),
    "MultiMarginLoss()": (v, classes),
    "MultiLabelSoftMarginLoss()": (v, v.sigmoid()),
    "MultiLabelMarginLoss()": (v, torch.tensor([[0, 1, -1, 2]] * 3)),
    "CTCLoss()": (
        torch.randn(6, 2, 5).log_softmax(2),
        torch.tensor([[1, 2], [2, 3]]),
        torch.tensor([6, 6]),
        torch.tensor([2, 2]),
    ),
    "Sequential(nn.Linear(4,4),nn.ReLU(),nn.Sequential(nn.Linear(4,2)))": v,
}


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [part for each in value or () for part in flat(each)]


def ran(module, arguments):
    torch.manual_seed(0)
    return flat(module(*[each.clone() for each in arguments]))


@pytest.mark.parametrize("way", ["script", "trace"])
@pytest.mark.parametrize("case", CASES)
def test_a_module(case, way):
    arguments = CASES[case] if isinstance(CASES[case], tuple) else (CASES[case],)
    for training in (False, True):
        module = eval(f"nn.{case}").train(training)
        if way == "script":
            compiled = torch.jit.script(module)
        else:
            compiled = torch.jit.trace(module, arguments, check_trace=False)
        expected = ran(module, arguments)
        buffer = io.BytesIO()
        compiled.save(buffer)
        buffer.seek(0)
        for each in (compiled, torch.jit.load(buffer)):
            for found, wanted in zip(ran(each, arguments), expected, strict=True):
                torch.testing.assert_close(found, wanted)
