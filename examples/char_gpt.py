"""A character GPT: learns to write like the text it reads, one character after another.

python char_gpt.py                      # a minute on two CPU cores
python char_gpt.py --text my_notes.txt --steps 2000 --out runs/notes
python char_gpt.py --resume --steps 1000
"""

from __future__ import annotations

import bz2
import math
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
from training import Run, parse

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F

TEXT = Path(__file__).parent / "texts" / "kjv.txt.bz2"


class SquaredReLU(nn.Module):
    """max(x, 0)^2: learns as well as GELU here, and costs less."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().square()


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): shapes stay (batch, time, width)."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            SquaredReLU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        # (batch, time, 3 width) -> three of (batch, heads, time, width / heads)
        qkv = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Characters (batch, time) in, logits for the next ones (batch, time, letters) out."""

    def __init__(
        self, letters: int, context: int, width: int, layers: int, heads: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.context = context
        self.letter = nn.Embedding(letters, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.letter(x) + self.position(positions))))

    @torch.no_grad()
    def write(self, start: torch.Tensor, count: int, temperature: float) -> torch.Tensor:
        """Goes on from start (batch, time) by count characters, each drawn from the model."""
        text = start
        for _ in range(count):
            logits = self(text[:, -self.context :])[:, -1].float()
            chances = F.softmax(logits / temperature, dim=-1)
            text = torch.cat([text, torch.multinomial(chances, 1)], dim=1)
        return text


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, and returns the losses."""
    options = parse(
        __doc__,
        argv,
        steps=600,
        text=(str(TEXT), "a text to learn from, may be .bz2"),
        batch=(16, "pieces of text a step"),
        context=(64, "characters a piece"),
        width=(128, "of the residual stream"),
        layers=(4, "blocks"),
        heads=(4, "attention heads a block"),
        dropout=(0.0, "share of activations dropped"),
        lr=(2e-3, "AdamW's rate, for embeddings, norms and biases"),
        muon_lr=(0.02, "Muon's rate, for the matrices of the blocks"),
        sample=(600, "characters to write at the end"),
        temperature=(0.5, "of the sample: lower is safer"),
    )
    torch.manual_seed(options.seed)
    opened = bz2.open if options.text.endswith(".bz2") else open
    with opened(options.text, "rt", encoding="utf-8") as file:
        text = file.read()
    letters = sorted(set(text))
    number = {letter: k for k, letter in enumerate(letters)}
    data = np.array([number[letter] for letter in text])
    cut = len(data) * 95 // 100  # the last twentieth is for validation
    sizes = [options.context, options.width, options.layers, options.heads, options.dropout]
    model = GPT(len(letters), *sizes).to(options.device)

    # Muon turns a matrix's gradient into the nearest rotation: it learns in half of AdamW's steps.
    matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    muon = torch.optim.Muon(matrices, lr=options.muon_lr, weight_decay=0.0)
    adam = torch.optim.AdamW(others, lr=options.lr, betas=(0.9, 0.95), weight_decay=0.0)

    def rate(step: int) -> float:
        """Rises over 20 steps, then falls along a cosine to a twentieth."""
        share = run.share(step) if step else 0.0
        rest = 0.5 + 0.5 * math.cos(math.pi * min(1.0, share))
        return min(1.0, (step + 1) / 20) * (0.05 + 0.95 * rest)

    schedules = [torch.optim.lr_scheduler.LambdaLR(o, rate) for o in (muon, adam)]
    run = Run(options, "tokens", model=model, muon=muon, adam=adam,
              muon_schedule=schedules[0], adam_schedule=schedules[1])  # fmt: skip

    def batch(rng: np.random.Generator, low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Pieces from data[low:high], and the same one character on."""
        starts = rng.integers(low, high - options.context, options.batch)
        pieces = data[starts[:, None] + np.arange(options.context + 1)]
        pieces = torch.from_numpy(pieces).to(options.device)
        return pieces[:, :-1], pieces[:, 1:]

    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(data):,} characters")
    for step in run.steps():
        x, y = batch(run.rng(step), 0, cut)
        with run.autocast():
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        model.zero_grad()
        run.scaler.scale(loss).backward()
        for optimizer, schedule in zip((muon, adam), schedules):
            run.scaler.unscale_(optimizer)
            run.scaler.step(optimizer)
            schedule.step()
        run.scaler.update()
        run.log(loss, x.numel())

    model.eval()
    with torch.no_grad(), run.autocast():
        rng = np.random.default_rng(options.seed)
        x, y = batch(rng, cut, len(data))
        unseen = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        print(f"loss on text it has not seen: {unseen.item():.3f}")
        start = torch.tensor([[number.get("\n", 0)]], device=options.device)
        written = model.write(start, options.sample, options.temperature)
    sample = "".join(letters[k] for k in written[0].tolist()).strip()
    (options.out / "sample.txt").write_text(sample + "\n", encoding="utf-8")
    print(f"\n{chr(10).join(fill(line, 96) for line in sample.splitlines())}\n")
    return run.losses


if __name__ == "__main__":
    main()
