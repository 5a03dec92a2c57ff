"""diffusers: a UNet learns to remove noise, schedulers sample, a pipeline is saved, a VAE runs."""

import tempfile

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    UNet2DConditionModel,
    UNet2DModel,
)

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(32, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
)
noise_schedule = DDPMScheduler(num_train_timesteps=50)
optimizer = torch.optim.AdamW(unet.parameters(), lr=2e-3)
images, losses = torch.zeros(8, 3, 8, 8) + 0.5, []
for _ in range(12):
    noise = torch.randn_like(images)
    steps = torch.randint(0, 50, (8,))
    noisy = noise_schedule.add_noise(images, noise, steps)
    loss = torch.nn.functional.mse_loss(unet(noisy, steps).sample, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
assert sum(losses[-3:]) < 0.8 * sum(losses[:3]), losses
unet.eval()
for kind in (DDPMScheduler, DDIMScheduler, EulerDiscreteScheduler, DPMSolverMultistepScheduler):
    schedule = kind(num_train_timesteps=50)
    schedule.set_timesteps(5)
    x = torch.randn(1, 3, 8, 8) * schedule.init_noise_sigma
    with torch.no_grad():
        for t in schedule.timesteps:
            x = schedule.step(unet(schedule.scale_model_input(x, t), t).sample, t, x).prev_sample
    assert x.isfinite().all()
pipeline = DDPMPipeline(unet, noise_schedule)
pipeline.set_progress_bar_config(disable=True)
with tempfile.TemporaryDirectory() as folder:
    pipeline.save_pretrained(folder)
    again = DDPMPipeline.from_pretrained(folder)
again.set_progress_bar_config(disable=True)
first, second = (
    p(generator=torch.Generator().manual_seed(3), num_inference_steps=3, output_type="np").images
    for p in (pipeline, again)
)
assert first.shape == (1, 8, 8, 3) and (first == second).all()
vae = AutoencoderKL(block_out_channels=(32,), norm_num_groups=8, latent_channels=2)
encoded = vae.encode(torch.randn(1, 3, 16, 16)).latent_dist
vae.decode(encoded.sample()).sample.square().mean().backward()
conditional = UNet2DConditionModel(
    sample_size=8,
    block_out_channels=(32, 64),
    layers_per_block=1,
    cross_attention_dim=16,
    norm_num_groups=8,
    attention_head_dim=8,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
)
out = conditional(torch.randn(2, 4, 8, 8), 3, encoder_hidden_states=torch.randn(2, 5, 16)).sample
out.square().mean().backward()
assert out.shape == (2, 4, 8, 8)
print("ok")
