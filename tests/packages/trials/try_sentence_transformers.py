"""sentence-transformers: a model of parts embeds, trains on pairs, saves and loads."""

import tempfile

import torch
import transformers as T
from sentence_transformers import InputExample, SentenceTransformer, losses, models, util

words = [
    "the",
    "a",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "mat",
    "road",
    "sun",
    "moon",
    "is",
    "bright",
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
]
torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/vocab.txt", "w") as file:
        file.write("\n".join(words))
    tokenizer = T.BertTokenizerFast(f"{folder}/vocab.txt")
    tokenizer.save_pretrained(f"{folder}/bert")
    T.BertModel(
        T.BertConfig(
            vocab_size=len(words),
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=32,
        )
    ).save_pretrained(f"{folder}/bert")
    body = models.Transformer(f"{folder}/bert", max_seq_length=16)
    pooling = models.Pooling(body.get_word_embedding_dimension())
    model = SentenceTransformer(modules=[body, pooling, models.Normalize()], device="cpu")
    sentences = ["the cat sat on the mat", "a dog ran on a road", "the sun is bright"]
    found = model.encode(sentences, convert_to_tensor=True)
    assert found.shape == (3, 32)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(3))
    assert util.cos_sim(found, found).shape == (3, 3)
    hits = util.semantic_search(found[:1], found, top_k=2)
    assert hits[0][0]["corpus_id"] == 0
    pairs = [
        InputExample(texts=[a, b])
        for a, b in (
            ("the cat sat", "a cat sat"),
            ("the dog ran", "a dog ran"),
            ("sun is bright", "the sun"),
            ("moon is bright", "the moon"),
        )
    ]
    loss = losses.MultipleNegativesRankingLoss(model)
    features = [model.tokenize([p.texts[i] for p in pairs]) for i in range(2)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    values = []
    for _ in range(15):
        value = loss([dict(f) for f in features], None)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        values.append(value.item())
    assert values[-1] < 0.7 * values[0], values
    model.save(f"{folder}/saved")
    again = SentenceTransformer(f"{folder}/saved", device="cpu")
    torch.testing.assert_close(
        again.encode(sentences, convert_to_tensor=True),
        model.encode(sentences, convert_to_tensor=True),
    )
print("ok")
