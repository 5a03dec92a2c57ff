#include "products/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "driver/blocking.h"
#include "products/blas.h"
#include "ref.h"
#include "tensor/ndarray.h"
#include "workers.h"

namespace tritorch {
namespace {

using blas::Matrix;

constexpr int kMostDims = 64;
// Multiply-adds of a product from which OpenBLAS would wake its threads.
constexpr double kLeast = 1 << 18;
// The same of a matrix and a vector.
constexpr double kLeastByVector = 9216;
// A product is cut into as many pieces as the root of its multiply-adds in this unit: two of some
// twenty microseconds, eight of a hundred.  Each packs what it reads: pieces of 128 rows and 256
// columns take 7% more time than the whole, those of 256 and 256 2%.
constexpr double kPiece = 1 << 19;
constexpr std::int64_t kMostPieces = 64;
// A piece has so many rows and columns at least, and begins at a multiple of this.
constexpr std::int64_t kSide = 64, kUnit = 32;

PyObject* finder = nullptr;  // Python's, until it was asked

struct Operand {
  NDArray* array;
  std::int64_t rows, columns;
  std::int64_t stride = 0;  // of a matrix, in elements
  bool across = false;

  explicit Operand(NDArray* of)
      : array(of), rows(of->dimensions[of->nd - 2]), columns(of->dimensions[of->nd - 1]) {}

  // Whether BLAS takes its matrices as they lie.
  bool lies_well(std::int64_t size) {
    const Py_ssize_t down = array->strides[array->nd - 2], along = array->strides[array->nd - 1];
    for (int dim = 0; dim < array->nd; ++dim)
      if (array->strides[dim] % size) return false;
    const auto fits = [&](Py_ssize_t near, std::int64_t n, Py_ssize_t far, std::int64_t lines) {
      stride = lines == 1 ? std::max<std::int64_t>(n, 1) : far / size;
      return (near == size || n == 1) && stride >= n;
    };
    if (fits(along, columns, down, rows)) return true;
    across = true;
    return fits(down, rows, along, columns);
  }

  // Where matrix i is, of all that the batch's dims number.
  const char* matrix(std::int64_t i, int nd, const Py_ssize_t* batch) const {
    const char* at = array->data;
    for (int dim = nd - 3; dim >= 0; --dim) {
      const std::int64_t place = i % batch[dim];
      i /= batch[dim];
      const int own = dim - (nd - array->nd);
      if (own >= 0 && array->dimensions[own] != 1) at += place * array->strides[own];
    }
    return at;
  }
};

// How many pieces each side of a product is cut into.  Sizes alone decide.
struct Cut {
  std::int64_t rows = 1, columns = 1;

  Cut(std::int64_t m, std::int64_t n, std::int64_t pieces) {
    for (; pieces > 1; pieces /= 2) {
      const std::int64_t high = m / rows, wide = n / columns;
      if (std::max(high, wide) < 2 * kSide) return;
      (high >= wide ? rows : columns) *= 2;
    }
  }
};

// The part `i` of `count` of n, in whole units.
std::pair<std::int64_t, std::int64_t> part(std::int64_t i, std::int64_t count, std::int64_t n) {
  const std::int64_t per = ((n + count - 1) / count + kUnit - 1) / kUnit * kUnit;
  return {std::min(i * per, n), std::min((i + 1) * per, n)};
}

template <class T>
struct Product {
  const Operand &a, &b, &c;
  const T* bias;  // of each column, or null
  int nd;
  const Py_ssize_t* batch;
  std::int64_t count;  // of matrices
  double work;         // multiply-adds
  bool mirrored;       // b is a's transpose: what is above the diagonal is copied from below it

  void run() const {
    const std::int64_t m = a.rows, n = b.columns;
    const auto wanted = std::min(kMostPieces, static_cast<std::int64_t>(std::sqrt(work / kPiece)));
    Cut cut(m, n, wanted / count);
    if (mirrored) cut.columns = cut.rows;
    const std::int64_t pieces = cut.rows * cut.columns;
    const std::int64_t together =
        std::max<std::int64_t>(count / std::max<std::int64_t>(wanted, 1), 1);
    const std::int64_t groups = (count + together - 1) / together;
    blas::OneThread alone;
    share(groups * pieces, [&](Parts& parts) {
      for (std::ptrdiff_t i; (i = parts.take()) >= 0;) {
        const auto [top, bottom] = part(i % pieces / cut.columns, cut.rows, m);
        const auto [left, right] = part(i % pieces % cut.columns, cut.columns, n);
        if (top == bottom || left == right || (mirrored && left > top)) continue;
        const std::int64_t first = i / pieces * together;
        for (std::int64_t at = first; at < std::min(first + together, count); ++at)
          multiply(at, top, bottom, left, right);
      }
    });
  }

