// Dynamic numbers of a region: sizes, integers and floats that differ from run to run, and
// expressions of them.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace tritorch {

struct Number {
  bool real = false;
  std::int64_t whole = 0;  // of an integer, or of a condition: 0 or 1
  double value = 0;        // of a float
};

// A number, or a condition, that is computed of a region's numbers.
class Expr {
 public:
  // Reads ((operation, operand), ...), a program for a stack; false with a Python error set.
  bool read(PyObject* code);
  // An integer, or what a `DynamicNumber` stands for; false with a Python error set.
  bool take(PyObject* object);
  // False where it has no value: a division by zero, an integer that is too large.
  bool compute(const std::vector<Number>& numbers, Number& result) const;
  bool compute(const std::vector<Number>& numbers, std::int64_t& result) const;
  // The index of the number that it is; -1 for all else.
  int symbol() const;
  // True if it ends as a float that was made one: a float among the numbers is written so.
  bool is_real() const { return !parts_.empty() && parts_.back().operation == 'f'; }

 private:
  struct Part {
    char operation;
    std::int64_t whole;
    double value;
  };
  std::vector<Part> parts_;
  std::size_t depth_ = 0;  // of the stack
};

// The expression of a dynamic number in nested data; null for all else.
const Expr* as_dynamic(PyObject* object);

// False, and no error, for what is no number.
bool read_number(PyObject* object, Number& number);
PyObject* number_object(const Number& number);
bool same_number(const Number& a, const Number& b);

bool add_dynamic_number_type(PyObject* module);

}  // namespace tritorch
