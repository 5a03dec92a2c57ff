// Our errors as Python's.
#include <cstring>
#include <utility>

#include "bindings/convert.h"
#include "launch/pack.h"
#include "ref.h"
#include "simulator/python.h"

namespace tritorch {
namespace {

PyObject* cuda_error = nullptr;
PyObject* out_of_memory_error = nullptr;
PyObject* unavailable_error = nullptr;

void set_cuda_error(const CudaError& error) {
  PyObject* value = PyObject_CallFunction(cuda_error, "s", error.what());
  if (!value) return;
  nb::object owned = nb::steal(value);
  owned.attr("code") = static_cast<int>(error.code);
  owned.attr("name") = error_name(error.code);
  PyErr_SetObject(cuda_error, value);
}

// PyTorch's words; what is missing, and how to mend it, is a note that tracebacks show behind them.
void set_unavailable(const char* what) {
  const char* words = std::strstr(what, "forked")
                          ? "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
                            "multiprocessing, you must use the 'spawn' start method"
                          : "Torch not compiled with CUDA enabled";
  const Ref error(PyObject_CallFunction(unavailable_error, "s", words));
  if (!error) return;
  const Ref added(PyObject_CallMethod(error.get(), "add_note", "s", what));
  if (added) PyErr_SetObject(unavailable_error, error.get());
}

PyObject* new_exception(nb::module_& m, const char* name, const char* doc, PyObject* base) {
  std::string qualified = std::string("tritorch.cuda.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
  if (!type) throw nb::python_error();
  m.attr(name) = nb::borrow(type);
  return type;
}

}  // namespace

void rethrow_as_python(std::exception_ptr pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const CudaError& error) {
    const Ref passing(error.code == cu::simulator::kInterrupted ? take_interruption() : nullptr);
    if (!passing) return set_cuda_error(error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(passing.get())), passing.get());
  } catch (const OutOfMemoryError& error) {
    PyErr_SetString(out_of_memory_error, error.what());
  } catch (const CudaUnavailable& error) {
    set_unavailable(error.what());
  } catch (const std::domain_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const PythonError&) {
  }
}

void set_python_error(std::exception_ptr pointer) noexcept {
  try {
    rethrow_as_python(pointer);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::out_of_range& error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void bind_errors(nb::module_& m) {
  // PyTorch without CUDA raises an AssertionError, with CUDA but without a driver a RuntimeError.
  const Ref bases(PyTuple_Pack(2, PyExc_AssertionError, PyExc_RuntimeError));
  unavailable_error = new_exception(m, "CudaUnavailableError",
                                    "There is no usable CUDA driver or device.", bases.get());
  cuda_error = new_exception(m, "CudaError", "A CUDA driver call failed; see its code and name.",
                             PyExc_RuntimeError);
  out_of_memory_error =
      new_exception(m, "OutOfMemoryError", "The device's memory is exhausted.", PyExc_RuntimeError);
  nb::register_exception_translator(
      [](const std::exception_ptr& pointer, void*) { rethrow_as_python(pointer); });
}

}  // namespace tritorch
