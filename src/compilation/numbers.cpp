#include "compilation/numbers.h"

#include <structmember.h>

#include <cmath>
#include <cstddef>
#include <cstring>

#include "ref.h"

namespace tritorch {
namespace {

PyTypeObject* dynamic_type = nullptr;

struct DynamicNumber {
  PyObject_HEAD PyObject* code;
  PyObject* text;
  Expr* expr;
};

constexpr char kArguments[] = "+-*/%dmM=!<,>.&|";  // operations of two operands, "d": floors
constexpr std::int64_t kExact = std::int64_t{1} << 53;

bool is_binary(char operation) {
  return operation && std::strchr(kArguments, operation) != nullptr;
}

bool as_double(const Number& n, double& value) {
  if (!n.real && (n.whole > kExact || n.whole < -kExact)) return false;
  value = n.real ? n.value : static_cast<double>(n.whole);
  return true;
}

std::int64_t floored(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

bool compute_whole(char operation, std::int64_t a, std::int64_t b, std::int64_t& r) {
  switch (operation) {
    case '+':
      return !__builtin_add_overflow(a, b, &r);
    case '-':
      return !__builtin_sub_overflow(a, b, &r);
    case '*':
      return !__builtin_mul_overflow(a, b, &r);
    case 'd':
    case '%':
      if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
      r = floored(a, b);
      if (operation == '%') r = a - r * b;
      return true;
    case 'm':
      r = a < b ? a : b;
      return true;
    case 'M':
      r = a > b ? a : b;
      return true;
    case '=':
      r = a == b;
      return true;
    case '!':
      r = a != b;
      return true;
    case '<':
      r = a < b;
      return true;
    case ',':
      r = a <= b;
      return true;
    case '>':
      r = a > b;
      return true;
    case '.':
      r = a >= b;
      return true;
    case '&':
      r = a && b;
      return true;
    case '|':
      r = a || b;
      return true;
    default:
      return false;
  }
}

bool compute_real(char operation, double a, double b, Number& r) {
  const auto real = [&](double value) {
    r = {true, 0, value};
    return true;
  };
  const auto condition = [&](bool holds) {
    r = {false, holds, 0};
    return true;
  };
  switch (operation) {
    case '+':
      return real(a + b);
    case '-':
      return real(a - b);
    case '*':
      return real(a * b);
    case '/':
      return b != 0 && real(a / b);
    case '=':
      return condition(a == b);
    case '!':
      return condition(a != b);
    case '<':
      return condition(a < b);
    case ',':
      return condition(a <= b);
    case '>':
      return condition(a > b);
    case '.':
      return condition(a >= b);
    default:
      return false;
  }
}

bool compute_binary(char operation, const Number& a, const Number& b, Number& r) {
  if (!a.real && !b.real && operation != '/') {
    r = {};
    return compute_whole(operation, a.whole, b.whole, r.whole);
  }
  double x, y;
  return as_double(a, x) && as_double(b, y) && compute_real(operation, x, y, r);
}

}  // namespace

bool Expr::read(PyObject* code) {
  parts_.clear();
  std::size_t depth = 0;
  bool good = PyTuple_Check(code);
  for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(code); ++i) {
    const char* operation;
    PyObject* operand;
    if (!PyArg_ParseTuple(PyTuple_GET_ITEM(code, i), "sO", &operation, &operand)) return false;
    Part part{operation[0], 0, 0};
    if (part.operation == 'n' || part.operation == 'i') {
      part.whole = PyLong_AsLongLong(operand);
    } else if (part.operation == 'r') {
      part.value = PyFloat_AsDouble(operand);
    }
    if (PyErr_Occurred()) return false;
    if (is_binary(part.operation))
      good = depth-- >= 2;
    else if (part.operation && std::strchr("nir", part.operation))
      ++depth;
    else
      good = std::strchr("f~N", part.operation) && depth >= 1;
    depth_ = std::max(depth_, depth);
    parts_.push_back(part);
  }
  if (good && depth == 1) return true;
  PyErr_SetString(PyExc_ValueError, "no program of numbers");
  return false;
}

bool Expr::take(PyObject* object) {
  if (const Expr* dynamic = as_dynamic(object)) {
    *this = *dynamic;
    return true;
  }
  const std::int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) return false;
  parts_ = {{'i', value, 0}};
  depth_ = 1;
  return true;
}

bool Expr::compute(const std::vector<Number>& numbers, Number& result) const {
  if (parts_.size() == 1 && parts_[0].operation == 'i') {
    result = {false, parts_[0].whole, 0};
    return true;
  }
  Number few[16];
  std::vector<Number> many(depth_ > 16 ? depth_ : 0);
  Number* stack = depth_ > 16 ? many.data() : few;
  std::size_t top = 0;
  for (const Part& part : parts_) {
    switch (part.operation) {
      case 'n':
        if (part.whole < 0 || static_cast<std::size_t>(part.whole) >= numbers.size()) return false;
        stack[top++] = numbers[static_cast<std::size_t>(part.whole)];
        break;
      case 'i':
        stack[top++] = {false, part.whole, 0};
        break;
      case 'r':
        stack[top++] = {true, 0, part.value};
        break;
      case 'f': {
        Number& n = stack[top - 1];
        double value;
        if (!as_double(n, value)) return false;
        n = {true, 0, value};
        break;
      }
      case '~':
        stack[top - 1] = {false, !stack[top - 1].whole, 0};
        break;
      case 'N': {
        Number& n = stack[top - 1];
        n.whole = -n.whole;
        n.value = -n.value;
        break;
      }
      default: {
        Number r;
        if (!compute_binary(part.operation, stack[top - 2], stack[top - 1], r)) return false;
        stack[--top - 1] = r;
      }
    }
  }
  result = stack[0];
  return true;
}

