// Windows of planes: the largest of each, and where; the mean of each.
#include <cstdint>
#include <limits>

#include "host/functions.h"
#include "tensor/fields.h"
#include "widest.h"

namespace tritorch::host {
namespace {

struct Pair {
  Py_ssize_t rows, columns;
};

struct Windows {
  Py_ssize_t planes;
  Pair size, count, kernel, stride, padding, dilation;

  Py_ssize_t elements() const { return planes * size.rows * size.columns; }
  Py_ssize_t results() const { return planes * count.rows * count.columns; }
  // Nanoseconds of a plane, about.
  double cost() const {
    const Py_ssize_t taps = count.rows * count.columns * (kernel.rows * kernel.columns + 1);
    return static_cast<double>(taps);
  }
};

// The taps of a window that lie inside, of one dim: which, and where the first of them is.
struct Taps {
  Py_ssize_t start, first, count;

  Taps(Py_ssize_t at, Py_ssize_t n, Py_ssize_t kernel, Py_ssize_t stride, Py_ssize_t padding,
       Py_ssize_t dilation)
      : start(at * stride - padding) {
    const Py_ssize_t before = start < 0 ? (-start + dilation - 1) / dilation : 0;
    first = start + before * dilation;
    const Py_ssize_t fit = first < n ? (n - first + dilation - 1) / dilation : 0;
    count = std::max<Py_ssize_t>(std::min(kernel - before, fit), 0);
  }
};

// each(plane, out, rows, columns) for the windows of planes [from, to).
template <class Each>
void for_windows(const Windows& all, Py_ssize_t from, Py_ssize_t to, const Each& each) {
  Py_ssize_t out = from * all.count.rows * all.count.columns;
  for (Py_ssize_t plane = from; plane < to; ++plane)
    for (Py_ssize_t i = 0; i < all.count.rows; ++i) {
      const Taps rows(i, all.size.rows, all.kernel.rows, all.stride.rows, all.padding.rows,
                      all.dilation.rows);
      for (Py_ssize_t j = 0; j < all.count.columns; ++j, ++out)
        each(plane, out, rows,
             Taps(j, all.size.columns, all.kernel.columns, all.stride.columns, all.padding.columns,
                  all.dilation.columns));
    }
}

// What is not smaller takes the place of the largest so far only if it is NaN: so the first of
// equals is found, and the last NaN.
template <class T>
bool is_better(T x, T best) {
  return x > best || x != x;
}

template <class T>
void find_largest(const Windows& all, const T* x, T* out, std::int64_t* where) {
  const Py_ssize_t width = all.size.columns, plane_size = all.size.rows * width;
  in_parts(all.planes, all.cost(), [&](Py_ssize_t from, Py_ssize_t to) {
    for_windows(all, from, to,
                [&](Py_ssize_t plane, Py_ssize_t at, const Taps& rows, const Taps& columns) {
                  Py_ssize_t best_at = rows.first * width + columns.first;
                  T best = -std::numeric_limits<T>::infinity();
                  const T* source = x + plane * plane_size;
                  if (rows.count && columns.count) best = source[best_at];
                  for (Py_ssize_t i = 0; i < rows.count; ++i) {
                    Py_ssize_t place = (rows.first + i * all.dilation.rows) * width + columns.first;
                    for (Py_ssize_t j = 0; j < columns.count; ++j, place += all.dilation.columns)
                      if (is_better(source[place], best)) best = source[place], best_at = place;
                  }
                  out[at] = best;
                  if (where) where[at] = best_at;
                });
  });
}

// Two by two, side by side, all inside.
template <class T>
[[gnu::always_inline]] inline void row_of_four(const T* row, Py_ssize_t width, Py_ssize_t first,
                                               Py_ssize_t n, T* __restrict out,
                                               std::int64_t* __restrict where) {
  for (Py_ssize_t j = 0; j < n; ++j) {
    const T given[4] = {row[2 * j], row[2 * j + 1], row[width + 2 * j], row[width + 2 * j + 1]};
    T best = given[0];
    Py_ssize_t at = 0;
    const Py_ssize_t places[4] = {0, 1, width, width + 1};
    for (int k = 1; k < 4; ++k) {
      const bool better = is_better(given[k], best);
      best = better ? given[k] : best;
      at = better ? places[k] : at;
    }
    out[j] = best;
    if (where) where[j] = first + at + 2 * j;
  }
}
TRITORCH_WIDEST(void, four,
                (const float* row, Py_ssize_t width, Py_ssize_t first, Py_ssize_t n, float* out,
                 std::int64_t* where),
                (row, width, first, n, out, where),
                { row_of_four(row, width, first, n, out, where); })
TRITORCH_WIDEST(void, four,
                (const double* row, Py_ssize_t width, Py_ssize_t first, Py_ssize_t n, double* out,
                 std::int64_t* where),
                (row, width, first, n, out, where),
                { row_of_four(row, width, first, n, out, where); })

template <class T>
void find_largest_of_four(const Windows& all, const T* x, T* out, std::int64_t* where) {
  const Py_ssize_t width = all.size.columns, n = all.count.columns;
  in_parts(all.planes, all.cost(), [&](Py_ssize_t from, Py_ssize_t to) {
    for (Py_ssize_t plane = from; plane < to; ++plane)
      for (Py_ssize_t i = 0; i < all.count.rows; ++i) {
        const Py_ssize_t at = (plane * all.count.rows + i) * n;
        four(x + (plane * all.size.rows + 2 * i) * width, width, 2 * i * width, n, out + at,
             where ? where + at : nullptr);
      }
  });
}

template <class T>
void largest(const Windows& all, const char* data, char* made, std::int64_t* where) {
  const T* x = reinterpret_cast<const T*>(data);
  T* out = reinterpret_cast<T*>(made);
  const auto is_two = [](const Pair& pair) { return pair.rows == 2 && pair.columns == 2; };
  const bool inside = !all.padding.rows && !all.padding.columns &&
                      2 * all.count.rows <= all.size.rows &&
                      2 * all.count.columns <= all.size.columns;
  if (is_two(all.kernel) && is_two(all.stride) && inside && all.dilation.rows == 1 &&
      all.dilation.columns == 1)
    find_largest_of_four(all, x, out, where);
  else
    find_largest(all, x, out, where);
}

// The sums of windows that lie inside, divided: column by column, as NumPy's code adds them.
template <class T>
void average(const Windows& all, const char* data, char* made, double scale) {
  const T* x = reinterpret_cast<const T*>(data);
  T* out = reinterpret_cast<T*>(made);
  const T divisor = static_cast<T>(scale);
  const Py_ssize_t width = all.size.columns, plane_size = all.size.rows * width;
  in_parts(all.planes, all.cost(), [&](Py_ssize_t from, Py_ssize_t to) {
    for_windows(all, from, to,
                [&](Py_ssize_t plane, Py_ssize_t at, const Taps& rows, const Taps& columns) {
                  const T* first = x + plane * plane_size + rows.first * width + columns.first;
                  T total = 0;
                  for (Py_ssize_t j = 0; j < columns.count; ++j) {
                    T column = first[j];
                    for (Py_ssize_t i = 1; i < rows.count; ++i) column += first[i * width + j];
                    total = j ? total + column : column;
                  }
                  out[at] = total / divisor;
                });
  });
}

bool is_sound(const Windows& all) {
  const auto positive = [](const Pair& pair) { return pair.rows > 0 && pair.columns > 0; };
  return all.planes >= 0 && positive(all.size) && positive(all.kernel) && positive(all.stride) &&
         positive(all.dilation) && all.padding.rows >= 0 && all.padding.columns >= 0;
}

#define TRITORCH_WINDOWS "n(nn)(nn)(nn)(nn)(nn)(nn)"
#define TRITORCH_READ(all)                                                             \
  &all.planes, &all.size.rows, &all.size.columns, &all.count.rows, &all.count.columns, \
      &all.kernel.rows, &all.kernel.columns, &all.stride.rows, &all.stride.columns,    \
      &all.padding.rows, &all.padding.columns, &all.dilation.rows, &all.dilation.columns

// pool_largest(x, out, where, kind, windows...): where: int64, or None
PyObject* pool_largest(PyObject*, PyObject* args) {
  PyObject *given, *made, *places;
  const char* kind;
  Windows all;
  if (!PyArg_ParseTuple(args, "OOOs" TRITORCH_WINDOWS, &given, &made, &places, &kind,
                        TRITORCH_READ(all)))
    return nullptr;
  if (!is_sound(all)) return PyErr_Format(PyExc_ValueError, "no windows");
  const NDArray* x = dense(given, all.elements(), "what is pooled");
  const NDArray* out = x ? dense(made, all.results(), "the result") : nullptr;
  if (!out) return nullptr;
  std::int64_t* where = nullptr;
  if (places != Py_None) {
    const NDArray* array = dense(places, all.results(), "the indices");
    if (!array) return nullptr;
    where = reinterpret_cast<std::int64_t*>(array->data);
  }
  return of_kind(kind, [&]<class T>(T) { largest<T>(all, x->data, out->data, where); });
}

// pool_average(x, out, kind, scale, windows...): none of which has padding or dilation
PyObject* pool_average(PyObject*, PyObject* args) {
  PyObject *given, *made;
  const char* kind;
  double scale;
  Windows all;
  if (!PyArg_ParseTuple(args, "OOsd" TRITORCH_WINDOWS, &given, &made, &kind, &scale,
                        TRITORCH_READ(all)))
    return nullptr;
  const auto inside = [](Py_ssize_t n, Py_ssize_t count, Py_ssize_t kernel, Py_ssize_t stride) {
    return count <= 0 || (count - 1) * stride + kernel <= n;
  };
  if (!is_sound(all) || all.padding.rows || all.padding.columns || all.dilation.rows != 1 ||
      all.dilation.columns != 1 ||
      !inside(all.size.rows, all.count.rows, all.kernel.rows, all.stride.rows) ||
      !inside(all.size.columns, all.count.columns, all.kernel.columns, all.stride.columns))
    return PyErr_Format(PyExc_ValueError, "no windows inside of planes");
  const NDArray* x = dense(given, all.elements(), "what is pooled");
  const NDArray* out = x ? dense(made, all.results(), "the result") : nullptr;
  if (!out) return nullptr;
  return of_kind(kind, [&]<class T>(T) { average<T>(all, x->data, out->data, scale); });
}

PyMethodDef functions[] = {
    {"pool_average", pool_average, METH_VARARGS, "The mean of each window of planes, all inside."},
    {"pool_largest", pool_largest, METH_VARARGS,
     "The largest of each window of planes, and where."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_pooling(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
