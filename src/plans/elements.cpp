// Note [Plans of elements]
// What a pointwise record computes on ndarrays and numbers, Python decides: to which dtype each
// operand is cast, which function runs, to what its result is cast (`decide` in
// tritorch/ops/record/elements.py).  That depends on the operands' dtypes, on whether they have
// dims and on the numbers' types alone, which are the key of a plan; sizes, strides and the numbers
// themselves are its arguments.  A call whose key is known takes no Python of ours but the record's
// function.  Whatever a plan does not cover is not mine: the record's general path takes it, which
// gives the same.
#include "plans/elements.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "compilation/region.h"
#include "host/halves.h"
#include "plans/trace.h"
#include "ref.h"
#include "tensor/fields.h"
#include "tensor/quiet.h"

namespace tritorch::plans {
namespace {

constexpr Py_ssize_t kMost = 8;          // operands
constexpr int kMostDims = 64;            // NumPy's limit
constexpr std::size_t kMostPlans = 64;   // of a record: beyond, it begins anew
constexpr Py_ssize_t kLarge = 1 << 20;   // elements from which threads pay (`BIG` in Python)
constexpr Py_ssize_t kShared = 1 << 15;  // the same for casts and for results that are written

// What a number is, among the addresses of dtypes.
enum Number : std::uintptr_t { kFloat = 2, kInt = 4, kBool = 6, kComplex = 8 };

struct ElementPlan {
  std::vector<std::uintptr_t> words;
  std::vector<Ref> dtypes;  // so that no other has their addresses
  bool computes = false;    // else every such call is somebody else's
  Ref function;             // of operands, and where it `writes`, of `out`;
                            // nothing: the operand is the result
  Ref chain;                // is asked first, from so many elements on; or nothing
  Py_ssize_t least = 0;
  bool widens = false;  // the chain takes operands as they are, not cast
  bool writes = false, is_cast = false;
  std::vector<Ref> casts;  // of each operand: a dtype, a function or None
  Ref computed, result;    // dtypes
  Ref cast_result;
};

std::uintptr_t word_of(PyObject* number) {
  if (PyFloat_CheckExact(number)) return kFloat;
  if (PyLong_CheckExact(number)) return kInt;
  if (PyBool_Check(number)) return kBool;
  return PyComplex_CheckExact(number) ? kComplex : 0;
}

PyObject* type_of(std::uintptr_t number) {
  PyTypeObject* type = number == kFloat  ? &PyFloat_Type
                       : number == kInt  ? &PyLong_Type
                       : number == kBool ? &PyBool_Type
                                         : &PyComplex_Type;
  return reinterpret_cast<PyObject*>(type);
}

// The operands of a call: plain ndarrays, which broadcast, and numbers.
struct Call {
  PyObject* const* inputs;
  Py_ssize_t n;
  NDArray* target = nullptr;        // what is written, or nothing
  PyObject* operands[kMost + 1];    // arrays and numbers
  std::uintptr_t words[kMost + 1];  // the target's first
  int nd = 0;
  Py_ssize_t shape[kMostDims];
  Py_ssize_t size = 1;

  // False for what no plan covers.  of_arrays: inputs are the arrays themselves.
  bool read(bool of_arrays = false) {
    if (n < 1 || n > kMost) return false;
    words[0] = target ? reinterpret_cast<std::uintptr_t>(target->descr) : 0;
    bool any = false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      Tensor* tensor = as_tensor(inputs[i]);
      operands[i] = tensor && tensor->array ? tensor->array : inputs[i];
      if (!tensor && !(of_arrays && as_ndarray(inputs[i]))) {
        if (!(words[i + 1] = word_of(inputs[i]))) return false;
        continue;
      }
      const NDArray* array = tensor ? plain_array(tensor) : as_ndarray(inputs[i]);
      if (!array || !join(*array)) return false;
      words[i + 1] = reinterpret_cast<std::uintptr_t>(array->descr) | (array->nd == 0);
      any = true;
    }
    return (any || target) && measure();
  }

