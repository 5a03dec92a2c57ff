"""DeviceMesh: the processes of a job as an array, with a group for each line of each dim."""

from __future__ import annotations

import math
import threading
from typing import Any

from tritorch.core.scopes import ScopeItself
from tritorch.distributed.backend_names import Backend
from tritorch.distributed.groups import get_rank, get_world_size
from tritorch.distributed.world import (
    GroupMember,
    _get_default_group,
    _world,
    init_process_group,
    is_initialized,
    new_group,
)
from tritorch.ops.shape.factory import tensor as make_tensor
from tritorch.ops.shape.ranges import arange

__all__ = ["DeviceMesh", "init_device_mesh"]

_entered = threading.local()


class DeviceMesh(ScopeItself):
    """Ranks in an array.  All processes of the job make it together."""

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        _init_backend: bool = True,
        _groups: list[Any] | None = None,
        _backends: dict[int, tuple[str | None, Any]] | None = None,
    ) -> None:
        self.device_type = device_type
        self.mesh = mesh.detach().cpu() if hasattr(mesh, "detach") else make_tensor(mesh)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        self._groups: list[Any] = list(_groups or ())
        self._flat: dict[str, DeviceMesh] = {}
        self._root: DeviceMesh | None = None
        ranks = self.mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks):
            raise RuntimeError(f"DeviceMesh cannot have duplicate ranks: {ranks}")
        if _init_backend and not self._groups:
            if not is_initialized():
                init_process_group()
            if len(ranks) > get_world_size():
                raise RuntimeError(
                    f"Mesh should not be bigger than default world size {get_world_size()}, but "
                    f"found {len(ranks)} ranks!"
                )
            self._groups = [self._make(dim, (_backends or {}).get(dim)) for dim in range(self.ndim)]

    def _make(self, dim: int, backend: tuple[str | None, Any] | None) -> Any:
        """This process's group along a dim, of those that all make."""
        name, options = backend or (None, None)
        rows = self._lines(dim)
        if len(rows) == 1 and len(rows[0]) == get_world_size() and backend is None:
            if rows[0] == list(range(get_world_size())):
                return _get_default_group()
        mine = None
        for ranks in rows:
            made = new_group(
                ranks, backend=name, pg_options=options, sort_ranks=False,
                group_desc=f"mesh_{self.mesh_dim_names[dim] if self.mesh_dim_names else dim}",
            )  # fmt: skip
            if made != GroupMember.NON_GROUP_MEMBER:
                mine = made
        return mine

    def _lines(self, dim: int) -> list[list[int]]:
        return self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()

    # -- what it is -----------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return int(self.mesh.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dims."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, or of those along a dim."""
        return int(self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim])

    def get_rank(self) -> int:
        """This process's number among all."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Where this process is in the mesh; None if it is not."""
        where = (self.mesh == get_rank()).nonzero()
        return where[0].tolist() if len(where) else None

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self.get_coordinate() is not None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's number along a dim."""
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                "needs to be specified when device_mesh.ndim > 1."
            )
        return int(self.get_group(mesh_dim or 0).rank())

    def _dim(self, mesh_dim: int | str) -> int:
        if isinstance(mesh_dim, int):
            return mesh_dim
        if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
            raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist. "
                           f"Available mesh dimensions are: {self.mesh_dim_names}")  # fmt: skip
        return self.mesh_dim_names.index(mesh_dim)

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of the processes along a dim."""
        if not self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` "
                "needs to be specified when device_mesh.ndim > 1. If you want to get the list of "
                "all the ProcessGroups in the DeviceMesh, please use `get_all_groups()` instead."
            )
        if isinstance(mesh_dim, str) and mesh_dim in self._flat:
            return self._flat[mesh_dim].get_group()
        return self._groups[self._dim(mesh_dim or 0)]

    def get_all_groups(self) -> list[Any]:
        """The groups of all dims."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    # -- parts ----------------------------------------------------------------------------------

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some dims in which this process is."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self.mesh_dim_names:
            return self
        if len(names) == 1 and names[0] in self._flat:
            return self._flat[names[0]]
        dims = [self._dim(name) for name in names]
        part = self._through_here(dims)
        groups = [self._groups[dim] for dim in dims] if self._groups else None
        made = DeviceMesh(
            self.device_type, part, mesh_dim_names=names, _init_backend=False, _groups=groups
        )
        made._root = self._get_root_mesh()
        return made

    def _through_here(self, dims: list[int]) -> Any:
        """The ranks along some dims that include this process's."""
        others = [dim for dim in range(self.ndim) if dim not in dims]
        blocks = self.mesh.permute(*others, *dims).reshape(
            -1, *(self.mesh.shape[dim] for dim in dims)
        )
        for block in blocks:
            if (block == get_rank()).any():
                return block
        return blocks[0]

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root or self

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The mesh as one dim, with a group of all its processes."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._get_root_mesh()
        if name in root._flat:
            return root._flat[name]
        if self.ndim == 1 and name in (self.mesh_dim_names or ()):
            return self
        if root is self:
            lines = [self.mesh.flatten().tolist()]
        else:
            dims = [root._dim(each) for each in self.mesh_dim_names or ()]
            others = [dim for dim in range(root.ndim) if dim not in dims]
            lines = root.mesh.permute(*others, *dims).reshape(-1, self.mesh.numel()).tolist()
        made = None
        for ranks in lines:
            group = new_group(ranks, sort_ranks=False, group_desc=f"mesh_{name}")
            if get_rank() in ranks:
                made = DeviceMesh(
                    self.device_type, ranks, mesh_dim_names=(name,), _init_backend=False,
                    _groups=[group],
                )  # fmt: skip
        assert made is not None
        made._root = root
        root._flat[name] = made
        return made

    @staticmethod
    def from_group(
        group: Any, device_type: str, mesh: Any = None, *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:  # fmt: skip
        """A mesh of groups that are there: one, or one for each dim of a mesh."""
        groups = group if isinstance(group, list) else [group]
        if mesh is None:
            if isinstance(group, list):
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            mesh = list(_world.pg_group_ranks[group])
        return DeviceMesh(
            device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False, _groups=groups
        )

    # -- the rest -------------------------------------------------------------------------------

    def changes(self) -> Any:
        return ((_entered, "stack", [*getattr(_entered, "stack", ()), self]),)

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        inside = (
            ", ".join(f"{n}={s}" for n, s in zip(names, self.shape, strict=True))
            if names
            else ", ".join(map(str, self.shape))
        )
        return f"DeviceMesh(({inside}), '{self.device_type}', stride={tuple(self.mesh.stride())})"

    def _key(self) -> Any:
        return (
            tuple(self.mesh.flatten().tolist()), self.shape, self.device_type, self.mesh_dim_names,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: dict[int | str, Any] | None = None,
) -> DeviceMesh:
    """A mesh of that shape, of the first processes of the job."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                "Each mesh_dim_name must be unique. "
                f"Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and "
                f"len(mesh_shape):{len(mesh_shape)}."
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. "
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'."
        )
    backends = {}
    for key, value in (backend_override or {}).items():
        dim = (mesh_dim_names or ()).index(key) if isinstance(key, str) else key
        pair = value if isinstance(value, tuple) else (value, None)
        backends[dim] = (Backend(pair[0]), pair[1])
    mesh = arange(math.prod(mesh_shape)).reshape(*mesh_shape)
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _backends=backends or None)
