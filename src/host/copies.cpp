// Note [Copies]
// NumPy copies array by array in one thread, and what lies across line by line of the result.  Here
// dims are put into the result's order and joined where both arrays go on alike; then rows are
// copied whole, or, where the source's rows are the result's columns, in tiles which the cache
// holds; threads share them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "host/functions.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr int kMostDims = 64;
constexpr Py_ssize_t kTile = 16;                // elements of a side
constexpr Py_ssize_t kChunk = 1 << 14;          // elements of a long row that are one unit of work
constexpr double kByte = 0.06, kElement = 0.7;  // nanoseconds, of what lies dense and of others

struct Dim {
  Py_ssize_t n, to, from;  // elements, bytes from one to the next
};

// Dims outside of what is copied at once, and where an index of all of them leads.
struct Outer {
  std::array<Dim, kMostDims> dims;
  int count = 0;
  Py_ssize_t size = 1;

  void add(const Dim& dim) {
    dims[static_cast<std::size_t>(count++)] = dim;
    size *= dim.n;
  }
};

class Walk {
 public:
  Walk(const Outer& outer, char* to, const char* from, Py_ssize_t index)
      : outer_(outer), to_(to), from_(from) {
    for (int i = outer.count - 1; i >= 0; --i) {
      const Dim& dim = outer.dims[static_cast<std::size_t>(i)];
      const Py_ssize_t at = places_[static_cast<std::size_t>(i)] = index % dim.n;
      index /= dim.n;
      to_ += at * dim.to, from_ += at * dim.from;
    }
  }

  char* to() const { return to_; }
  const char* from() const { return from_; }

  void next() {
    for (int i = outer_.count - 1; i >= 0; --i) {
      const Dim& dim = outer_.dims[static_cast<std::size_t>(i)];
      to_ += dim.to, from_ += dim.from;
      if (++places_[static_cast<std::size_t>(i)] < dim.n) return;
      places_[static_cast<std::size_t>(i)] = 0;
      to_ -= dim.n * dim.to, from_ -= dim.n * dim.from;
    }
  }

 private:
  const Outer& outer_;
  char* to_;
  const char* from_;
  std::array<Py_ssize_t, kMostDims> places_;
};

struct Pair {
  std::uint64_t halves[2];
};

constexpr Py_ssize_t kLine = 128;  // bytes that are written at once

// Bytes that repeat those of a line.
TRITORCH_WIDEST(void, fill_bytes, (char* to, const char* line, Py_ssize_t n), (to, line, n), {
  for (; n >= kLine; n -= kLine, to += kLine) {
    std::memcpy(to, line, kLine);
    __asm__ volatile("" ::: "memory");  // else compilers make other loops of it
  }
  std::memcpy(to, line, static_cast<std::size_t>(n));
})