  // Whether the operands are what they would be if a target's shape were among theirs.
  bool broadcasts_to(const NDArray& array) const {
    if (nd > array.nd) return false;
    for (int k = 1; k <= nd; ++k)
      if (shape[nd - k] != array.dimensions[array.nd - k] && shape[nd - k] != 1) return false;
    return true;
  }

  // Whether a plan for such dtypes is one for this call: integers are such as the type that is
  // computed in holds, and threads would not share casts.
  bool fits(const ElementPlan& plan) const {
    if (!plan.computes || (plan.is_cast && size >= kShared)) return false;
    const auto* dtype = reinterpret_cast<const NDArray::Descr*>(plan.computed.get());
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (words[i + 1] == kInt && !dtype->holds(operands[i])) return false;
      if (!plan.function && !is_small(operands[i])) return false;
    }
    return true;
  }

 private:
  // Whether a number is less than the largest of any type of floats, or no float.
  static bool is_small(PyObject* operand) {
    if (as_ndarray(operand)) return true;
    const double number = PyFloat_AsDouble(operand);
    return number > -1024 && number < 1024;
  }
  bool join(const NDArray& array) {
    if (array.nd > kMostDims) return false;
    for (; nd < array.nd; ++nd) {  // dims in front
      std::move_backward(shape, shape + nd, shape + nd + 1);
      shape[0] = 1;
    }
    for (int k = 1; k <= array.nd; ++k) {
      Py_ssize_t& whole = shape[nd - k];
      const Py_ssize_t own = array.dimensions[array.nd - k];
      if (own == whole || own == 1) continue;
      if (whole != 1) return false;
      whole = own;
    }
    return true;
  }
  bool measure() {
    for (int k = 0; k < nd; ++k) {
      if (shape[k] >= kLarge) return false;
      size *= shape[k];
      if (size >= kLarge) return false;
    }
    return true;
  }
};

struct Plans {
  PyObject_HEAD vectorcallfunc call;
  Operator* op;
  PyObject* decide;
  PyObject *computes, *writes;  // its methods of arrays, once a call was watched
  std::vector<std::shared_ptr<const ElementPlan>>* known;
  unsigned long long epoch;
};

std::shared_ptr<const ElementPlan> make_plan(const Plans* self, const Call& call) {
  auto plan = std::make_shared<ElementPlan>();
  plan->words.assign(call.words, call.words + call.n + 1);
  const Ref given(PyTuple_New(call.n + 1));
  if (!given) return nullptr;
  PyTuple_SET_ITEM(given.get(), 0, Py_NewRef(call.target ? call.target->descr : Py_None));
  for (Py_ssize_t i = 0; i <= call.n; ++i) {
    const std::uintptr_t word = call.words[i];
    if (word > kComplex)
      plan->dtypes.push_back(Ref::to(reinterpret_cast<PyObject*>(word & ~std::uintptr_t{1})));
    if (i == 0) continue;
    PyObject* operand = word > kComplex ? Py_BuildValue("(OO)", plan->dtypes.back().get(),
                                                        word & 1 ? Py_False : Py_True)
                                        : Py_NewRef(type_of(word));
    if (!operand) return nullptr;
    PyTuple_SET_ITEM(given.get(), i, operand);
  }
  const Ref found(PyObject_Call(self->decide, given.get(), nullptr));
  if (!found) return nullptr;
  if (found.get() == Py_None) return plan;
  PyObject *function, *chain, *casts, *computed, *result, *cast_result;
  int widens, writes;
  if (!PyArg_ParseTuple(found.get(), "OOnpO!OOOp", &function, &chain, &plan->least, &widens,
                        &PyTuple_Type, &casts, &computed, &result, &cast_result, &writes))
    return nullptr;
  plan->computes = true;
  if (function != Py_None) plan->function = Ref::to(function);
  if (chain != Py_None) plan->chain = Ref::to(chain);
  plan->widens = widens, plan->writes = writes;
  for (Py_ssize_t i = 0; i < call.n; ++i) plan->casts.push_back(Ref::to(PyTuple_GetItem(casts, i)));
  plan->computed = Ref::to(computed), plan->result = Ref::to(result);
  plan->cast_result = Ref::to(cast_result);
  plan->is_cast =
      std::ranges::any_of(plan->casts, [](const Ref& to) { return to.get() != Py_None; });
  return PyErr_Occurred() ? nullptr : plan;
}

