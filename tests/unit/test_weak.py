"""torch.utils.weak: dicts of tensors that are held weakly and compared by identity."""

import copy
import gc

import pytest

import tritorch as torch
from tritorch.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef


def test_keys_are_compared_by_identity_and_die():
    a, b = torch.ones(2), torch.ones(2)
    table = WeakIdKeyDictionary({a: 1, b: 2})
    assert table[a] == 1 and table[b] == 2 and a.clone() not in table and 3 not in table
    for key, _ in table.items():
        if key is b:
            del b, key  # while the dict is walked
            break
    gc.collect()
    assert len(table) == 1 and list(table.keys()) == [a]


def test_copies_and_unions():
    a, b = torch.ones(2), torch.ones(2)
    table = WeakIdKeyDictionary({a: [1]})
    deep = copy.deepcopy(table)
    assert copy.copy(table)[a] is table[a] and deep[a] == [1] and deep[a] is not table[a]
    both = table | {b: 2}
    assert len(both) == 2 and both.pop(b) == 2 and both == table
    assert table.setdefault(b, 5) == 5 and table.get(torch.ones(1), 7) == 7
    with pytest.raises(KeyError):
        table[torch.ones(2)]


def test_references_to_tensors():
    x = torch.ones(2)
    ref = TensorWeakRef(x)
    assert ref() is x and WeakIdRef(x) == WeakIdRef(x) and hash(WeakIdRef(x)) == id(x)
    del x
    assert ref() is None
    with pytest.raises(AssertionError, match=r"expected torch.Tensor, got <class 'int'>"):
        TensorWeakRef(3)