 private:
  void multiply(std::int64_t at, std::int64_t top, std::int64_t bottom, std::int64_t left,
                std::int64_t right) const {
    const Matrix<const T> x{reinterpret_cast<const T*>(a.matrix(at, nd, batch)), a.stride,
                            a.across};
    const Matrix<const T> y{reinterpret_cast<const T*>(b.matrix(at, nd, batch)), b.stride,
                            b.across};
    const Matrix<T> z{reinterpret_cast<T*>(const_cast<char*>(c.matrix(at, nd, batch))), c.stride,
                      c.across};
    // BLAS adds products to what is there, and would write zeros first.
    if (bias)
      for (std::int64_t row = top; row < bottom; ++row)
        std::copy(bias + left, bias + right, z.at(row, left).data);
    blas::multiply(bottom - top, right - left, a.columns, x.at(top, 0), y.at(0, left),
                   z.at(top, left), T(bias ? 1 : 0));
    if (mirrored)
      for (std::int64_t column = left; column < right; ++column)
        for (std::int64_t row = std::max(top, column + 1); row < bottom; ++row)
          *z.at(column, row).data = *z.at(row, column).data;
  }
};

// The batch's dims of a product, before those of a matrix; nothing if they do not broadcast.
std::optional<int> batch_of(const NDArray* a, const NDArray* b, Py_ssize_t* shape) {
  const int nd = std::max(a->nd, b->nd);
  for (int dim = 0; dim < nd - 2; ++dim) {
    const int in_a = dim - (nd - a->nd), in_b = dim - (nd - b->nd);
    const Py_ssize_t x = in_a < 0 ? 1 : a->dimensions[in_a];
    const Py_ssize_t y = in_b < 0 ? 1 : b->dimensions[in_b];
    if (x != y && x != 1 && y != 1) return std::nullopt;
    shape[dim] = x == 1 ? y : x;
  }
  return nd;
}

// 4 or 8: the size of both arrays' elements, which are floats that BLAS takes; else 0.
std::int64_t element_size(const NDArray* a, const NDArray* b) {
  const NDArray::Type type = a->type();
  if (b->type() != type) return 0;
  return type == NDArray::kFloat32 ? 4 : type == NDArray::kFloat64 ? 8 : 0;
}

// Whether b's matrices are a's, transposed: their products are symmetric to the last bit.
bool are_transposed(const Operand& a, const Operand& b) {
  const NDArray &x = *a.array, &y = *b.array;
  return x.data == y.data && a.rows == b.columns && a.across != b.across && a.stride == b.stride &&
         x.nd == y.nd && std::equal(x.dimensions, x.dimensions + x.nd - 2, y.dimensions) &&
         std::equal(x.strides, x.strides + x.nd - 2, y.strides);
}

// Whether a product can be written there.
bool takes(const NDArray* out, const Operand& a, const Operand& b, int nd, const Py_ssize_t* shape,
           std::int64_t size) {
  if (!out || !out->is_writeable() || out->nd != nd || out->type() != a.array->type() ||
      !std::equal(shape, shape + nd, out->dimensions) || share_memory(out, a.array, size) ||
      share_memory(out, b.array, size))
    return false;
  Operand c(const_cast<NDArray*>(out));
  return c.lies_well(size) && !c.across;
}

// Asks Python, once.
bool find_library() {
  if (blas::has_library() || !finder) return blas::has_library();
  const Ref asked(std::exchange(finder, nullptr));
  const Ref done(PyObject_CallNoArgs(asked.get()));
  if (!done) return PyErr_Clear(), false;
  return blas::has_library();
}

// multiply(a, b, out or None, bias or None): the product, and to each row of it the bias, in `out`
// or a new array; None: it is small, or of another kind, or lies otherwise, and is NumPy's to
// compute.
PyObject* multiply(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 3 && n != 4) return PyErr_Format(PyExc_TypeError, "multiply(a, b, out, bias)");
  NDArray *left = as_ndarray(args[0]), *right = as_ndarray(args[1]);
  if (!left || !right || left->nd < 2 || right->nd < 2) Py_RETURN_NONE;
  const NDArray* bias = n == 4 && args[3] != Py_None ? as_ndarray(args[3]) : nullptr;
  if (n == 4 && args[3] != Py_None &&
      (!bias || bias->type() != left->type() || !bias->is_contiguous() || bias->nd != 1 ||
       bias->dimensions[0] != right->dimensions[right->nd - 1]))
    Py_RETURN_NONE;
  Operand a(left), b(right);
  std::array<Py_ssize_t, kMostDims> shape;
  const std::optional<int> nd = batch_of(left, right, shape.data());
  if (!nd || a.columns != b.rows) Py_RETURN_NONE;
  std::int64_t count = 1;
  for (int dim = 0; dim < *nd - 2; ++dim) count *= shape[static_cast<std::size_t>(dim)];
  const double work = static_cast<double>(a.rows) * static_cast<double>(b.columns) *
                      static_cast<double>(a.columns) * static_cast<double>(count);
  const bool by_vector = std::min(a.rows, b.columns) == 1;
  if (!count || (by_vector ? work < kLeastByVector * static_cast<double>(count) : work <= kLeast))
    Py_RETURN_NONE;
  const std::int64_t size = element_size(left, right);
  if (!size || !a.lies_well(size) || !b.lies_well(size) || !find_library()) Py_RETURN_NONE;
  shape[static_cast<std::size_t>(*nd - 2)] = a.rows;
  shape[static_cast<std::size_t>(*nd - 1)] = b.columns;
  Ref out(args[2] == Py_None ? new_array(*nd, shape.data(), left->descr) : Py_NewRef(args[2]));
  if (!out) return nullptr;
  if (!takes(as_ndarray(out.get()), a, b, *nd, shape.data(), size)) Py_RETURN_NONE;
  Operand c(as_ndarray(out.get()));
  c.lies_well(size);
  BlockingRegion others;
  const char* row = bias ? bias->data : nullptr;
  const bool mirrored = !bias && are_transposed(a, b);
  const auto run = [&]<class T>(T) {
    Product<T>{a, b, c, reinterpret_cast<const T*>(row), *nd, shape.data(), count, work, mirrored}
        .run();
  };
  size == 4 ? run(float{}) : run(double{});
  return out.release();
}

// dot(a, b): of dense vectors of floats, as a number; None: it is NumPy's to compute.
PyObject* dot(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "dot(a, b)");
  NDArray *a = as_ndarray(args[0]), *b = as_ndarray(args[1]);
  if (!a || !b || a->nd != 1 || b->nd != 1 || a->dimensions[0] != b->dimensions[0] ||
      !a->is_contiguous() || !b->is_contiguous())
    Py_RETURN_NONE;
  const std::int64_t size = element_size(a, b);
  if (!size || !find_library()) Py_RETURN_NONE;
  double sum;
  {
    BlockingRegion others;
    const auto as = [&]<class T>(T) {
      return static_cast<double>(blas::dot(a->dimensions[0], reinterpret_cast<const T*>(a->data),
                                           reinterpret_cast<const T*>(b->data)));
    };
    sum = size == 4 ? as(float{}) : as(double{});
  }
  return PyFloat_FromDouble(sum);
}