bool Expr::compute(const std::vector<Number>& numbers, std::int64_t& result) const {
  Number n;
  if (!compute(numbers, n) || n.real) return false;
  result = n.whole;
  return true;
}

int Expr::symbol() const {
  const bool alone = parts_.size() == 1 || (parts_.size() == 2 && is_real());
  return alone && parts_[0].operation == 'n' ? static_cast<int>(parts_[0].whole) : -1;
}

const Expr* as_dynamic(PyObject* object) {
  return Py_TYPE(object) == dynamic_type ? reinterpret_cast<DynamicNumber*>(object)->expr : nullptr;
}

bool read_number(PyObject* object, Number& number) {
  if (PyFloat_CheckExact(object)) {
    number = {true, 0, PyFloat_AS_DOUBLE(object)};
    return true;
  }
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  number = {false, PyLong_AsLongLongAndOverflow(object, &overflow), 0};
  return !overflow;
}

PyObject* number_object(const Number& number) {
  return number.real ? PyFloat_FromDouble(number.value) : PyLong_FromLongLong(number.whole);
}

bool same_number(const Number& a, const Number& b) {
  return a.real == b.real && a.whole == b.whole &&
         std::memcmp(&a.value, &b.value, sizeof a.value) == 0;
}

namespace {

// DynamicNumber(code, text)
PyObject* dynamic_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *code, *text;
  if (!PyArg_ParseTuple(args, "O!U", &PyTuple_Type, &code, &text)) return nullptr;
  Ref made(type->tp_alloc(type, 0));
  auto* dynamic = made.as<DynamicNumber>();
  if (!dynamic) return nullptr;
  dynamic->code = Py_NewRef(code);
  dynamic->text = Py_NewRef(text);
  dynamic->expr = new Expr;
  return dynamic->expr->read(code) ? made.release() : nullptr;
}

void dynamic_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* dynamic = reinterpret_cast<DynamicNumber*>(self);
  Py_CLEAR(dynamic->code);
  Py_CLEAR(dynamic->text);
  delete dynamic->expr;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* dynamic_repr(PyObject* self) {
  return Py_NewRef(reinterpret_cast<DynamicNumber*>(self)->text);
}

PyObject* dynamic_compare(PyObject* self, PyObject* other, int how) {
  if (Py_TYPE(other) != dynamic_type || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyObject_RichCompare(reinterpret_cast<DynamicNumber*>(self)->code,
                              reinterpret_cast<DynamicNumber*>(other)->code, how);
}

Py_hash_t dynamic_hash(PyObject* self) {
  return PyObject_Hash(reinterpret_cast<DynamicNumber*>(self)->code);
}

PyObject* dynamic_index(PyObject* self) {
  return PyErr_Format(PyExc_TypeError, "%U is a dynamic number",
                      reinterpret_cast<DynamicNumber*>(self)->text);
}

// of(numbers) -> the number
PyObject* dynamic_of(PyObject* self, PyObject* sequence) {
  const Ref fast(PySequence_Fast(sequence, "expected a sequence of numbers"));
  if (!fast) return nullptr;
  std::vector<Number> numbers(static_cast<std::size_t>(PySequence_Fast_GET_SIZE(fast.get())));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    read_number(PySequence_Fast_ITEMS(fast.get())[i], numbers[i]);
  Number result;
  if (!reinterpret_cast<DynamicNumber*>(self)->expr->compute(numbers, result))
    return PyErr_Format(PyExc_ArithmeticError, "%U has no value",
                        reinterpret_cast<DynamicNumber*>(self)->text);
  return number_object(result);
}

PyMethodDef dynamic_methods[] = {{"of", dynamic_of, METH_O, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};
PyMemberDef dynamic_members[] = {
    {"code", T_OBJECT, offsetof(DynamicNumber, code), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot dynamic_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(dynamic_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dynamic_dealloc)},
    {Py_tp_repr, reinterpret_cast<void*>(dynamic_repr)},
    {Py_tp_richcompare, reinterpret_cast<void*>(dynamic_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(dynamic_hash)},
    {Py_tp_methods, dynamic_methods},
    {Py_tp_members, dynamic_members},
    {Py_nb_index, reinterpret_cast<void*>(dynamic_index)},  // it may stand in a size
    {Py_tp_doc, const_cast<char*>("A number that differs between runs of a compiled function.")},
    {0, nullptr}};
PyType_Spec dynamic_spec = {"tritorch._C.DynamicNumber", sizeof(DynamicNumber), 0,
                            Py_TPFLAGS_DEFAULT, dynamic_slots};

}  // namespace

bool add_dynamic_number_type(PyObject* module) {
  dynamic_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&dynamic_spec));
  return dynamic_type && PyModule_AddObjectRef(module, "DynamicNumber",
                                               reinterpret_cast<PyObject*>(dynamic_type)) == 0;
}

}  // namespace tritorch
