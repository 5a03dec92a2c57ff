"""The sign of zero, in factories and fills, eager and compiled."""

import pytest

import tritorch as torch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.device)]
MAKES = {
    "full": lambda z, x: torch.full((2,), z, device=x.device),
    "full_like": lambda z, x: torch.full_like(x, z),
    "new_full": lambda z, x: x.new_full((2,), z),
    "fill_": lambda z, x: torch.empty_like(x).fill_(z),
    "tensor": lambda z, x: torch.tensor([z, z], device=x.device),
    "mul": lambda z, x: x * z,
    "masked_fill": lambda z, x: x.masked_fill(x > 0, z),
    "where": lambda z, x: torch.where(x > 0, z, x),
    "full half": lambda z, x: torch.full((2,), z, dtype=torch.float16, device=x.device),
    "full complex": lambda z, x: torch.full((2,), complex(1.0, z), device=x.device).imag * 1,
    "pad": lambda z, x: torch.nn.functional.pad(x, (2, 0), value=z)[:2],
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", MAKES)
def test_the_sign_of_zero(name: str, device: str) -> None:
    make, x = MAKES[name], torch.ones(2, device=device)
    compiled = torch.compile(make)
    for zero in (0.0, 0.0, 0.0, -0.0, 0.0, -0.0):
        for each in (make, compiled):
            assert each(zero, x).signbit().tolist() == [str(zero)[0] == "-"] * 2, zero
