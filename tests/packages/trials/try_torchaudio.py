"""torchaudio: spectrograms and their inverses, filters, resampling, effects, models, losses."""

import torch
import torchaudio
from torchaudio import functional as F, transforms as T
from torchaudio.models import Conformer, ConvTasNet, wav2vec2_model

torch.manual_seed(0)
t = torch.arange(16000) / 16000
wave = torch.sin(2 * torch.pi * 440 * t)[None]
spectrum = T.Spectrogram(n_fft=400, power=None)(wave)
torch.testing.assert_close(
    T.InverseSpectrogram(n_fft=400)(spectrum, 16000), wave, rtol=1e-3, atol=1e-3
)
mel = T.MelSpectrogram(16000, n_mels=40)(wave)
assert mel.shape[1] == 40 and T.MFCC(16000, melkwargs={"n_mels": 40})(wave).shape[1] == 40
assert T.AmplitudeToDB()(mel).isfinite().all() and F.compute_deltas(mel).shape == mel.shape
low = F.lowpass_biquad(wave, 16000, 100.0)
assert (
    low[:, 4000:].abs().max() < 0.1
    and F.highpass_biquad(wave, 16000, 100.0)[:, 4000:].abs().max() > 0.8
)
b, a = torch.tensor([0.2, 0.3]), torch.tensor([1.0, -0.5])
expected, last = [], (0.0, 0.0)
for x in wave[0, :50].tolist():
    last = (x, 0.2 * x + 0.3 * last[0] + 0.5 * last[1])
    expected.append(last[1])
torch.testing.assert_close(
    F.lfilter(wave[:, :50], a, b, clamp=False)[0], torch.tensor(expected), rtol=1e-4, atol=1e-5
)
assert F.resample(wave, 16000, 8000).shape == (1, 8000) and F.overdrive(wave).shape == wave.shape
masked = T.TimeMasking(20)(T.FrequencyMasking(8)(mel.clone()))
assert (
    masked.shape == mel.shape
    and T.TimeStretch(fixed_rate=1.2, n_freq=201)(spectrum).shape[1] == 201
)
assert F.pitch_shift(wave, 16000, 2).shape == wave.shape
logits = torch.randn(1, 6, 4, 5, requires_grad=True)
loss = F.rnnt_loss(
    logits,
    torch.tensor([[1, 2, 3]], dtype=torch.int32),
    torch.tensor([6], dtype=torch.int32),
    torch.tensor([3], dtype=torch.int32),
    blank=0,
)
loss.backward()
assert loss > 0 and logits.grad.sum(-1).abs().max() < 1e-5
paths, scores = F.forced_align(
    torch.randn(1, 8, 5).log_softmax(-1), torch.tensor([[1, 2, 2]], dtype=torch.int32)
)
spans = [p for i, p in enumerate(paths[0].tolist()) if p and (i == 0 or paths[0, i - 1] != p)]
assert spans == [1, 2, 2]
model = wav2vec2_model(
    "group_norm",
    [(16, 10, 5), (16, 3, 2)],
    False,
    16,
    0.0,
    8,
    2,
    1,
    2,
    0.0,
    32,
    0.0,
    0.0,
    False,
    0.0,
    5,
)
out, _ = model(torch.randn(2, 800))
out.square().mean().backward()
Conformer(16, 2, 32, 1, 3)(torch.randn(2, 10, 16), torch.tensor([10, 8]))[0].sum().backward()
ConvTasNet(
    2,
    enc_num_feats=16,
    msk_num_feats=8,
    msk_num_hidden_feats=16,
    msk_num_layers=2,
    msk_num_stacks=1,
)(torch.randn(1, 1, 200)).sum().backward()
assert torchaudio.__version__
print("ok")
