"""torch.utils._cxx_pytree is a layer over optree, which tritorch does without."""

from tritorch.core.naming import qualified
from tritorch.utils import _pytree

raise ImportError(
    f"{qualified('utils._cxx_pytree')} depends on `optree>={_pytree._optree_minimum_version}`, "
    f"which tritorch does not use. {qualified('utils._pytree')} has the same functions."
)
