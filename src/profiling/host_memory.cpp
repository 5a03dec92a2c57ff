// The memory of NumPy's arrays, as events: while a profile asks for it, arrays of the thread that
// started it come from an allocator of ours (NEP 49), which notes what it gives and gets back.
#include <Python.h>

#include <atomic>
#include <cstdlib>

#include "profiling/python.h"
#include "ref.h"
#include "tensor/quiet.h"

namespace tritorch::profiling {
namespace {

// NumPy's struct, whose form version 1 fixes.
struct Handler {
  char name[127] = "tritorch_profiled";
  std::uint8_t version = 1;
  struct {
    void* context;
    void* (*malloc)(void*, std::size_t);
    void* (*calloc)(void*, std::size_t, std::size_t);
    void* (*realloc)(void*, void*, std::size_t);
    void (*free)(void*, void*, std::size_t);
  } allocator;
};

std::atomic<std::int64_t> total{0};

void note(std::int64_t bytes, const void* address) {
  const std::int64_t there = total += bytes;
  if (enabled && options.memory)
    note_memory(bytes, reinterpret_cast<std::uint64_t>(address), -1, there);
}

void* give(void*, std::size_t size) {
  void* found = std::malloc(size);
  if (found) note(static_cast<std::int64_t>(size), found);
  return found;
}
void* give_zeros(void*, std::size_t n, std::size_t size) {
  void* found = std::calloc(n, size);
  if (found) note(static_cast<std::int64_t>(n * size), found);
  return found;
}
void* resize(void*, void* memory, std::size_t size) {
  void* found = std::realloc(memory, size);
  if (found) note(static_cast<std::int64_t>(size), found);  // what it was before, nobody says
  return found;
}
void take(void*, void* memory, std::size_t size) {
  if (memory) note(-static_cast<std::int64_t>(size), memory);
  std::free(memory);
}

Handler handler{.allocator = {nullptr, give, give_zeros, resize, take}};
constexpr int kSetHandler = 304;  // in NumPy's table of functions, since 1.22

PyObject* set_handler(PyObject* capsule) {
  static void** table = nullptr;
  if (!table) {
    const Ref module(PyImport_ImportModule("numpy._core._multiarray_umath"));
    const Ref api(module ? PyObject_GetAttrString(module.get(), "_ARRAY_API") : nullptr);
    table = api ? static_cast<void**>(PyCapsule_GetPointer(api.get(), nullptr)) : nullptr;
    if (!table) return nullptr;
  }
  return reinterpret_cast<PyObject* (*)(PyObject*)>(table[kSetHandler])(capsule);
}

PyObject* before = nullptr;  // the handler that ours took the place of

PyObject* enter() {
  static PyObject* ours = PyCapsule_New(&handler, "mem_handler", nullptr);
  return ours ? set_handler(ours) : nullptr;
}

}  // namespace

bool watch_host_memory() {
  if (before) return true;
  before = enter();
  forget_contexts();  // in which calls run that ignore NumPy's errors
  return before != nullptr;
}

bool note_host_memory() {
  if (!before) return true;
  return static_cast<bool>(Ref(enter()));
}

bool leave_host_memory() {
  if (!before) return true;
  const Ref ours(set_handler(before));
  Py_CLEAR(before);
  forget_contexts();
  return static_cast<bool>(ours);
}

}  // namespace tritorch::profiling