// The plan of such calls; null with a Python error set.
std::shared_ptr<const ElementPlan> find_plan(Plans* self, const Call& call) {
  auto& known = *self->known;
  if (self->epoch != ambient_epoch) known.clear(), self->epoch = ambient_epoch;
  const auto count = static_cast<std::size_t>(call.n + 1);
  for (const auto& plan : known)
    if (plan->words.size() == count &&
        std::equal(call.words, call.words + count, plan->words.data()))
      return plan;
  auto plan = make_plan(self, call);
  if (!plan) return nullptr;
  if (known.size() >= kMostPlans) known.clear();
  known.push_back(plan);
  return plan;
}

Ref cast_to(PyObject* array, PyObject* to) {
  if (PyCallable_Check(to)) return Ref(PyObject_CallOneArg(to, array));
  Ref made(like_array(array, to));
  if (!made) return made;
  if (host::cast_halves(as_ndarray(array), as_ndarray(made.get()))) return made;
  return copy_into(made.get(), array) ? made : Ref();
}

// The result's array; where it is written at once, None.  Null with a Python error set.
Ref compute(const Call& call, const ElementPlan& plan) {
  const QuietScope quiet;
  if (!quiet.entered()) return Ref();
  const auto n = static_cast<std::size_t>(call.n);
  PyObject* operands[kMost + 1];
  std::copy_n(call.operands, n, operands);
  const bool chained = plan.chain && call.size >= plan.least && !plan.writes;
  Ref result;
  if (chained && plan.widens) {
    result = Ref(PyObject_Vectorcall(plan.chain.get(), operands, n, nullptr));
    if (result.get() != Py_None) return result;
  }
  Ref cast[kMost];
  for (std::size_t i = 0; i < n; ++i) {
    PyObject* to = plan.casts[i].get();
    if (to == Py_None) continue;
    for (std::size_t k = 0; k < i; ++k)  // h + h is cast once
      if (cast[k] && call.operands[k] == call.operands[i]) cast[i] = cast[k];
    if (!cast[i] && !(cast[i] = cast_to(operands[i], to))) return Ref();
    operands[i] = cast[i].get();
  }
  if (plan.writes) {
    static PyObject* out = Py_BuildValue("(s)", "out");
    if (!out) return Ref();
    operands[n] = reinterpret_cast<PyObject*>(call.target);
    const Ref done(PyObject_Vectorcall(plan.function.get(), operands, n, out));
    return done ? Ref::to(Py_None) : Ref();
  }
  if (chained && !plan.widens) {
    result = Ref(PyObject_Vectorcall(plan.chain.get(), operands, n, nullptr));
    if (!result) return result;
  }
  if (!result || result.get() == Py_None)
    result = Ref(PyObject_Vectorcall(plan.function.get(), operands, n, nullptr));
  if (result && !as_ndarray(result.get()))
    result = Ref(PyObject_CallOneArg(registered.asarray, result.get()));
  if (!result) return result;
  PyObject* own = result.as<NDArray>()->descr;
  if (own != plan.result.get()) {
    const int same = PyObject_RichCompareBool(own, plan.result.get(), Py_EQ);
    if (same < 0) return Ref();
    if (!same) result = cast_to(result.get(), plan.cast_result.get());
  }
  return result;
}

