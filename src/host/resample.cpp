// Linear interpolation of planes: rows are widened once, then each result is between two of them.
#include <cstdint>
#include <vector>

#include "host/functions.h"
#include "widest.h"

namespace tritorch::host {
namespace {

// Of one dim: between which two elements each result is, and how far along.
template <class T>
struct Between {
  const std::int64_t *low, *high;
  const T* part;
};

template <class T>
[[gnu::always_inline]] inline void widen(const T* from, const Between<T>& along, T* to,
                                         Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i)
    to[i] = from[along.low[i]] * (T{1} - along.part[i]) + from[along.high[i]] * along.part[i];
}

template <class T>
[[gnu::always_inline]] inline void blend(const T* a, const T* b, T part, T* to, Py_ssize_t n) {
  const T rest = T{1} - part;
  for (Py_ssize_t i = 0; i < n; ++i) to[i] = a[i] * rest + b[i] * part;
}

TRITORCH_WIDEST(void, blend_rows,
                (const float* a, const float* b, float part, float* to, Py_ssize_t n),
                (a, b, part, to, n), { blend(a, b, part, to, n); })
TRITORCH_WIDEST(void, blend_rows,
                (const double* a, const double* b, double part, double* to, Py_ssize_t n),
                (a, b, part, to, n), { blend(a, b, part, to, n); })

struct Sizes {
  Py_ssize_t planes, rows, columns, high, wide;
};

template <class T>
void interpolate(const Sizes& of, const T* x, T* out, const Between<T>& down,
                 const Between<T>& along) {
  const double cost =
      static_cast<double>(of.high * of.wide) / 2 + static_cast<double>(of.rows * of.wide);
  const auto work = [&](Py_ssize_t from, Py_ssize_t to) {
    std::vector<T> widened(static_cast<std::size_t>(2 * of.wide));
    for (Py_ssize_t plane = from; plane < to; ++plane) {
      Py_ssize_t held[2] = {-1, -1};  // which rows are widened: one's place is its last bit
      const auto row = [&](std::int64_t i) {
        T* at = widened.data() + (i & 1) * of.wide;
        if (held[i & 1] != i)
          widen(x + (plane * of.rows + i) * of.columns, along, at, of.wide), held[i & 1] = i;
        return at;
      };
      for (Py_ssize_t i = 0; i < of.high; ++i) {
        const T *a = row(down.low[i]), *b = row(down.high[i]);
        blend_rows(a, b, down.part[i], out + (plane * of.high + i) * of.wide, of.wide);
      }
    }
  };
  in_parts(of.planes, cost, work);
}

// Whether the elements are of a dim of n, and beside each other or the same.
bool is_inside(const NDArray* low, const NDArray* high, Py_ssize_t m, Py_ssize_t n) {
  const auto *a = reinterpret_cast<const std::int64_t*>(low->data),
             *b = reinterpret_cast<const std::int64_t*>(high->data);
  for (Py_ssize_t i = 0; i < m; ++i)
    if (a[i] < 0 || b[i] < a[i] || b[i] > a[i] + 1 || b[i] >= n) return false;
  return true;
}

// interpolate_planes(x, out, kind, (planes, rows, columns, high, wide), (low, high, part) of rows,
// of columns)
PyObject* interpolate_planes(PyObject*, PyObject* args) {
  PyObject *given, *made, *of_dim[2][3];
  const char* kind;
  Sizes of;
  if (!PyArg_ParseTuple(args, "OOs(nnnnn)(OOO)(OOO)", &given, &made, &kind, &of.planes, &of.rows,
                        &of.columns, &of.high, &of.wide, &of_dim[0][0], &of_dim[0][1],
                        &of_dim[0][2], &of_dim[1][0], &of_dim[1][1], &of_dim[1][2]))
    return nullptr;
  const NDArray* x = dense(given, of.planes * of.rows * of.columns, "what is interpolated");
  const NDArray* out = x ? dense(made, of.planes * of.high * of.wide, "the result") : nullptr;
  if (!out) return nullptr;
  const NDArray* found[2][3];
  for (int dim = 0; dim < 2; ++dim) {
    const Py_ssize_t m = dim ? of.wide : of.high;
    for (int i = 0; i < 3; ++i)
      if (!(found[dim][i] = dense(of_dim[dim][i], m, "what is between"))) return nullptr;
    if (!is_inside(found[dim][0], found[dim][1], m, dim ? of.columns : of.rows))
      return PyErr_Format(PyExc_ValueError, "elements that are not beside each other");
  }
  return of_kind(kind, [&]<class T>(T) {
    const auto between = [&](int dim) {
      return Between<T>{reinterpret_cast<const std::int64_t*>(found[dim][0]->data),
                        reinterpret_cast<const std::int64_t*>(found[dim][1]->data),
                        reinterpret_cast<const T*>(found[dim][2]->data)};
    };
    interpolate<T>(of, reinterpret_cast<const T*>(x->data), reinterpret_cast<T*>(out->data),
                   between(0), between(1));
  });
}

PyMethodDef functions[] = {{"interpolate_planes", interpolate_planes, METH_VARARGS,
                            "Linear interpolation of planes, of rows after columns."},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_resampling(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
