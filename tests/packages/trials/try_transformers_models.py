"""transformers: small models of ten kinds, forward, backward, generation, saving and loading."""

import tempfile

import torch
import transformers as T
from transformers import generation  # noqa: F401

torch.manual_seed(0)
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
IDS = torch.randint(3, 90, (2, 7))


def step(model, **inputs):
    """A forward and a backward pass; every parameter that takes part has a finite gradient."""
    model.train()
    out = model(**inputs)
    loss = out.loss if out.get("loss") is not None else out[0].float().square().mean()
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert torch.isfinite(loss) and len(grads) > 4 and all(g.isfinite().all() for g in grads)
    model.zero_grad()
    return model.eval()


def saved(model, **inputs):
    """What was saved and loaded again gives the same."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder).eval()
    with torch.no_grad():
        assert torch.equal(model(**inputs)[0], again(**inputs)[0])


def generated(model, **inputs):
    """Greedy, beams and sampling; a cache changes nothing."""
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None
    greedy = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    plain = model.generate(**inputs, max_new_tokens=6, do_sample=False, use_cache=False)
    assert torch.equal(greedy, plain)
    beams = model.generate(**inputs, max_new_tokens=6, num_beams=3, do_sample=False)
    assert beams.shape == greedy.shape
    torch.manual_seed(1)
    first = model.generate(**inputs, max_new_tokens=6, do_sample=True, top_k=20, top_p=0.9)
    torch.manual_seed(1)
    again = model.generate(**inputs, max_new_tokens=6, do_sample=True, top_k=20, top_p=0.9)
    assert torch.equal(first, again) and first.shape[1] <= greedy.shape[1]


def gpt2():
    config = T.GPT2Config(vocab_size=99, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    model = step(T.GPT2LMHeadModel(config), input_ids=IDS, labels=IDS)
    generated(model, input_ids=IDS)
    saved(model, input_ids=IDS)


def llama():
    model = T.LlamaForCausalLM(T.LlamaConfig(**SMALL, num_key_value_heads=2))
    generated(step(model, input_ids=IDS, labels=IDS), input_ids=IDS)
    saved(model, input_ids=IDS)


def qwen():
    model = T.Qwen2ForCausalLM(T.Qwen2Config(**SMALL, num_key_value_heads=2))
    generated(step(model, input_ids=IDS, labels=IDS), input_ids=IDS)
    saved(model, input_ids=IDS)


def mixtral():
    config = T.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4)
    generated(step(T.MixtralForCausalLM(config), input_ids=IDS, labels=IDS), input_ids=IDS)


def bert():
    mask = torch.ones_like(IDS)
    mask[1, 5:] = 0
    model = step(
        T.BertForMaskedLM(T.BertConfig(**SMALL)), input_ids=IDS, attention_mask=mask, labels=IDS
    )
    saved(model, input_ids=IDS, attention_mask=mask)
    step(
        T.BertForSequenceClassification(T.BertConfig(**SMALL, num_labels=3)),
        input_ids=IDS,
        labels=torch.tensor([0, 2]),
    )


def t5():
    config = T.T5Config(
        vocab_size=99,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    model = step(T.T5ForConditionalGeneration(config), input_ids=IDS, labels=IDS)
    generated(model, input_ids=IDS)


def vit():
    config = T.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
    )
    pixels = torch.randn(2, 3, 16, 16)
    model = step(
        T.ViTForImageClassification(config), pixel_values=pixels, labels=torch.tensor([0, 1])
    )
    saved(model, pixel_values=pixels)


def clip():
    text = dict(SMALL)
    vision = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "image_size": 16,
        "patch_size": 4,
    }
    config = T.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    model = step(
        T.CLIPModel(config), input_ids=IDS, pixel_values=torch.randn(2, 3, 16, 16), return_loss=True
    )
    assert model(input_ids=IDS, pixel_values=torch.randn(3, 3, 16, 16)).logits_per_text.shape == (
        2,
        3,
    )


def whisper():
    config = T.WhisperConfig(
        vocab_size=99,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=32,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    features = torch.randn(2, 16, 64)
    model = step(T.WhisperForConditionalGeneration(config), input_features=features, labels=IDS)
    model.generation_config.suppress_tokens = model.generation_config.begin_suppress_tokens = None
    found = model.generate(input_features=features, max_new_tokens=5, do_sample=False)
    assert found.shape[0] == 2


def mamba():
    config = T.MambaConfig(vocab_size=99, hidden_size=32, state_size=8, num_hidden_layers=2)
    model = step(T.MambaForCausalLM(config), input_ids=IDS, labels=IDS)
    found = model.generate(input_ids=IDS, max_new_tokens=4, do_sample=False)
    assert found.shape == (2, 11)


for trial in (gpt2, llama, qwen, mixtral, bert, t5, vit, clip, whisper, mamba):
    trial()
    print(trial.__name__, "ok", flush=True)
