"""What comes out of a loader: order, seeds, iterable datasets, memory; for every kind of worker."""

import gc
import itertools
import os
import sys
import threading
from pathlib import Path

import pytest

import tritorch
from tests.data import datasets
from tests.data.datasets import Calls, Shards
from tests.patience import PATIENCE
from tritorch import multiprocessing
from tritorch.utils.data import (
    DataLoader,
    Dataset,
    TensorDataset,
    get_worker_info,
)

METHODS = ["fork", "thread"]
ALL_METHODS = [*METHODS, "spawn", "forkserver"]


ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def importable(monkeypatch):
    """These tests' modules, for workers that are not forked."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])


def first(batch):
    return batch[0]


def loader(dataset, method="fork", **options):
    options = {"num_workers": 2, "batch_size": 2, "multiprocessing_context": method, **options}
    return DataLoader(dataset, **options)


def lists(batches):
    return [batch.tolist() for batch in batches]


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("method", ALL_METHODS)
def test_the_same_as_without_workers(method):
    dataset = Calls(datasets.images, 11)
    for (x, i), (y, j) in zip(loader(dataset, method), DataLoader(dataset, batch_size=2)):
        assert x.equal(y) and i.equal(j)
        assert x.is_shared() == (method != "thread")
    assert lists(loader(Calls(datasets.same, 5), method)) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_thing_arrives_whole(method):
    options = {"batch_size": None, "num_workers": 1, "collate_fn": datasets.same}
    for _ in range(2):
        for i, batch in enumerate(loader(Calls(datasets.everything, 3), method, **options)):
            datasets.assert_same(datasets.everything(i), batch)
            rows, columns = batch["views"][1:3]
            assert rows.untyped_storage() == columns.untyped_storage()
            rows.fill_(3.0)
            assert bool((columns[1:] == 3).all())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [None, "of the user"])
def test_rows_of_a_tensor_dataset(workers, collate):
    x = tritorch.arange(6000.0).reshape(100, 60)
    dataset = tritorch.utils.data.Subset(TensorDataset(x, tritorch.arange(100)), range(99, -1, -1))
    options = (
        {} if collate is None else {"collate_fn": lambda b: tritorch.utils.data.default_collate(b)}
    )
    tritorch.manual_seed(3)
    made = DataLoader(dataset, 80, shuffle=True, num_workers=workers, **options)
    seen = tritorch.cat([y for rows, y in made if rows.equal(x[y])])
    assert sorted(seen.tolist()) == list(range(100))


@pytest.mark.parametrize("method", METHODS)
def test_batches_that_are_kept_stay_as_they_are(method):
    kept, again = [], []
    made = loader(Calls(datasets.images, 40), method, persistent_workers=True)
    for _ in range(3):
        for batch in made:
            (kept if len(again) % 3 else again).append(batch)
            again.append(None)
    del batch
    for x, i in [b for b in kept + again if b is not None]:
        assert x.equal(i.reshape(-1, 1, 1, 1).expand_as(x).float())


def test_memory_is_used_again_and_no_file_stays_open():
    made = loader(Calls(datasets.images, 400), persistent_workers=True)
    list(made)
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))
    addresses = {x.data_ptr() for x, _ in made}
    assert len(addresses) < 20
    kept = list(made)
    assert len({x.data_ptr() for x, _ in kept}) == 200
    assert len(os.listdir("/proc/self/fd")) <= files


def test_memory_that_a_fork_saw_or_that_was_sent_on_is_not_used_again():
    made = iter(loader(Calls(datasets.images, 200), num_workers=1, prefetch_factor=1))
    queue = multiprocessing.SimpleQueue()
    sent = []
    for n, (x, _) in enumerate(made):
        if n % 10 == 0:
            queue.put(x)
            sent.append((x.flatten()[0].item(), queue.get()))
            assert sent[-1][1].equal(x)
        if n == 50:
            seen, told = multiprocessing.get_context("fork").Pipe()
            child = os.fork()
            if child == 0:
                seen.recv()
                os._exit(int(x.flatten()[0].item()) - 100)
    told.send(None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for value, x in sent:
        assert bool((x[0] == value).all())


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_iterable_datasets_in_shards(method, persistent):
    made = loader(Shards(7, 5), method, persistent_workers=persistent)
    for _ in range(2):
        assert lists(made) == [[0, 1], [5, 6], [2, 3], [4]]
    assert list(loader(Shards(5, 5), method, batch_size=None)) == [0, 1, 2, 3, 4]
    assert lists(loader(Shards(7, 4), method, drop_last=True)) == [[0, 1], [4, 5], [2, 3]]


@pytest.mark.parametrize("method", METHODS)
def test_an_epoch_that_is_left_early_does_not_show_in_the_next(method):
    made = loader(Calls(datasets.same, 30), method, persistent_workers=True)
    iterator = iter(made)
    workers = [w.name for w in iterator._pool.workers]
    for batch in made:
        assert batch.tolist() == [0, 1]
        break
    assert lists(made) == lists(made) == [[i, i + 1] for i in range(0, 30, 2)]
    assert [w.name for w in made._iterator._pool.workers] == workers


@pytest.mark.parametrize("method", METHODS)
def test_a_slow_batch_does_not_hold_others_up_without_order(method):
    go = threading.Event() if method == "thread" else multiprocessing.get_context("fork").Event()

    def wait_for_others(i):
        if i == 0:
            go.wait(PATIENCE)
        if i == 11:
            go.set()
        return i

    found = lists(loader(Calls(wait_for_others, 12), method, in_order=False))
    assert found[-1] != [10, 11] or found[0] != [0, 1]
    assert sorted(i for batch in found for i in batch) == list(range(12))


@pytest.mark.parametrize("method", METHODS)
def test_seeds(method):
    def draw():
        made = loader(Calls(datasets.random_numbers, 4), method, batch_size=1, collate_fn=first)
        return list(made)

    tritorch.manual_seed(5)
    one = draw()
    other = draw()
    tritorch.manual_seed(5)
    assert draw() == one != other
    assert one[1][0] == one[0][0] + 1 and one[2][0] == one[0][0]
    assert len({number for row in one for number in row[1:]}) == 12


def test_the_generator_decides_order_and_seeds():
    def draw():
        generator = tritorch.Generator().manual_seed(9)
        made = loader(Calls(datasets.random_numbers, 6), shuffle=True, generator=generator)
        return [row.tolist() for batch in made for row in batch]

    before = tritorch.get_rng_state()
    assert draw() == draw()
    assert tritorch.get_rng_state().equal(before)


def test_workers_know_who_they_are():
    made = loader(Calls(lambda i: (get_worker_info().id, get_worker_info().num_workers)))
    assert [tuple(x.tolist() for x in batch) for batch in made][1] == ([1, 1], [2, 2])
    info = next(iter(loader(Calls(lambda i: get_worker_info().worker_method), "thread")))
    assert info == ["thread"] * 2
    assert get_worker_info() is None


def test_workers_compute_with_one_thread_each():
    for counts, processes in loader(Calls(datasets.threads)):
        assert counts.tolist() == [1, 1] and os.getpid() not in processes.tolist()


def test_worker_init_fn_and_a_copy_of_the_dataset():
    dataset = Calls(lambda i: dataset_name(), 4)
    dataset.name = "the loader's"

    def dataset_name():
        return get_worker_info().dataset.name

    def name(worker_id):
        get_worker_info().dataset.name = f"worker {worker_id}'s"

    assert list(itertools.chain(*loader(dataset, worker_init_fn=name))) == [
        "worker 0's", "worker 0's", "worker 1's", "worker 1's"
    ]  # fmt: skip
    assert dataset.name == "the loader's"


def test_indices_of_any_kind_and_size():
    class Slices(Dataset):
        def __getitem__(self, index):
            return len(index)

    big = [list(range(200_000)), slice(0, 3), tritorch.arange(5)]

    class Lengths(Dataset):
        def __getitem__(self, index):
            return 3 if isinstance(index, slice) else len(index)

    made = loader(Lengths(), batch_size=None, sampler=big, prefetch_factor=8)
    assert list(made) == [200_000, 3, 5]


def test_pinned_memory():
    for method in METHODS:
        made = loader(Calls(datasets.images, 6), method, pin_memory=True)
        for n, (x, i) in enumerate(made):
            assert x.is_pinned() and i.is_pinned() and i.tolist() == [2 * n, 2 * n + 1]
    (x, _), *_ = DataLoader(Calls(datasets.images, 6), pin_memory=True)
    assert x.is_pinned()
    assert not any(t.name == "tritorch-loader-pinning" for t in threading.enumerate())


def test_iterators_cannot_be_pickled():
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        multiprocessing.SimpleQueue().put(iter(DataLoader([1])))
