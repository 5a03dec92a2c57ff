// Whose memory a program may read and write without a call of ours: Note [What must not be seen] in
// tritorch/_following/regions.py.
#include <unordered_map>

#include "following/state.h"
#include "launch/pack.h"

namespace tritorch {
namespace {

// By the owner's address: a weak reference to it, or null for memory of a GPU.  The owner is looked
// at again when somebody asks: another object may have its address by now.
std::unordered_map<const void*, Ref>& exposed() {
  static auto* map = new std::unordered_map<const void*, Ref>;  // outlives the interpreter
  return *map;
}

struct Owner {
  const void* address = nullptr;  // null: it is no array of ours
  PyObject* object = nullptr;     // borrowed
};

Owner owner_of(PyObject* array) {
  if (const Array* d = as_array(array)) return {d->storage.get(), nullptr};
  while (NDArray* a = as_ndarray(array)) {
    if (!a->base) return {a, array};
    array = a->base;
  }
  return {};
}

}  // namespace

void expose(PyObject* array) {
  const Owner owner = owner_of(array);
  if (!owner.address) return;
  Ref& kept = exposed()[owner.address];
  if (!owner.object) return;
  kept = Ref(PyWeakref_NewRef(owner.object, nullptr));
  if (!kept) PyErr_Clear();
}

bool is_exposed(const Tensor* t) {
  const Owner owner = owner_of(t->array);
  if (!owner.address || (t->shared && t->shared->fixed)) return true;
  auto& map = exposed();
  if (map.empty()) return false;
  const auto found = map.find(owner.address);
  if (found == map.end()) return false;
  if (!owner.object || !found->second) return true;
  if (PyWeakref_GetObject(found->second.get()) == owner.object) return true;
  map.erase(found);
  return false;
}

bool is_alone(const Tensor* t) {
  const Py_ssize_t mine = 1 + (t->shared && t->shared->array == t->array);
  if (is_set(t->base) || Py_REFCNT(t->array) != mine) return false;
  if (t->shared && (Py_REFCNT(t->shared) != 1 || is_set(t->shared->storage) ||
                    (is_set(t->shared->array) && t->shared->array != t->array)))
    return false;
  if (const NDArray* a = as_ndarray(t->array)) return !a->base;
  return false;
}

}  // namespace tritorch