// find_blas_with(function): which is called once, before the first large product, and calls
// `set_blas`.
PyObject* find_blas_with(PyObject*, PyObject* function) {
  Py_XSETREF(finder, Py_NewRef(function));
  Py_RETURN_NONE;
}

// set_blas(functions, wide): the addresses of sgemm, dgemm, sgemv, dgemv, sdot, ddot, and of those
// that get and set the number of threads.
PyObject* set_blas(PyObject*, PyObject* args) {
  constexpr Py_ssize_t kFunctions = 8;
  PyObject* functions;
  int wide;
  if (!PyArg_ParseTuple(args, "O!p", &PyList_Type, &functions, &wide)) return nullptr;
  if (PyList_GET_SIZE(functions) != kFunctions)
    return PyErr_Format(PyExc_ValueError, "%zd functions are needed", kFunctions);
  std::array<void*, kFunctions> at{};
  for (std::size_t i = 0; i < at.size(); ++i)
    at[i] = PyLong_AsVoidPtr(PyList_GET_ITEM(functions, static_cast<Py_ssize_t>(i)));
  if (PyErr_Occurred()) return nullptr;
  blas::set_library({{at[0], at[1]},
                     {at[2], at[3]},
                     {at[4], at[5]},
                     reinterpret_cast<int (*)()>(at[6]),
                     reinterpret_cast<void (*)(int)>(at[7]),
                     wide != 0});
  Py_RETURN_NONE;
}

// set_blas_threads(count): of NumPy's products, from now on.
PyObject* set_blas_threads(PyObject*, PyObject* number) {
  const long count = PyLong_AsLong(number);
  if (PyErr_Occurred()) return nullptr;
  if (count < 1) return PyErr_Format(PyExc_ValueError, "products need 1 thread, not %ld", count);
  blas::set_threads(static_cast<int>(count));
  Py_RETURN_NONE;
}

PyObject* get_blas_threads(PyObject*, PyObject*) { return PyLong_FromLong(blas::get_threads()); }

// one_blas_thread(begins): products run in the thread that asks for them from True to False.
PyObject* one_blas_thread(PyObject*, PyObject* begins) {
  begins == Py_True ? blas::begin_one_thread() : blas::end_one_thread();
  return PyBool_FromLong(begins != Py_True);
}

PyMethodDef functions[] = {
    {"multiply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(multiply)),
     METH_FASTCALL,
     "The product of large arrays of floats, and a bias, or None: it is NumPy's to compute."},
    {"dot", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(dot)), METH_FASTCALL,
     "The sum of two vectors' products, or None: it is NumPy's to compute."},
    {"find_blas_with", find_blas_with, METH_O, "Who calls set_blas before the first product."},
    {"set_blas", set_blas, METH_VARARGS, "Where NumPy's BLAS has its functions."},
    {"set_blas_threads", set_blas_threads, METH_O, "How many threads NumPy's products have."},
    {"get_blas_threads", get_blas_threads, METH_NOARGS,
     "How many threads NumPy's products have now."},
    {"one_blas_thread", one_blas_thread, METH_O, "Whether products have one thread meanwhile."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_product_functions(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0 &&
         PyModule_AddIntConstant(module, "PRODUCTS_PIECE", static_cast<long>(kPiece)) == 0;
}

}  // namespace tritorch
