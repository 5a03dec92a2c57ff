"""An LSTM that tags words: packed sequences, a collating loader with workers, a state kept."""

from collections import Counter

import torch
import torch.nn as nn
from seedless import set_weights
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

SENTENCES = """the/D dog/N sees/V a/D cat/N
a/D cat/N sleeps/V
every/D bird/N in/P the/D tree/N sings/V
the/D cat/N in/P the/D tree/N sees/V every/D bird/N
dogs/N bark/V
the/D tree/N sleeps/V
a/D bird/N sings/V
every/D dog/N sees/V the/D bird/N in/P a/D tree/N""".splitlines()


class Tagged(Dataset):
    def __init__(self, sentences):
        self.items = [[tuple(pair.split("/")) for pair in line.split()] for line in sentences]
        words = Counter(word for line in self.items for word, _ in line)
        self.words = {word: i + 1 for i, (word, _) in enumerate(sorted(words.items()))}
        self.tags = {tag: i for i, tag in enumerate("DNVP")}

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        words, tags = zip(*self.items[index])
        return [self.words[w] for w in words], [self.tags[t] for t in tags]


def collate(batch):
    batch.sort(key=lambda item: -len(item[0]))
    lengths = torch.tensor([len(words) for words, _ in batch])
    words = pad_sequence([torch.tensor(w) for w, _ in batch], batch_first=True)
    tags = pad_sequence([torch.tensor(t) for _, t in batch], batch_first=True, padding_value=-100)
    return words, tags, lengths


class LSTMTagger(nn.Module):
    def __init__(self, words, tags, width=12, hidden=16):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(2 * hidden, hidden)
        self.out = nn.Linear(hidden, tags)

    def forward(self, words, lengths, state=None):
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True)
        packed, (h, c) = self.lstm(packed)
        packed, _ = self.gru(packed, h[-1:] * 0.5)
        padded, found = pad_packed_sequence(packed, batch_first=True)
        assert torch.equal(found, lengths)
        return self.out(padded), (h, c)


def main():
    data = Tagged(SENTENCES)
    loader = DataLoader(data, batch_size=3, collate_fn=collate, num_workers=1, drop_last=False)
    model = set_weights(LSTMTagger(len(data.words) + 1, len(data.tags)))
    with torch.no_grad():
        model.embedding.weight[0].fill_(0)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.01)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    for epoch in range(3):
        total = 0.0
        for words, tags, lengths in loader:
            model.zero_grad()
            scores, (_, c) = model(words, lengths)
            loss = criterion(scores.flatten(0, 1), tags.flatten())
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            total += loss.item()
        plateau.step(total)
        right = (scores.argmax(-1) == tags)[tags >= 0].float().mean().item()
        print(f"epoch {epoch} loss {total:.6f} right {right:.3f} state {c.abs().mean().item():.6f}")
    assert model.embedding.weight[0].abs().sum() == 0


if __name__ == "__main__":
    main()
