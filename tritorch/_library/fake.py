"""What a fake function may ask for: sizes that depend on data."""

from __future__ import annotations

from typing import Any

from tritorch.core.meta import UnknownSize


class FakeImplCtx:
    """The context of a fake function."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that depends on data, which is not known without them: refused."""
        raise UnknownSize("the size of this operator's result depends on its input's values")

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> Any:
        """`new_dynamic_size` (former name)."""
        return self.new_dynamic_size(min=min, max=max)


def get_ctx() -> FakeImplCtx:
    """The context of the fake function that runs."""
    return FakeImplCtx()
