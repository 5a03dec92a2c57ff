"""Expressions that PyTorch and tritorch must answer alike: values, errors, warnings.

tools/record/data.py writes PyTorch's answers to recorded.json.
"""

from __future__ import annotations

import collections
import re
import warnings
from typing import Any

import numpy as np

EXPRESSIONS = """
DataLoader(ds, num_workers=-1)
DataLoader(ds, timeout=-1)
DataLoader(ds, prefetch_factor=2)
DataLoader(ds, num_workers=1, prefetch_factor=-2)
DataLoader(ds, num_workers=1).prefetch_factor
DataLoader(ds).prefetch_factor
DataLoader(ds, persistent_workers=True)
DataLoader(Stream(), shuffle=True)
DataLoader(Stream(), shuffle=False)
DataLoader(Stream(), shuffle="x")
DataLoader(Stream(), sampler=[1])
DataLoader(Stream(), batch_sampler=[[1]])
DataLoader(ds, sampler=[1], shuffle=True)
DataLoader(ds, batch_sampler=[[1]], shuffle=True)
DataLoader(ds, batch_sampler=[[1]], batch_size=2)
DataLoader(ds, batch_sampler=[[1]], drop_last=True)
DataLoader(ds, batch_sampler=[[1]]).batch_size
DataLoader(ds, batch_size=None, drop_last=True)
DataLoader(ds, batch_size=None, shuffle=True)
DataLoader(ds, batch_size=0)
DataLoader(ds, batch_size=1.5)
DataLoader(ds, batch_size=True)
DataLoader(ds, batch_size=2, drop_last=1)
DataLoader(ds, multiprocessing_context="fork")
DataLoader(ds, num_workers=1, multiprocessing_context=3)
DataLoader([], shuffle=True)
list(DataLoader([]))
list(DataLoader(ds))
list(DataLoader(ds, batch_size=4))
list(DataLoader(ds, batch_size=4, drop_last=True))
list(DataLoader(ds, batch_size=None))
list(DataLoader(ds, batch_sampler=[[3, 1], [2]]))
list(DataLoader(ds, sampler=[3, 1, 2], batch_size=2))
list(DataLoader(ds, batch_size=4, collate_fn=sum))
list(DataLoader(pairs, batch_size=4))
list(DataLoader(Stream(), batch_size=2))
list(DataLoader(Stream(), batch_size=2, drop_last=True))
list(DataLoader(Stream(), batch_size=None))
set_attribute("batch_size")
set_attribute("batch_sampler")
set_attribute("sampler")
set_attribute("drop_last")
set_attribute("dataset")
set_attribute("persistent_workers")
set_attribute("num_workers")
len(DataLoader(ds, batch_size=3))
len(DataLoader(ds, batch_size=3, drop_last=True))
len(DataLoader(Stream()))
len(DataLoader(Counted(5, 5), batch_size=2))
len(DataLoader(Counted(5, 5), batch_size=2, drop_last=True))
len(DataLoader(Counted(5, 5), batch_size=None))
warned(Counted(5, 3), batch_size=2)
len(iter(DataLoader(ds)))
get_worker_info()
Sampler()
Sampler(ds)
iter(Sampler())
RandomSampler(ds, replacement=1)
RandomSampler(ds, num_samples=0)
RandomSampler(ds, num_samples=1.5)
RandomSampler([])
sorted(RandomSampler(ds))
sorted(RandomSampler(ds, num_samples=20))
len(list(RandomSampler(ds, num_samples=25)))
len(list(RandomSampler(ds, replacement=True, num_samples=77)))
len(RandomSampler(ds, num_samples=25))
list(SequentialSampler(ds))
sorted(SubsetRandomSampler([4, 7, 9]))
len(SubsetRandomSampler([4, 7, 9]))
WeightedRandomSampler([1.0, 2], 0)
WeightedRandomSampler([1.0, 2], True)
WeightedRandomSampler([1.0, 2], 2, replacement=3)
WeightedRandomSampler([[1.0, 2]], 2)
WeightedRandomSampler(3, 2)
WeightedRandomSampler([1, 2], 2).weights
list(WeightedRandomSampler([1.0, 2], 5, replacement=False))
list(WeightedRandomSampler([0, 1.0, 0], 5))
sorted(WeightedRandomSampler([1.0, 1, 1], 3, replacement=False))
BatchSampler(SequentialSampler(ds), 0, False)
BatchSampler(SequentialSampler(ds), 3, 0)
BatchSampler(SequentialSampler(ds), "a", False)
list(BatchSampler(range(5), 3, False))
list(BatchSampler(range(5), 3, True))
len(BatchSampler(range(5), 3, True))
len(BatchSampler(range(5), 3, False))
DistributedSampler(ds, 2, 2)
DistributedSampler(ds, 2, -1)
list(DistributedSampler(ds, 4, 1, shuffle=False))
list(DistributedSampler(ds, 4, 3, shuffle=False, drop_last=True))
list(DistributedSampler([1], 4, 3, shuffle=False))
sorted(sum([list(DistributedSampler(ds, 5, r)) for r in range(5)], []))
random_split(ds, [3, 3])
random_split(ds, [0.5, 0.6])
random_split(ds, [0.5, -0.5, 1.0])
random_split(ds, [1.5, -0.5])
[len(x) for x in random_split(ds[:2], [0.1, 0.1, 0.8])]
[len(x) for x in random_split(ds, [0.33, 0.33, 0.34])]
[len(x) for x in random_split(ds, [3, 7])]
sorted(sum([list(x) for x in random_split(ds, [0.5, 0.5])], []))
TensorDataset(torch.zeros(3), torch.zeros(2))
TensorDataset(torch.arange(3), torch.arange(6).reshape(3, 2))[1]
TensorDataset(torch.arange(3), torch.arange(6).reshape(3, 2))[[0, 2]]
len(TensorDataset(torch.arange(3)))
list(DataLoader(TensorDataset(torch.arange(5), torch.arange(10.0).reshape(5, 2)), batch_size=2))
list(DataLoader(TensorDataset(torch.arange(3)), sampler=[-1, 0], batch_size=2))
list(DataLoader(TensorDataset(torch.arange(3)), sampler=[0, 3], batch_size=2))
list(DataLoader(Subset(TensorDataset(torch.arange(5)), [4, 2, 0]), batch_size=2))
list(Subset(ds, [3, 1]))
Subset(ds, [3, 1]).__getitems__([1, 0])
len(Subset(ds, [3, 1]))
Subset(torch.arange(9), [3, 1])[[0, 1]]
StackDataset()
StackDataset([1], a=[1])
StackDataset([1], [1, 2])
StackDataset(a=[1], b=[1, 2])
StackDataset([1, 2], [3, 4])[0]
StackDataset(a=[1, 2], b=[3, 4])[0]
StackDataset([1, 2], [3, 4]).__getitems__([0, 1])
StackDataset(a=[1, 2], b=[3, 4]).__getitems__([0, 1])
StackDataset(Short(), Short()).__getitems__([0, 1])
list(DataLoader(StackDataset(a=[1, 2, 3], b=[3, 4, 5]), batch_size=2))
ConcatDataset([])
ConcatDataset([Stream()])
ConcatDataset([[1, 2], [3]])[-4]
ConcatDataset([[1, 2], [3]])[5]
ConcatDataset([[1, 2], [3]]).cummulative_sizes
[ConcatDataset([[1, 2], [], [3]])[i] for i in range(-3, 3)]
list(ChainDataset([Stream(), [1]]))
len(ChainDataset([Stream()]))
len(ChainDataset([Counted(1, 4), Counted(1, 2)]))
list(Stream() + Stream())
Dataset()[0]
len(Dataset())
Dataset() + Dataset()
Stream()[0]
iter(IterableDataset())
default_collate([object()])
default_collate([])
default_collate([[1, 2], [1]])
default_collate([torch.zeros(2), torch.zeros(3)])
default_collate([torch.zeros(2), torch.zeros(2, dtype=torch.int64)])
default_collate([torch.ones(2, requires_grad=True)] * 2).requires_grad
default_collate([torch.tensor(1), torch.tensor(2)])
default_collate([torch.zeros(0, 2)] * 2).shape
default_collate([torch.arange(6.0).reshape(2, 3).t()] * 2)
default_collate([torch.ones(2, dtype=torch.bfloat16)] * 2)
default_collate([1, 2])
default_collate([1, 2.5])
default_collate([1.5, 2])
default_collate([True, False])
default_collate(["a", b"b"])
default_collate([np.zeros(2), np.ones(2)])
default_collate([np.float32(2), np.float32(2)])
default_collate([np.array("a"), np.array("b")])
default_collate([np.array(["a"]), np.array(["b"])])
default_collate([np.bool_(1)])
default_collate([np.int16(1)])
default_collate([np.array(1), np.array(2)])
default_collate([P(1, 2), P(3, 4)])
default_collate([{"a": 1}, {"a": 2}])
default_collate([{"a": 1}, {"b": 2}])
default_collate([collections.OrderedDict(a=1)] * 2)
default_collate([collections.defaultdict(int, a=1)] * 2)
default_collate([(1, 2), (3, 4)])
default_collate([collections.deque([1]), collections.deque([2])])
default_collate([range(2), range(2)])
default_collate([None])
default_collate([[[1, 2], (3, "a")]] * 2)
default_convert([1, "a", np.zeros(1), np.array("x"), (1,), P(1, np.ones(1)), None])
default_convert({"a": np.ones(1), "b": {"c": np.ones(1)}})
default_convert(np.float32(1))
default_convert(collections.deque([np.ones(1)]))
inner.collate([1, 2], collate_fn_map={int: lambda b, *, collate_fn_map=None: sum(b)})
inner.collate([1, True], collate_fn_map={(str, int): lambda b, *, collate_fn_map=None: sum(b)})
inner.collate([1, 2])
inner.default_collate_err_msg_format
worker.WorkerInfo(id=1, num_workers=2, seed=3, dataset=4)
setattr(worker.WorkerInfo(id=1, num_workers=2, seed=3, dataset=4), "id", 4)
worker._generate_state(2**40 + 5, 3)
worker._generate_state(7, 0)
list(Pipe())
(str(Pipe()), repr(Pipe()))
list(Pipe(2) + Pipe(1))
list(Pipe().plus_two())
two_iterators()
functional_datapipe("x")(int)
functional_datapipe("plus_two")(Pipe)
MapDataPipe()[0]
DataChunk([1, 2])
DataChunk([1, 2]).as_str("  ")
(list(DataChunk([1, 2])), list(DataChunk([1, 2]).raw_iterator()), DataChunk([1, 2]).items)
DFIterDataPipe()._is_dfpipe()
deterministically(non_deterministic(Pipe))
non_deterministic(int)
non_deterministic(3)
hook_twice("set_getstate_hook")
hook_twice("set_reduce_ex_hook")
pickled(Pipe(5))
len(Pipe())
""".strip().splitlines()