// Tells who watches a call of a function of arrays, the method that does the same for them.
bool tell(Plans* self, PyObject* Plans::* method, const char* name, const Call& call,
          PyObject* result) {
  if (!trace->on_host || trace->within) return true;
  if (!(self->*method) &&
      !(self->*method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(self), name)))
    return false;
  SeenCall seen{Ref::to(self->*method), {}, {}, Ref::to(result), Contents::result};
  if (call.target) seen.args.push_back(Ref::to(reinterpret_cast<PyObject*>(call.target)));
  for (Py_ssize_t i = 0; i < call.n; ++i) seen.args.push_back(Ref::to(call.operands[i]));
  trace->calls.push_back(std::move(seen));
  return true;
}

// plans(*inputs) -> Tensor, or None where that is not ours
PyObject* plans_call(PyObject* object, PyObject* const* args, std::size_t flagged,
                     PyObject* names) {
  auto* self = reinterpret_cast<Plans*>(object);
  if (names) return PyErr_Format(PyExc_TypeError, "inputs have no names");
  Call call{args, PyVectorcall_NARGS(flagged)};
  if (!call.read()) Py_RETURN_NONE;
  const auto plan = find_plan(self, call);
  if (!plan) return nullptr;
  if (!call.fits(*plan)) Py_RETURN_NONE;
  const Ref array = compute(call, *plan);
  if (!array || (trace && !tell(self, &Plans::computes, "of_arrays", call, array.get())))
    return nullptr;
  return finish_computed(self->op, array.get(), args, call.n, plan->computed.get());
}

// of_arrays(*operands) -> the result's array: what a call did that was watched
PyObject* plans_of_arrays(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  auto* self = reinterpret_cast<Plans*>(object);
  Call call{args, n};
  const auto plan = call.read(true) ? find_plan(self, call) : nullptr;
  if (!plan || !call.fits(*plan))
    return PyErr_Occurred() ? nullptr
                            : PyErr_Format(PyExc_SystemError, "no plan computes these any more");
  return compute(call, *plan).release();
}

// Whether a tensor's memory may be written from inputs without a further look: nobody records that,
// nor has to be asked, no place is several elements, and inputs are the tensor or lie apart.
// -1 with a Python error set.
int may_write(const Tensor* target, const Call& call, const ElementPlan& plan) {
  const NDArray* array = call.target;
  if (target->inference || !array->is_writeable() || !call.broadcasts_to(*array)) return 0;
  if (plan.function &&
      (call.nd != array->nd || call.size != static_cast<Py_ssize_t>(array->size())))
    return 0;
  if (static_cast<Py_ssize_t>(array->size()) >= kShared ||
      std::find(array->strides, array->strides + array->nd, 0) != array->strides + array->nd)
    return 0;
  if (target->shared && is_set(target->shared->lent)) return 0;
  const std::int64_t itemsize = itemsize_of(target->array);
  for (Py_ssize_t i = -1; i < call.n; ++i) {
    Tensor* each = i < 0 ? const_cast<Tensor*>(target) : as_tensor(call.inputs[i]);
    if (!each) continue;
    if (modes.grad_enabled) {
      const int wanted = requires_grad(each);
      if (wanted) return wanted < 0 ? -1 : 0;
    }
    if (each == target || each->array == target->array) continue;
    const NDArray* other = as_ndarray(each->array);
    if (!other || (share_memory(array, other, std::max<std::int64_t>(itemsize, 16)))) return 0;
  }
  return 1;
}

bool put(PyObject* target, PyObject* operand) {
  const QuietScope quiet;
  if (!quiet.entered()) return false;
  const NDArray* array = as_ndarray(operand);
  if (!array) return fill_with(target, operand);
  return host::cast_halves(array, as_ndarray(target)) || copy_into(target, operand);
}

// Computes into an array.  False with a Python error set.
bool write_array(PyObject* target, const Call& call, const ElementPlan& plan) {
  if (!plan.function) return put(target, call.operands[0]);
  const Ref result = compute(call, plan);
  return result && (result.get() == Py_None || copy_into(target, result.get()));
}

