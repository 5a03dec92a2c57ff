// Note [Passes]
// NumPy computes heavy work, and BLAS; but gathering, scattering, pooling and running sums are
// several of its calls, each with its own pass over memory and its own checks, where one short loop
// does.  Such loops are here.  They take dense arrays, whose dtypes and sizes Python has looked at,
// and share parts of which each writes elements of its own (Note [Workers]): how many threads there
// are changes no bits.
#include "host/functions.h"

#include "host/halves.h"

namespace tritorch::host {

NDArray* dense(PyObject* given, Py_ssize_t size, const char* what) {
  NDArray* array = as_ndarray(given);
  if (array && array->is_contiguous() && array->size() == static_cast<std::size_t>(size))
    return array;
  PyErr_Format(PyExc_SystemError, "%s is no dense array of %zd elements", what, size);
  return nullptr;
}

}  // namespace tritorch::host

namespace tritorch {

bool add_host_functions(PyObject* module) {
  return host::add_attention(module) && host::add_conv(module) && host::add_copies(module) &&
         host::add_halves(module) && host::add_elementary(module) && host::add_indexing(module) &&
         host::add_norms(module) && host::add_pooling(module) && host::add_resampling(module) &&
         host::add_row_norms(module) && host::add_scaled_sums(module) && host::add_scans(module) &&
         host::add_sorting(module) && host::add_columns(module);
}

}  // namespace tritorch