def namespace(torch: Any) -> dict[str, Any]:
    """What the expressions see."""
    import importlib
    import pickle

    data = importlib.import_module(f"{torch.__name__}.utils.data")
    found = {name: getattr(data, name) for name in data.__all__}
    loader = data.DataLoader

    class Stream(data.IterableDataset):
        def __init__(self, n: int = 5) -> None:
            self.n = n

        def __iter__(self) -> Any:
            return iter(range(self.n))

        def __repr__(self) -> str:
            return "Stream()"

    class Counted(Stream):
        def __init__(self, n: int, length: int) -> None:
            super().__init__(n)
            self.length = length

        def __len__(self) -> int:
            return self.length

    class Short:
        def __len__(self) -> int:
            return 3

        def __getitems__(self, indices: Any) -> Any:
            return indices[:1]

    class Pipe(data.IterDataPipe):
        def __init__(self, n: int = 3) -> None:
            self.n = n

        def __iter__(self) -> Any:
            yield from range(self.n)

    if "plus_two" not in data.IterDataPipe.functions:

        @data.functional_datapipe("plus_two")
        class PlusTwo(data.IterDataPipe):
            def __init__(self, source: Any) -> None:
                self.source = source

            def __iter__(self) -> Any:
                for x in self.source:
                    yield x + 2

    def set_attribute(name: str) -> None:
        setattr(loader(range(3)), name, 1)

    def warned(dataset: Any, **options: Any) -> int:
        made = loader(dataset, **options)
        len(made)
        return len(list(made))

    def two_iterators() -> Any:
        pipe = Pipe()
        first = iter(pipe)
        next(first)
        second = iter(pipe)
        next(second)
        try:
            next(first)
        except RuntimeError as error:
            return str(error).split(":")[0]

    def deterministically(make: Any) -> None:
        with data.guaranteed_datapipes_determinism():
            make()

    def hook_twice(name: str) -> None:
        try:
            for _ in range(2):
                getattr(data.IterDataPipe, name)(lambda x: x)
        finally:
            getattr(data.IterDataPipe, name)(None)

    def pickled(pipe: Any) -> Any:
        state = pickle.loads(pickle.dumps(pipe.__getstate__()))
        return state["n"]

    return {
        **found, "torch": torch, "np": np, "collections": collections, "ds": list(range(10)),
        "pairs": [(i, float(i)) for i in range(5)], "Stream": Stream, "Counted": Counted,
        "Short": Short, "Pipe": Pipe, "P": collections.namedtuple("P", "x y"),
        "set_attribute": set_attribute, "warned": warned, "two_iterators": two_iterators,
        "deterministically": deterministically, "hook_twice": hook_twice, "pickled": pickled,
        "inner": importlib.import_module(f"{torch.__name__}.utils.data._utils.collate"),
        "worker": importlib.import_module(f"{torch.__name__}.utils.data._utils.worker"),
    }  # fmt: skip


def answer(expression: str, names: dict[str, Any]) -> list[Any]:
    """The value's repr, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = ["value", repr(eval(expression, names))]
        except Exception as error:
            found = [type(error).__name__, str(error)]
    found.append([f"{w.category.__name__}: {w.message}" for w in told])
    return [_plain(item) for item in found]


def _plain(item: Any) -> Any:
    if isinstance(item, list):
        return [_plain(part) for part in item]
    return re.sub(r" at 0x[0-9a-f]+", "", item.replace("tritorch", "torch"))
