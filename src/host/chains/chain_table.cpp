// Note [Tables]
// A function of arrays and numbers has a chain for each set of dtypes and numbers that it meets.  A
// table finds it: arrays are told apart by their dtypes, and by whether they are walked along the
// last dim or repeated; numbers by type and bits, so that zeros have signs.  What is met first,
// `missing` of the subclass makes, or says that there is no chain.
#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "host/chains/chain_run.h"
#include "ref.h"
#include "tensor/ndarray.h"

namespace tritorch::chains {
namespace {

constexpr int kDense = 0x101;  // NumPy's flags of what is in C's order and aligned
constexpr std::size_t kMost = 256, kMostOperands = 8;
constexpr Py_ssize_t kLarge = 1 << 15;  // elements from which rows that are shared pay
constexpr Py_ssize_t kRow = 32;         // elements of a row that pays

// What tells an operand from others.
struct Word {
  const void* type;  // an array's dtype, or a number's type
  std::uint64_t bits;
  bool operator==(const Word&) const = default;
};
struct Key {
  Word words[kMostOperands];
  std::size_t count = 0;

  void add(const Word& word) { words[count++] = word; }
  bool operator==(const Key& other) const {
    return count == other.count && std::equal(words, words + count, other.words);
  }
};

struct Entry {
  Key key;
  std::vector<Ref> types;  // so that no other has their addresses
  Ref chain, dtype;        // or nothing
};

struct Table {
  PyObject_HEAD vectorcallfunc call;
  std::vector<Entry>* entries;
};

// How operands that broadcast lie: rows of up to 3 dims.
struct Layout {
  Py_ssize_t sizes[3] = {1, 1, 1};
  std::vector<Walk> walks;
  std::vector<bool> walked;
};

// The operands of a call.
class Operands {
 public:
  // False if no chain takes them.
  bool read(PyObject* const* args, std::size_t n) {
    if (n > kMostOperands) return false;
    for (std::size_t i = 0; i < n; ++i) {
      if (NDArray* array = as_ndarray(args[i])) {
        if ((array->flags & kDense) != kDense) return false;
        if (!whole_ || array->size() > whole_->size()) whole_ = array;
        arrays_[count_++] = array;
        key_.add({array->descr, 1});
      } else if (!read_number(args[i])) {
        return false;
      }
    }
    if (!whole_ || !whole_->nd) return false;
    for (std::size_t i = 0; i < count_; ++i) broadcast_ = broadcast_ || !is_like(*arrays_[i]);
    return !broadcast_ || lay_out();
  }

  const Key& key() const { return key_; }

  // The dtypes and types that words name.
  std::vector<Ref> types() const {
    std::vector<Ref> found;
    for (std::size_t i = 0; i < key_.count; ++i)
      found.push_back(Ref::to(static_cast<PyObject*>(const_cast<void*>(key_.words[i].type))));
    return found;
  }

  // For each array, whether it is walked along the last dim.
  PyObject* walked() const {
    PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(count_));
    for (std::size_t i = 0; made && i < count_; ++i)
      PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i),
                       PyBool_FromLong(!broadcast_ || layout_.walked[i]));
    return made;
  }

  // The result; null with a Python error set.
  PyObject* compute(Body& body, PyObject* dtype) {
    if (body.arrays != static_cast<int>(count_) + 1)
      return PyErr_Format(PyExc_SystemError, "the chain takes %d arrays", body.arrays);
    Ref result(new_array(whole_->nd, whole_->dimensions, dtype));
    if (!result) return nullptr;
    char* out = result.as<NDArray>()->data;
    bool good = true;
    if (broadcast_) {
      if (!whole_->is_empty()) {
        const Py_ssize_t item = item_of(body, body.arrays - 1);
        const Py_ssize_t* sizes = layout_.sizes;
        for (std::size_t i = 0; i < count_; ++i) scale(body, i);
        layout_.walks.push_back({out, sizes[1] * sizes[2] * item, sizes[2] * item});
        good = run_walks(body, layout_.walks, layout_.sizes);
      }
    } else {
      char* data[kMostOperands + 1];
      for (std::size_t i = 0; i < count_; ++i) data[i] = arrays_[i]->data;
      data[count_] = out;
      good = run_dense(body, data, 0, static_cast<Py_ssize_t>(whole_->size()));
    }
    return Ref(outcome(good)) ? result.release() : nullptr;
  }

 private:
  bool read_number(PyObject* given) {
    Word word{Py_TYPE(given), 0};
    if (PyFloat_CheckExact(given)) {
      const double number = PyFloat_AS_DOUBLE(given);
      std::memcpy(&word.bits, &number, sizeof number);
    } else if (PyLong_CheckExact(given) || PyBool_Check(given)) {
      int overflow = 0;
      word.bits = static_cast<std::uint64_t>(PyLong_AsLongLongAndOverflow(given, &overflow));
      if (overflow) return false;
    } else {
      return false;
    }
    key_.add(word);
    return true;
  }

  bool is_like(const NDArray& array) const {
    return array.nd == whole_->nd &&
           std::equal(array.dimensions, array.dimensions + array.nd, whole_->dimensions);
  }

  // The size of a dim of the whole's that an array has.
  Py_ssize_t size_of(const NDArray& array, int dim) const {
    const int at = dim - (whole_->nd - array.nd);
    return at < 0 ? 1 : array.dimensions[at];
  }

  // Puts together dims that the same arrays have; false if rows are short, or more than 3 dims are
  // left, or shapes do not broadcast to the whole.
  bool lay_out() {
    if (static_cast<Py_ssize_t>(whole_->size()) < kLarge) return false;
    const std::size_t count = count_;
    std::vector<std::vector<bool>> patterns;
    std::vector<Py_ssize_t> merged;
    for (int dim = 0; dim < whole_->nd; ++dim) {
      const Py_ssize_t n = whole_->dimensions[dim];
      std::vector<bool> has(count);
      for (std::size_t i = 0; i < count; ++i) {
        if (arrays_[i]->nd > whole_->nd) return false;
        has[i] = size_of(*arrays_[i], dim) == n;
        if (!has[i] && size_of(*arrays_[i], dim) != 1) return false;
      }
      if (n == 1) continue;
      if (!patterns.empty() && patterns.back() == has) {
        merged.back() *= n;
      } else {
        merged.push_back(n);
        patterns.push_back(std::move(has));
      }
    }
    if (merged.empty() || merged.size() > 3 || merged.back() < kRow) return false;
    std::copy(merged.begin(), merged.end(), layout_.sizes + 3 - merged.size());
    layout_.walked = patterns.back();
    for (std::size_t i = 0; i < count; ++i) {
      Walk walk{arrays_[i]->data};  // strides in elements
      Py_ssize_t step = 1, steps[3] = {0, 0, 0};
      for (std::size_t k = merged.size(); k-- > 0;)
        if (patterns[k][i]) {
          steps[3 - merged.size() + k] = step;
          step *= merged[k];
        }
      walk.outer = steps[0], walk.inner = steps[1];
      layout_.walks.push_back(walk);
    }
    for (std::size_t i = 0, at = 0; i < key_.count && at < count; ++i)
      if (key_.words[i].type == arrays_[at]->descr)
        key_.words[i].bits = layout_.walked[at++] ? 2 : 3;
    return true;
  }

  static Py_ssize_t item_of(const Body& body, int array) {
    for (const Place& place : body.places)
      if (place.array == array) return place.itemsize;
    return 0;
  }

  void scale(const Body& body, std::size_t i) {
    const Py_ssize_t item = item_of(body, static_cast<int>(i));
    layout_.walks[i].outer *= item;
    layout_.walks[i].inner *= item;
  }

  NDArray* arrays_[kMostOperands];
  std::size_t count_ = 0;
  NDArray* whole_ = nullptr;
  Key key_;
  bool broadcast_ = false;
  Layout layout_;
};

