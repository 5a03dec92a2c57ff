"""peft: LoRA and its kin train, merge, save and load."""

import tempfile

import torch
import transformers as T
from peft import (
    IA3Config,
    LoHaConfig,
    LoraConfig,
    PeftModel,
    PrefixTuningConfig,
    PromptTuningConfig,
    get_peft_model,
)

torch.manual_seed(0)
ids = torch.randint(3, 90, (2, 7))


def base():
    torch.manual_seed(0)
    return T.LlamaForCausalLM(
        T.LlamaConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            intermediate_size=64,
            vocab_size=99,
            max_position_embeddings=64,
        )
    )


for config in (
    LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, task_type="CAUSAL_LM"),
    LoraConfig(r=4, target_modules="all-linear", use_dora=True, task_type="CAUSAL_LM"),
    IA3Config(
        target_modules=["k_proj", "down_proj"],
        feedforward_modules=["down_proj"],
        task_type="CAUSAL_LM",
    ),
    LoHaConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM"),
    PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
    PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
):
    model = get_peft_model(base(), config)
    trainable = [p for p in model.parameters() if p.requires_grad]
    assert 0 < sum(p.numel() for p in trainable) < 0.5 * sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(trainable, lr=0.02)
    losses = []
    for _ in range(8):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0], (config.peft_type, losses)
    model.eval()
    expected = model(input_ids=ids).logits
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = PeftModel.from_pretrained(base(), folder).eval()
    torch.testing.assert_close(again(input_ids=ids).logits, expected)
    if isinstance(config, LoraConfig):
        merged = model.merge_and_unload()
        torch.testing.assert_close(merged(input_ids=ids).logits, expected, rtol=1e-3, atol=1e-4)
        assert not any("lora" in name for name, _ in merged.named_modules())
print("ok")
