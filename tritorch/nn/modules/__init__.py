"""Every module of torch.nn."""

from tritorch.nn.modules import declared as _declared, lazy as _lazy, loss as _loss
from tritorch.nn.modules.adaptive import AdaptiveLogSoftmaxWithLoss
from tritorch.nn.modules.attention import MultiheadAttention
from tritorch.nn.modules.container import (
    Container,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from tritorch.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from tritorch.nn.modules.embedding import Embedding, EmbeddingBag
from tritorch.nn.modules.linear import Bilinear, Identity, Linear, PReLU
from tritorch.nn.modules.loss import LinearCrossEntropyLoss, NLLLoss2d
from tritorch.nn.modules.module import Module
from tritorch.nn.modules.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    CrossMapLRN2d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    RMSNorm,
    SyncBatchNorm,
)
from tritorch.nn.modules.rnn import (
    GRU,
    LSTM,
    RNN,
    GRUCell,
    LSTMCell,
    RNNBase,
    RNNCell,
    RNNCellBase,
)
from tritorch.nn.modules.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from tritorch.ops.loss.linear_cross_entropy import LinearCrossEntropyOptions

globals().update(_declared.STATELESS | _lazy.LAZY)

# Not the files by the same names as others of tritorch.nn: attention, utils.
__all__ = sorted(name for name, value in globals().items() if isinstance(value, type))
