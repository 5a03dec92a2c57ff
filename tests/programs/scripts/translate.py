"""A transformer that learns to turn sequences around: nn.Transformer, masks, Noam's schedule."""

import math

import torch
from seedless import set_weights, waves
from torch import Tensor, nn
from torch.nn import Transformer
from torch.optim.lr_scheduler import LambdaLR

PAD, BOS, EOS = 0, 1, 2


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 50):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        table = torch.zeros((maxlen, emb_size))
        table[:, 0::2] = torch.sin(pos * den)
        table[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pos_embedding", table.unsqueeze(-2))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.dropout(tokens + self.pos_embedding[: tokens.size(0), :])


class Seq2Seq(nn.Module):
    def __init__(self, vocab: int, emb: int = 32, heads: int = 4, dropout: float = 0.0):
        super().__init__()
        self.transformer = Transformer(emb, heads, 1, 1, 64, dropout)
        self.generator = nn.Linear(emb, vocab)
        self.embed = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.positions = PositionalEncoding(emb, dropout)
        self.scale = math.sqrt(emb)

    def encode(self, src, mask=None):
        return self.transformer.encoder(self.positions(self.embed(src) * self.scale), mask)

    def decode(self, tgt, memory, mask):
        return self.transformer.decoder(self.positions(self.embed(tgt) * self.scale), memory, mask)

    def forward(self, src, tgt, tgt_mask, src_padding, tgt_padding):
        out = self.transformer(
            self.positions(self.embed(src) * self.scale),
            self.positions(self.embed(tgt) * self.scale),
            tgt_mask=tgt_mask,
            src_key_padding_mask=src_padding,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
        )
        return self.generator(out)


def batches(count, size=8):
    for number in range(count):
        pairs = []
        for item in range(size):
            length = 3 + (number + item) % 4
            src = (waves(length, speed=0.1 + 0.01 * (number * size + item)) * 4 + 7).long()
            pairs.append(
                (src, torch.cat([src.new_tensor([BOS]), src.flip(0), src.new_tensor([EOS])]))
            )
        src, tgt = zip(*pairs)
        yield nn.utils.rnn.pad_sequence(src), nn.utils.rnn.pad_sequence(tgt, padding_value=PAD)


def main():
    vocab = 12
    model = set_weights(Seq2Seq(vocab))
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-9)
    noam = lambda step: 32**-0.5 * min((step + 1) ** -0.5, (step + 1) * 20**-1.5)
    scheduler = LambdaLR(optimizer, noam)
    model.train()
    for step, (src, tgt) in enumerate(batches(14)):
        inputs, wanted = tgt[:-1, :], tgt[1:, :]
        mask = Transformer.generate_square_subsequent_mask(inputs.size(0))
        tgt_padding = torch.zeros(inputs.t().shape).masked_fill(inputs.t() == PAD, -math.inf)
        logits = model(src, inputs, mask, src.t() == PAD, tgt_padding.isinf())
        loss = criterion(logits.reshape(-1, vocab), wanted.reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.6f} norm {norm:.4f} perplexity {math.exp(loss):.4f}")
    model.eval()
    with torch.inference_mode():
        memory = model.encode(src[:, :1])
        out = torch.full((1, 1), BOS)
        for _ in range(5):
            mask = nn.Transformer.generate_square_subsequent_mask(out.size(0))
            logits = model.generator(model.decode(out, memory, mask)[-1])
            out = torch.cat([out, logits.argmax(-1, keepdim=True)], dim=0)
        print(f"greedy logits {logits[0, 3:6].sum().item():.4f}")


if __name__ == "__main__":
    main()