// write(target, *inputs) -> whether the result was written into a tensor; else that is not ours
PyObject* plans_write(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  auto* self = reinterpret_cast<Plans*>(object);
  Tensor* target = n >= 2 ? as_tensor(args[0]) : nullptr;
  NDArray* array = target ? plain_array(target) : nullptr;
  if (!array) Py_RETURN_FALSE;
  Call call{args + 1, n - 1, array};
  if (!call.read()) Py_RETURN_FALSE;
  if (!flushed()) return nullptr;  // deferred calls may read what is written then
  const auto plan = find_plan(self, call);
  if (!plan) return nullptr;
  if (!call.fits(*plan)) Py_RETURN_FALSE;
  const int free = may_write(target, call, *plan);
  if (free <= 0) return free < 0 ? nullptr : Py_NewRef(Py_False);
  const Ref kept = Ref::to(target->array);
  if (!write_array(kept.get(), call, *plan)) return nullptr;
  if (!target->shared && !(target->shared = new_shared(array_of(target)))) return nullptr;
  ++target->shared->version;
  if (trace) {
    if (!tell(self, &Plans::writes, "write_arrays", call, Py_None)) return nullptr;
    told_written(args[0]);
  }
  Py_RETURN_TRUE;
}

// write_arrays(target, *operands): what a write did that was watched
PyObject* plans_write_arrays(PyObject* object, PyObject* const* args, Py_ssize_t n) {
  auto* self = reinterpret_cast<Plans*>(object);
  NDArray* target = n >= 2 ? as_ndarray(args[0]) : nullptr;
  if (!target) return PyErr_Format(PyExc_TypeError, "write_arrays(target, *operands)");
  Call call{args + 1, n - 1, target};
  const auto plan = call.read(true) ? find_plan(self, call) : nullptr;
  if (!plan || !call.fits(*plan))
    return PyErr_Occurred() ? nullptr
                            : PyErr_Format(PyExc_SystemError, "no plan computes these any more");
  if (!write_array(args[0], call, *plan)) return nullptr;
  Py_RETURN_NONE;
}

// clear(): what Python decides has changed
PyObject* plans_clear(PyObject* self, PyObject*) {
  reinterpret_cast<Plans*>(self)->known->clear();
  Py_RETURN_NONE;
}

PyObject* plans_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *op, *decide;
  if (!PyArg_ParseTuple(args, "O!O", operator_base_type, &op, &decide)) return nullptr;
  auto* self = reinterpret_cast<Plans*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = plans_call;
  self->op = reinterpret_cast<Operator*>(Py_NewRef(op));
  self->decide = Py_NewRef(decide);
  self->known = new std::vector<std::shared_ptr<const ElementPlan>>;
  return reinterpret_cast<PyObject*>(self);
}

using Fields = Collected<Plans, &Plans::op, &Plans::decide, &Plans::computes, &Plans::writes>;

void plans_dealloc(PyObject* self) {
  delete std::exchange(reinterpret_cast<Plans*>(self)->known, nullptr);
  Fields::dealloc(self);
}

PyMethodDef methods[] = {
    {"write", TRITORCH_FASTCALL(plans_write), "(target, *inputs): whether it was written."},
    {"of_arrays", TRITORCH_FASTCALL(plans_of_arrays), "(*operands): the result's array."},
    {"write_arrays", TRITORCH_FASTCALL(plans_write_arrays),
     "(target, *operands): writes an array."},
    {"clear", plans_clear, METH_NOARGS, "Forgets all plans."},
    {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Plans, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(plans_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(plans_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(Fields::traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(Fields::clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_doc, const_cast<char*>("A pointwise record's calls on the CPU.")},
                       {0, nullptr}};
PyType_Spec spec = {"tritorch._C.ElementPlans", sizeof(Plans), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

}  // namespace

bool add_element_plans(PyObject* module) {
  const Ref type(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "ElementPlans", type.get()) == 0;
}

}  // namespace tritorch::plans
