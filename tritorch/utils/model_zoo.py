"""Downloads, under an older name of `torch.hub`'s functions."""

from tritorch.hub import (
    load_state_dict_from_url as load_state_dict_from_url,
    load_state_dict_from_url as load_url,
    tqdm as tqdm,
)

__all__ = ["load_url"]
