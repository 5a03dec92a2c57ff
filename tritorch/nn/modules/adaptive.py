"""Softmax over many classes, the rare ones in clusters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tritorch.core.tensor import Tensor
from tritorch.nn import functional as _functions
from tritorch.nn.modules.container import ModuleList, Sequential
from tritorch.nn.modules.linear import Linear
from tritorch.nn.modules.module import Module
from tritorch.ops.shape.joining import cat

F: Any = _functions


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A head of the frequent classes and of clusters of the others, each with a small tail."""

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):  # fmt: skip
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        where = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **where),
                    Linear(hidden, high - low, bias=False, **where),
                )
            )

    def reset_parameters(self) -> None:
        """Draws all weights again."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """The log-probability of each target, and the mean of their negatives."""
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        n = target_.dim()
        if n == 1 and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input_.dim() != n + 1:
            raise RuntimeError(
                f"{n}D target tensor expects {n + 1}D input tensors, but found inputs with size "
                f"{input_.size()}"
            )
        x, target = (input_, target_) if n else (input_.unsqueeze(0), target_.unsqueeze(0))
        low, high = (int(target.min()), int(target.max())) if target.numel() else (0, 0)
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{low}, {high}] were found. "
            )
        in_head, found = target.clone(), x.new_zeros(target.shape[0])
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= low) & (target < high)).nonzero().flatten()
            if not rows.numel():
                continue
            logs = F.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
            logs = logs.gather(1, (target.index_select(0, rows) - low).unsqueeze(1))
            found = found.index_copy(0, rows, logs.squeeze(1))
            in_head = in_head.index_fill(0, rows, self.shortlist_size + i)
        head = F.log_softmax(self.head(x), 1)
        output = found + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if n else output.squeeze(0), loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, 1)
        size = self.shortlist_size
        parts = [head[:, :size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), 1) + head[:, size + i].unsqueeze(1))
        return cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, n_classes) log-probabilities."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row; clusters are looked at only where they may win."""
        head = self.head(input)
        best = head.argmax(1)
        rows = (best >= self.shortlist_size).nonzero().flatten()
        if rows.numel():
            few = self._get_full_log_prob(input.index_select(0, rows), head.index_select(0, rows))
            best = best.index_copy(0, rows, few.argmax(1))
        return best