template <class T>
T read(const char* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

template <class T>
void write(char* to, T x) {
  std::memcpy(to, &x, sizeof x);
}

// Elements of a row, which lie apart in one of the arrays or in both.
template <class T>
void copy_row(char* to, Py_ssize_t to_step, const char* from, Py_ssize_t step, Py_ssize_t n) {
  constexpr auto size = static_cast<Py_ssize_t>(sizeof(T));
  if (to_step != size) {
    for (Py_ssize_t i = 0; i < n; ++i) write(to + i * to_step, read<T>(from + i * step));
  } else if (step == 0) {
    char line[kLine];
    for (Py_ssize_t i = 0; i < kLine; i += size) std::memcpy(line + i, from, sizeof(T));
    fill_bytes(to, line, n * size);
  } else if (step == -size) {
    for (Py_ssize_t i = 0; i < n; ++i) write(to + i * size, read<T>(from - i * size));
  } else {
    for (Py_ssize_t i = 0; i < n; ++i) write(to + i * size, read<T>(from + i * step));
  }
}

// A tile: `across` elements follow each other in the source, `along` in the result.
template <class T>
[[gnu::always_inline]] inline void copy_tile(char* to, Py_ssize_t to_step, const char* from,
                                             Py_ssize_t step, Py_ssize_t across, Py_ssize_t along) {
  constexpr auto size = static_cast<Py_ssize_t>(sizeof(T));
  if (across == kTile && along == kTile) {
    T tile[kTile][kTile];
    for (Py_ssize_t i = 0; i < kTile; ++i) std::memcpy(tile[i], from + i * step, kTile * sizeof(T));
    for (Py_ssize_t k = 0; k < kTile; ++k) {
      T line[kTile];
      for (Py_ssize_t i = 0; i < kTile; ++i) line[i] = tile[i][k];
      std::memcpy(to + k * to_step, line, sizeof line);
    }
    return;
  }
  for (Py_ssize_t k = 0; k < across; ++k)
    for (Py_ssize_t i = 0; i < along; ++i)
      write(to + k * to_step + i * size, read<T>(from + i * step + k * size));
}

template <class T>
void copy_tiles(char* to, const char* from, const Dim& row, const Dim& column, Py_ssize_t low,
                Py_ssize_t high) {
  constexpr auto size = static_cast<Py_ssize_t>(sizeof(T));
  for (Py_ssize_t k = low; k < high; k += kTile)
    for (Py_ssize_t i = 0; i < row.n; i += kTile)
      copy_tile<T>(to + k * column.to + i * size, column.to, from + i * row.from + k * size,
                   row.from, std::min(kTile, high - k), std::min(kTile, row.n - i));
}

// Rows of bytes, without a call: some C libraries copy by an instruction that is slow in the cache.
TRITORCH_WIDEST(void, copy_bytes, (char* to, const char* from, Py_ssize_t n), (to, from, n), {
  for (; n >= kLine; n -= kLine, to += kLine, from += kLine) {
    std::memcpy(to, from, kLine);
    __asm__ volatile("" ::: "memory");  // else compilers make a call of it
  }
  std::memcpy(to, from, static_cast<std::size_t>(n));
})

// How two arrays are copied: dims in the result's order, joined where both go on alike.
struct Plan {
  std::array<Dim, kMostDims> dims;
  int count = 0;
  char* to;
  const char* from;

  Plan(const NDArray& target, const NDArray& source) : to(target.data), from(source.data) {
    for (int i = 0; i < target.nd; ++i) {
      Dim dim{target.dimensions[i], target.strides[i], source.strides[i]};
      if (dim.n == 1) continue;
      if (dim.to < 0) {
        to += (dim.n - 1) * dim.to, from += (dim.n - 1) * dim.from;
        dim.to = -dim.to, dim.from = -dim.from;
      }
      dims[static_cast<std::size_t>(count++)] = dim;
    }
    std::stable_sort(dims.begin(), dims.begin() + count,
                     [](const Dim& a, const Dim& b) { return a.to > b.to; });
    int joined = 0;
    for (int i = 1; i < count; ++i) {
      Dim& last = dims[static_cast<std::size_t>(joined)];
      const Dim& next = dims[static_cast<std::size_t>(i)];
      if (last.to == next.n * next.to && last.from == next.n * next.from)
        last = {last.n * next.n, next.to, next.from};
      else
        dims[static_cast<std::size_t>(++joined)] = next;
    }
    if (count) count = joined + 1;
  }
};

template <class T>
void copy_all(const Plan& plan) {
  constexpr auto size = static_cast<Py_ssize_t>(sizeof(T));
  Dim row = plan.count ? plan.dims[static_cast<std::size_t>(plan.count - 1)] : Dim{1, size, size};
  int column = -1;  // the dim along which the source lies dense
  if (row.to == size && row.from != size && (row.from || row.n < kTile))
    for (int i = plan.count - 2; i >= 0; --i)
      if (plan.dims[static_cast<std::size_t>(i)].from == size) column = i;
  Outer outer;
  for (int i = 0; i + 1 < plan.count; ++i)
    if (i != column) outer.add(plan.dims[static_cast<std::size_t>(i)]);
  if (column >= 0) {
    const Dim across = plan.dims[static_cast<std::size_t>(column)];
    outer.add({(across.n + kTile - 1) / kTile, kTile * across.to, kTile * size});
    const Py_ssize_t strips = outer.dims[static_cast<std::size_t>(outer.count - 1)].n;
    const double cost = kElement * static_cast<double>(std::min(kTile, across.n) * row.n);
    return in_parts(outer.size, cost, [&](Py_ssize_t low, Py_ssize_t high) {
      Walk at(outer, plan.to, plan.from, low);
      for (; low < high; ++low, at.next())
        copy_tiles<T>(at.to(), at.from(), row, across, 0,
                      std::min(kTile, across.n - low % strips * kTile));
    });
  }
  const Py_ssize_t chunks = (row.n + kChunk - 1) / kChunk, most = std::min(row.n, kChunk);
  if (chunks > 1) outer.add({chunks, kChunk * row.to, kChunk * row.from});
  const bool dense = row.to == size && row.from == size;
  const double cost = 2 + static_cast<double>(most) * (dense ? size * kByte : kElement);
  in_parts(outer.size, cost, [&](Py_ssize_t low, Py_ssize_t high) {
    Walk at(outer, plan.to, plan.from, low);
    for (; low < high; ++low, at.next()) {
      const Py_ssize_t n = chunks > 1 ? std::min(kChunk, row.n - low % chunks * kChunk) : row.n;
      if (dense)
        copy_bytes(at.to(), at.from(), n * size);
      else
        copy_row<T>(at.to(), row.to, at.from(), row.from, n);
    }
  });
}

// copy_elements(to, from, itemsize): of one dtype; False, and nothing is done, if their shapes
// differ, if they may share memory, if a place is written several times, or if elements have
// another size.
PyObject* copy_elements(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3) return PyErr_Format(PyExc_TypeError, "copy_elements(to, from, itemsize)");
  NDArray *to = as_ndarray(args[0]), *from = as_ndarray(args[1]);
  const Py_ssize_t size = PyLong_AsSsize_t(args[2]);
  if (size == -1 && PyErr_Occurred()) return nullptr;
  if (!to || !from || !to->is_writeable() || to->nd != from->nd ||
      !std::equal(to->dimensions, to->dimensions + to->nd, from->dimensions))
    Py_RETURN_FALSE;
  if (to->is_empty()) Py_RETURN_TRUE;
  if (share_memory(to, from, size)) Py_RETURN_FALSE;
  for (int i = 0; i < to->nd; ++i)
    if (!to->strides[i] && to->dimensions[i] > 1) Py_RETURN_FALSE;
  const Plan plan(*to, *from);
  switch (size) {
    case 1:
      copy_all<std::uint8_t>(plan);
      break;
    case 2:
      copy_all<std::uint16_t>(plan);
      break;
    case 4:
      copy_all<std::uint32_t>(plan);
      break;
    case 8:
      copy_all<std::uint64_t>(plan);
      break;
    case 16:
      copy_all<Pair>(plan);
      break;
    default:
      Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyMethodDef functions[] = {
    {"copy_elements", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(copy_elements)),
     METH_FASTCALL, "Copies an array into another of its shape and dtype, if they lie apart."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_copies(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
