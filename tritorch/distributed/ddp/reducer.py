"""The reducer: averages gradients over processes while a backward pass goes on.

# Note [A pass]
After a forward pass `prepare` says which parameters' gradients are expected.  Each that arrives is
laid into its bucket; a bucket that is full travels, and buckets travel in the same order in all
processes.  When the pass ends, the reducer waits for all of them and gives the averages back.  What
the first pass shows of the order in which gradients arrive decides the buckets of the next ones:
rank 0's order counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tritorch.autograd.grad_mode import no_grad
from tritorch.autograd.nodes import AccumulateGrad
from tritorch.autograd.passes import queue_callback
from tritorch.distributed.collectives import all_reduce, broadcast
from tritorch.distributed.ddp.buckets import Bucket, GradBucket, SparseBucket, divided
from tritorch.distributed.ddp.statistics import Statistics
from tritorch.distributed.groups import get_global_rank
from tritorch.ops.shape.factory import tensor

UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This "
    "error indicates that your module has parameters that were not used in producing loss. You can "
    "enable unused parameter detection by passing the keyword argument "
    "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by making "
    "sure all `forward` function outputs participate in calculating loss. "
)
TWICE = (
    "Expected to mark a variable ready only once. This error is caused by one of the following "
    "reasons: 1) Use of a module parameter outside the `forward` function. Please make sure model "
    "parameters are not shared across multiple concurrent forward-backward passes. or try to use "
    "_set_static_graph() as a workaround if this module graph does not change during training "
    "loop. 2) Reused parameters in multiple reentrant backward passes."
)


class Reducer:
    """Averages the gradients of some parameters over a group.

    as_views: `.grad` is the bucket's memory itself; find_unused: some parameters may have no part
    in a pass; static: which have one, and how often, is as in the first pass; sparse: those whose
    gradients are."""

    def __init__(
        self, parameters: Sequence[Any], names: Sequence[str], group: Any, first: int, cap: int,
        as_views: bool, find_unused: bool, static: bool, sparse: Iterable[int],
    ) -> None:  # fmt: skip
        self.parameters, self.names, self.group = list(parameters), list(names), group
        self.first, self.cap = first, cap
        self.as_views, self.find_unused, self.static = as_views, find_unused, static
        self.sparse = frozenset(sparse)
        self.hook: Callable[[Any, Any], Any] | None = None
        self.hook_state: Any = None
        self.synchronising = True
        self.source = 0  # whose order of gradients counts
        self.divisor: int | None = None  # of sums of gradients; the group's size if None
        self._expecting = self._callback = False
        self._passes = 0  # that have ended
        self._arrival: list[int] = []  # of the first pass
        self.rebuilt = False
        self.order: list[int] = []  # in which gradients came, in the last pass
        self.unused: list[int] = []
        self._used: set[int] = set()  # gradients came since the last pass that travelled
        self.statistics = Statistics(self)
        self._seen = [0] * len(self.parameters)  # how often each arrived in the first pass
        self._build(list(range(len(self.parameters)))[::-1])
        for i, p in enumerate(self.parameters):
            p.register_post_accumulate_grad_hook(lambda _, i=i: self._arrived(i))

    # Buckets.

    def _build(self, order: Sequence[int]) -> None:
        self.parts = divided(order, self.parameters, self.first, self.cap, self.sparse)
        self.buckets = [
            (SparseBucket if part[0] in self.sparse else Bucket)([self.parameters[i] for i in part])
            for part in self.parts
        ]
        self.places = {i: (b, k) for b, part in enumerate(self.parts) for k, i in enumerate(part)}

    def _view(self, i: int) -> Any:
        bucket, place = self.places[i]
        return self.buckets[bucket].views[place]

    def _numbers(self, values: list[int]) -> Any:
        """Numbers that members tell one another, on the device whose backend they have."""
        return tensor(values, device=self.parameters[0].device)

    @no_grad()
    def _rebuild(self) -> None:
        """Buckets in the order in which gradients arrived at one member."""
        self.rebuilt = True
        order = self._numbers(self._arrival or list(range(len(self.parameters))))
        broadcast(order, get_global_rank(self.group, self.source), self.group)
        before = [self._view(i) for i in range(len(self.parameters))]
        self._build(order.tolist())
        for i, p in enumerate(self.parameters):
            if p.grad is not None and p.grad is before[i]:
                self._view(i).copy_(before[i])
                p.grad = self._view(i)

    # Passes: Note [A pass].

    def prepare(self, outputs: Iterable[Any]) -> None:
        """A backward pass from these outputs comes next."""
        if self._expecting and self._callback:
            missing = [self.names[i] for i in range(len(self.names)) if i not in self._ready_ones]
            raise self.statistics.failed(
                UNFINISHED + f"Parameters which did not receive grad for rank "
                f"{self.group.rank()}: {', '.join(missing)}"
            )
        if self.may_rebuild():
            self._rebuild()
        for bucket in self.buckets:
            bucket.waiting, bucket.work = len(bucket.parameters), None
        self._next = 0
        self._ready_ones: set[int] = set()
        self._left = list(self._seen)
        self.unused = []
        self.order = []
        if self.find_unused and not self.static:
            used = _reached(outputs)
            self.unused = [i for i, p in enumerate(self.parameters) if id(p) not in used]
        elif self.static and self._passes:
            self.unused = [i for i, times in enumerate(self._seen) if times == 0]
        self._expecting, self._callback = True, False
        self.statistics.moment("backward")

    def may_rebuild(self) -> bool:
        """Whether the next pass begins with buckets made anew."""
        complete = len(self._arrival) == len(self.parameters)
        return bool(self._passes and not self.rebuilt and not self.find_unused and complete)

    @no_grad()
    def follow(self, rebuild: bool) -> None:
        """The collectives of a pass, with nothing to add."""
        if rebuild:
            self._rebuild()
        for number, bucket in enumerate(self.buckets):
            bucket.clear()
            self._start(number)
        if self.find_unused or self.static:
            all_reduce(self._numbers([0] * len(self.parameters)), group=self.group)
        for bucket in self.buckets:
            bucket.work.wait()

    def _arrived(self, i: int) -> None:
        self._used.add(i)
        if not self.synchronising or not self._expecting:
            return
        if not self._callback:
            self._callback = True
            queue_callback(self._finish)
            if not (self.static and not self._passes):
                for each in self.unused:
                    self._ready(each)
        if self.static and not self._passes:
            self._seen[i] += 1
            return
        if self.static:
            self._left[i] -= 1
            if self._left[i] > 0:
                return
        if i in self._ready_ones:
            raise self.statistics.failed(TWICE + f" Parameter: {self.names[i]}")
        if not self._passes:
            self._arrival.append(i)
        self.order.append(i)
        self._ready(i)

    @no_grad()
    def _ready(self, i: int) -> None:
        """A gradient is as this process has it."""
        self._ready_ones.add(i)
        bucket = self.buckets[self.places[i][0]]
        self._lay(i, bucket)
        bucket.waiting -= 1
        while self._next < len(self.buckets) and self.buckets[self._next].waiting == 0:
            self._start(self._next)
            self._next += 1

    def _lay(self, i: int, bucket: Bucket) -> None:
        """Puts a gradient into its bucket."""
        p, view = self.parameters[i], self._view(i)
        if p.grad is not None and p.grad.is_sparse != (i in self.sparse):
            kind = "sparse" if i in self.sparse else "dense"
            raise RuntimeError(
                f"Expected variable to have {kind} gradient. Parameter: {self.names[i]} (weights "
                "of Embedding and EmbeddingBag with sparse=True have sparse ones, no others)"
            )
        if view is None:
            bucket.clear()
            if p.grad is not None:
                bucket.flat = p.grad.clone()
        elif p.grad is None:
            view.zero_()
        elif p.grad is not view:
            view.copy_(p.grad)
            if self.as_views:
                p.grad = view

    def _start(self, number: int) -> None:
        bucket = self.buckets[number]
        if number == 0:
            self.statistics.moment("travelling")
        if self.hook is not None:
            seen = GradBucket(number, bucket, number == len(self.buckets) - 1)
            bucket.work = self.hook(self.hook_state, seen)
            return
        bucket.flat.div_(self.divisor or self.group.size())
        bucket.work = all_reduce(bucket.flat, group=self.group, async_op=True)

    @no_grad()
    def _finish(self) -> None:
        """The pass is over: waits for what travels."""
        if self.static and not self._passes:
            for i in range(len(self.parameters)):
                self._ready(i)
        if self._next < len(self.buckets):
            return  # what is missing is said when the next pass is prepared
        self.statistics.moment("computed")
        used = self._used_anywhere()
        for bucket in self.buckets:
            if self.hook is None:
                bucket.work.wait()
            else:
                found = bucket.work.wait()
                bucket.arrived(found[0] if isinstance(found, (list, tuple)) else found)
        for i, p in enumerate(self.parameters):
            view = self._view(i)
            if not used[i]:
                continue  # nobody has a gradient: it stays as it is
            if view is None:
                p.grad = self.buckets[self.places[i][0]].flat
            elif self.as_views:
                p.grad = view
            elif p.grad is None:
                p.grad = view.clone()
            else:
                p.grad.copy_(view)
        self._used.clear()
        self._passes += 1
        self._expecting = False
        self.statistics.moment("arrived")

    def _used_anywhere(self) -> list[bool]:
        """Whether any process has a gradient for each parameter."""
        if not self.find_unused and not self.static:
            return [True] * len(self.parameters)
        unused = set(self.unused) - self._used
        if self.static:
            unused = {i for i, times in enumerate(self._seen) if times == 0}
        counts = self._numbers([int(i not in unused) for i in range(len(self.parameters))])
        all_reduce(counts, group=self.group)
        return [count > 0 for count in counts.tolist()]


def _reached(outputs: Iterable[Any]) -> set[int]:
    """The leaves that gradients of these come to, by id."""
    found: set[int] = set()
    seen: set[Any] = set()
    stack = []
    for out in outputs:
        if out.grad_fn is not None:
            stack.append(out.grad_fn)
        elif out.requires_grad:
            found.add(id(out))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, AccumulateGrad):
            found.add(id(node.variable))
            continue
        stack += [each for each, _ in node.next_functions if each is not None]
    return found
