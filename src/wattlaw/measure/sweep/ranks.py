"""The ranks that run one configuration, as one of them sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Who takes part, and where this rank stands.

    Attributes:
        rank: of this process, from 0.
        device: that it computes on.
        data_parallel: degree.
        tensor_parallel: degree; ranks of one tensor-parallel group are neighbours.
        mesh: with the axes ``data`` and ``tensor``; ``None`` for one rank that needs no collectives.
        group: all ranks that take part; ``None`` with ``mesh``.
    """

    rank: int
    device: torch.device
    data_parallel: int = 1
    tensor_parallel: int = 1
    mesh: DeviceMesh | None = None
    group: ProcessGroup | None = None

    @property
    def data_rank(self) -> int:
        """Which part of each batch this rank trains on."""
        return self.rank // self.tensor_parallel

    def axis(self, name: str) -> DeviceMesh:
        """Return one axis of the mesh; only for ranks that have one."""
        assert self.mesh is not None
        return self.mesh[name]

    def barrier(self) -> None:
        """Wait for the others, and for this device's work."""
        self.agree(0.0)

    def agree(self, value: float) -> float:
        """Return rank 0's value on every rank."""
        import torch
        import torch.distributed as dist

        if self.group is None:
            self.synchronize()
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(shared, src=0, group=self.group)
        # A broadcast lets rank 0 go on before the others are there; a sum does not.
        present = torch.ones(1, device=self.device)
        dist.all_reduce(present, group=self.group)
        self.synchronize()
        return float(shared.item())

    def mean(self, value: float) -> float:
        """Return the mean of all ranks' values on every rank."""
        import torch
        import torch.distributed as dist

        if self.group is None:
            return value
        total = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(total, group=self.group)
        return float(total.item()) / (self.data_parallel * self.tensor_parallel)

    def synchronize(self) -> None:
        """Wait for the work that was handed to this rank's device."""
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
