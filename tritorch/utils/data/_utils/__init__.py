"""What a loader is made of."""

from tritorch.utils.data._utils import collate, fetch, pin_memory, worker
