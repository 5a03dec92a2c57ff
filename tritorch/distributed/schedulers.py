"""What schedulers say in the environment: who this process is, and where others are.

A scheduler starts either the program once for each rank (`srun python train.py`, `mpirun python
train.py`), and `init_process_group()` finds its place here; or a launcher once for each host, which
finds its defaults here.
"""

from __future__ import annotations

import dataclasses
import os
import re
import zlib
from collections.abc import Mapping

__all__ = ["Found", "as_launcher", "as_rank"]


@dataclasses.dataclass
class Found:
    """A place among several, and where they meet.  host is "" if the scheduler does not say."""

    scheduler: str
    rank: int
    size: int
    local_rank: int
    host: str
    port: int


def first_host(names: str) -> str:
    """The first of SLURM's list of hosts: "node[03-05,9],x1" begins with node03."""
    found = re.match(r"([^,\[]*)(?:\[([^\]]*)\])?([^,\[]*)", names.strip())
    assert found is not None
    inner = re.split(r"[-,]", found[2])[0] if found[2] else ""
    return f"{found[1]}{inner}{found[3]}"


def port_of(job: str) -> int:
    """A port that all processes of a job compute alike, below those that systems give away."""
    return 20000 + zlib.crc32(job.encode()) % 10000


def _slurm(said: Mapping[str, str], rank: str, size: str, local: str) -> Found | None:
    # A batch script has most of these variables too; only steps of srun have a number.
    if "SLURM_STEP_ID" not in said or rank not in said or size not in said:
        return None
    hosts = said.get("SLURM_STEP_NODELIST") or said.get("SLURM_JOB_NODELIST", "")
    job = f"{said.get('SLURM_JOB_ID', '')}.{said['SLURM_STEP_ID']}"
    return Found(
        "SLURM", int(said[rank]), int(said[size]), int(said.get(local, 0)), first_host(hosts),
        port_of(job),
    )  # fmt: skip


def _mpi(said: Mapping[str, str]) -> Found | None:
    for scheduler, rank, size, local, locals_, job in (
        ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
         "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"),
        ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"),
    ):  # fmt: skip
        if rank in said and size in said:
            inside = said.get(locals_) == said[size]
            name = said.get(job) or said.get("OMPI_MCA_ess_base_jobid") or str(os.getppid())
            return Found(
                scheduler, int(said[rank]), int(said[size]), int(said.get(local, 0)),
                "127.0.0.1" if inside else "", port_of(name),
            )  # fmt: skip
    return None


def as_rank(said: Mapping[str, str] = os.environ) -> Found | None:
    """The place of a process that a scheduler started as one rank of many."""
    found = _slurm(said, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID") or _mpi(said)
    if found is None:
        return None
    found.host = said.get("MASTER_ADDR") or found.host
    found.port = int(said.get("MASTER_PORT") or found.port)
    return found


def as_launcher(said: Mapping[str, str] = os.environ) -> Found | None:
    """The place of a launcher that a scheduler started as one of several hosts'."""
    found = _slurm(said, "SLURM_NODEID", "SLURM_NNODES", "SLURM_LOCALID")
    if found is None and "JOB_COMPLETION_INDEX" in said and "MASTER_ADDR" in said:
        # An indexed job of Kubernetes says the index; how many there are is for the user to say.
        size = int(said.get("PET_NNODES") or said.get("NNODES") or 0)
        found = Found("Kubernetes", int(said["JOB_COMPLETION_INDEX"]), size, 0, "", 29500)
    if found is None:
        return None
    found.host = said.get("MASTER_ADDR") or found.host
    found.port = int(said.get("MASTER_PORT") or found.port)
    return found if found.size > 1 else None
