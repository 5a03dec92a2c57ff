"""An LSTM that names the part of speech of each word, in sentences from a small grammar.

    python lstm_tagger.py --steps 200

Some words are nouns here and verbs there ("the fish swim", "they fish"), or adjectives and nouns:
only their neighbours tell, on either side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from training import Run, parse

import tritorch as torch
from tritorch import nn
from tritorch.nn import functional as F
from tritorch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# Words by tag; those that two tags share can't be told without their sentence.
WORDS = {
    "det": "the a this every some her their no",
    "adj": "old young light dark cold green quick calm open clean dry kind",
    "noun": "fish light cold plant walk dream ship watch book open kind dog river child hand water",
    "verb": "fish plant walk dream ship watch book light open clean dry water hand sees finds",
    "prep": "in on under near with behind",
    "pron": "they we you she he",
    "adv": "often slowly never here again quick",
    "conj": "and but while",
}
CHOICES = {tag: words.split() for tag, words in WORDS.items()}
TAGS = list(CHOICES)
VOCABULARY = ["<pad>", *sorted({word for words in CHOICES.values() for word in words})]
NUMBER = {word: k for k, word in enumerate(VOCABULARY)}
IGNORED = -100  # the tag of padding


def sentence(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Words with their tags."""
    tags: list[str] = []

    def some(chance: float) -> bool:
        return rng.random() < chance

    def noun_phrase() -> None:
        if some(0.3):
            tags.append("pron")
            return
        tags.append("det")
        tags.extend(["adj"] * int(rng.integers(0, 3)))
        tags.append("noun")
        if some(0.25):
            tags.append("prep")
            noun_phrase()

    def clause() -> None:
        noun_phrase()
        tags.extend(["adv"] * some(0.3) + ["verb"])
        if some(0.7):
            noun_phrase()
        tags.extend(["adv"] * some(0.2))

    clause()
    if some(0.3):
        tags.append("conj")
        clause()
    return [(str(rng.choice(CHOICES[tag])), tag) for tag in tags]


def batch(rng: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Words and tags (count, longest), padded, and the lengths; the longest sentence first."""
    sentences = sorted((sentence(rng) for _ in range(count)), key=len, reverse=True)
    lengths = [len(s) for s in sentences]
    words = np.zeros((count, lengths[0]), np.int64)
    tags = np.full_like(words, IGNORED)
    for row, s in enumerate(sentences):
        words[row, : len(s)] = [NUMBER[word] for word, _ in s]
        tags[row, : len(s)] = [TAGS.index(tag) for _, tag in s]
    return torch.from_numpy(words), torch.from_numpy(tags), torch.tensor(lengths)


class Tagger(nn.Module):
    """Words (batch, time) to logits of tags (batch, time, tags), reading both ways."""

    def __init__(self, words: int, tags: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.classify = nn.Linear(2 * width, tags)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        # Packed, the network that reads backwards starts at each sentence's end, not at padding.
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True)
        states, _ = pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=words.shape[1]
        )
        return self.classify(states)


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Trains, and returns the losses."""
    options = parse(
        __doc__,
        argv,
        steps=200,
        batch=(32, "sentences a step"),
        width=(48, "of embeddings and of each direction's state"),
        layers=(1, "LSTM layers"),
        lr=(1e-2, "Adam's rate at the start"),
        unseen=(200, "sentences to test on at the end"),
    )
    torch.manual_seed(options.seed)
    model = Tagger(len(VOCABULARY), len(TAGS), options.width, options.layers).to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, options.steps)
    run = Run(options, "tokens", model=model, optimizer=optimizer, schedule=schedule)

    for step in run.steps():
        words, tags, lengths = batch(run.rng(step), options.batch)
        words, tags = words.to(options.device), tags.to(options.device)
        with run.autocast():
            logits = model(words, lengths)
            loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        run.scaler.scale(loss).backward()
        run.scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        run.scaler.step(optimizer)
        run.scaler.update()
        schedule.step()
        run.log(loss, int(lengths.sum()))

    model.eval()
    words, tags, lengths = batch(np.random.default_rng(options.seed), options.unseen)
    with torch.no_grad(), run.autocast():
        found = model(words.to(options.device), lengths).argmax(2).cpu()
    told = tags != IGNORED
    lines = [f"right in {(found == tags)[told].float().mean().item():.1%} of new words"]
    for row in range(0, options.unseen, -(-options.unseen // 5)):
        pairs = zip(words[row].tolist(), found[row].tolist())
        lines.append(" ".join(f"{VOCABULARY[w]}/{TAGS[t]}" for w, t in pairs if w))
    (options.out / "sample.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return run.losses


if __name__ == "__main__":
    main()