// What `missing` makes: (chain, dtype), None for no chain, or NotImplemented if that may change.
// The entry is kept but in the last case; false with a Python error set.
bool make(Table& self, PyObject* const* args, std::size_t n, const Operands& operands,
          Entry& entry) {
  const Ref values(PyTuple_New(static_cast<Py_ssize_t>(n)));
  if (!values) return false;
  for (std::size_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  const Ref walked(operands.walked());
  if (!walked) return false;
  const Ref held(PyObject_CallMethod(reinterpret_cast<PyObject*>(&self), "missing", "OO",
                                     values.get(), walked.get()));
  if (!held) return false;
  PyObject* made = held.get();
  if (made == Py_NotImplemented) return true;
  entry.key = operands.key();
  entry.types = operands.types();
  PyObject *chain = nullptr, *dtype = nullptr;
  if (made != Py_None) {
    if (!PyArg_ParseTuple(made, "O!O", chain_type, &chain, &dtype)) return false;
    entry.chain = Ref::to(chain);
    entry.dtype = Ref::to(dtype);
  }
  if (self.entries->size() >= kMost) self.entries->clear();
  self.entries->push_back(entry);
  return true;
}

// table(*operands): the result, or None if there is no chain
PyObject* table_call(PyObject* self, PyObject* const* args, size_t flagged, PyObject*) {
  Table& table = *reinterpret_cast<Table*>(self);
  const auto n = static_cast<std::size_t>(PyVectorcall_NARGS(flagged));
  Operands operands;
  if (!operands.read(args, n)) Py_RETURN_NONE;
  Entry made;
  const Entry* found = nullptr;
  for (std::size_t i = table.entries->size(); !found && i-- > 0;)
    if ((*table.entries)[i].key == operands.key()) found = &(*table.entries)[i];
  if (!found) {
    if (!make(table, args, n, operands, made)) return nullptr;
    found = &made;
  }
  const Ref chain = found->chain, dtype = found->dtype;  // while others may change the table
  if (!chain) Py_RETURN_NONE;
  return operands.compute(*reinterpret_cast<Chain*>(chain.get())->body, dtype.get());
}

PyObject* table_new(PyTypeObject* type, PyObject*, PyObject*) {
  auto* self = reinterpret_cast<Table*>(type->tp_alloc(type, 0));
  if (!self) return nullptr;
  self->call = table_call;
  self->entries = new std::vector<Entry>;
  return reinterpret_cast<PyObject*>(self);
}

void table_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<Table*>(self)->entries;
  type->tp_free(self);
  Py_DECREF(type);
}

int table_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  return 0;
}

PyObject* table_count(PyObject* self, void*) {
  return PyLong_FromSize_t(reinterpret_cast<Table*>(self)->entries->size());
}

PyMemberDef table_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Table, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef table_getters[] = {
    {"count", table_count, nullptr, "How many sets of operands are known.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot table_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(table_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(table_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(table_traverse)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_members, table_members},
    {Py_tp_getset, table_getters},
    {Py_tp_doc, const_cast<char*>("A function's chains, by dtypes and numbers.")},
    {0, nullptr}};
PyType_Spec table_spec = {
    "tritorch._C.ChainTable", sizeof(Table), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    table_slots};

}  // namespace

bool add_table_type(PyObject* module) {
  const Ref type(PyType_FromSpec(&table_spec));
  return type && PyModule_AddObjectRef(module, "ChainTable", type.get()) == 0 &&
         PyModule_AddIntConstant(module, "LARGE_FOR_CHAINS", kLarge) == 0;
}

}  // namespace tritorch::chains
