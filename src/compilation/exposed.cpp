// Memory that a program may read and write without a call of ours: Note [Memory of deferred calls]
// in tritorch/compilation/follow/regions.py.
#include <unordered_map>

#include "compilation/state.h"
#include "launch/pack.h"
#include "launch/waiting.h"

namespace tritorch {
namespace {

struct Exposure {
  Ref owner;        // a weak reference: another object may have its address by now
  bool by_address;  // somebody may know where the memory is; else it takes an array to get there
};

// Of the CPU's memory, by the address of its owner; a GPU's storage knows of itself.
std::unordered_map<const void*, Exposure>& exposures() {
  static auto* map = new std::unordered_map<const void*, Exposure>;  // outlives the interpreter
  return *map;
}

struct Owner {
  const void* address = nullptr;  // null: it is no array of ours
  PyObject* object = nullptr;     // borrowed
  bool alone = true;              // nobody but the tensor leads to it
};

// tensor: whose array it is; null if nobody asks who else leads there.
Owner owner_of(PyObject* array, const Tensor* tensor) {
  bool alone = true;
  while (NDArray* a = as_ndarray(array)) {
    // One reference is the tensor's, or that of the view before.
    const bool shared = tensor && tensor->shared && tensor->shared->array == array;
    alone &= Py_REFCNT(array) == 1 + shared;
    if (!a->base) return {a, array, alone};
    array = a->base;
  }
  return {};
}

}  // namespace

void expose(PyObject* array, bool by_address) {
  if (const Array* d = as_array(array)) {
    d->storage->exposed = true;
    launch_at_once();
    return;
  }
  const Owner owner = owner_of(array, nullptr);
  if (!owner.address) return;
  Exposure& kept = exposures()[owner.address];
  const bool same = kept.owner && PyWeakref_GetObject(kept.owner.get()) == owner.object;
  kept.by_address = by_address || (same && kept.by_address);
  if (same) return;
  kept.owner = Ref(PyWeakref_NewRef(owner.object, nullptr));
  if (!kept.owner) PyErr_Clear();
}

bool is_exposed(const Tensor* t) {
  static auto& map = exposures();
  if (const NDArray* a = as_ndarray(t->array); a && !a->base && map.empty()) return false;
  if (const Array* d = as_array(t->array)) return d->storage->exposed;
  const Owner owner = owner_of(t->array, t);
  if (!owner.address) return true;
  if (map.empty()) return false;
  const auto found = map.find(owner.address);
  if (found == map.end()) return false;
  if (!found->second.owner || PyWeakref_GetObject(found->second.owner.get()) != owner.object) {
    map.erase(found);
    return false;
  }
  return found->second.by_address || !owner.alone;
}

bool is_alone(const Tensor* t) {
  const NDArray* a = as_ndarray(t->array);
  const Array* d = a ? nullptr : as_array(t->array);
  if (!(a ? !a->base : d && d->storage->alone()) || is_set(t->base)) return false;
  if (t->shared && (Py_REFCNT(t->shared) != 1 || is_set(t->shared->storage) ||
                    (is_set(t->shared->array) && t->shared->array != t->array)))
    return false;
  return Py_REFCNT(t->array) == 1 + (t->shared && t->shared->array == t->array);
}

}  // namespace tritorch
