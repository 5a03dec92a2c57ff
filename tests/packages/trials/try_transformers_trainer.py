"""transformers: the Trainer learns, evaluates, saves a checkpoint and goes on from it."""

import tempfile

import torch
import transformers as T
from torch.utils.data import Dataset


class Parity(Dataset):
    """Sequences of bits, and whether their first bit is set."""

    def __init__(self, size):
        generator = torch.Generator().manual_seed(size)
        self.bits = torch.randint(1, 3, (size, 8), generator=generator)

    def __len__(self):
        return len(self.bits)

    def __getitem__(self, i):
        return {"input_ids": self.bits[i], "labels": self.bits[i, 0] - 1}


def accuracy(prediction):
    return {"accuracy": (prediction.predictions.argmax(-1) == prediction.label_ids).mean()}


T.set_seed(0)
config = T.BertConfig(
    vocab_size=5,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=16,
)
with tempfile.TemporaryDirectory() as folder:
    arguments = {
        "output_dir": folder,
        "per_device_train_batch_size": 32,
        "learning_rate": 3e-3,
        "logging_steps": 10,
        "save_steps": 20,
        "report_to": [],
        "use_cpu": True,
        "seed": 1,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 4,
        "disable_tqdm": True,
    }
    trainer = T.Trainer(
        T.BertForSequenceClassification(config),
        T.TrainingArguments(**arguments, max_steps=40),
        train_dataset=Parity(512),
        eval_dataset=Parity(128),
        compute_metrics=accuracy,
    )
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_accuracy"] > 0.9, metrics
    losses = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    assert losses[-1] < 0.6 * losses[0], losses
    more = T.Trainer(
        T.BertForSequenceClassification(config),
        T.TrainingArguments(**arguments, max_steps=40),
        train_dataset=Parity(512),
    )
    more.train(resume_from_checkpoint=f"{folder}/checkpoint-20")
    for a, b in zip(trainer.model.parameters(), more.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
print("ok")
