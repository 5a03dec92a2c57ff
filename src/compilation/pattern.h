// Patterns of the arguments of a followed call, and of its results.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compilation/numbers.h"
#include "ref.h"
#include "tensor/fields.h"

namespace tritorch {

// Tensors of a region carry its number and theirs.
constexpr int kSlotBits = 24;
inline unsigned long long mark_of(unsigned long long serial, int slot) {
  return serial << kSlotBits | static_cast<unsigned>(slot);
}

inline int slot_of(const Tensor* t) { return static_cast<int>(t->mark & ((1u << kSlotBits) - 1)); }

// Sizes and strides (in elements) of a tensor, some of which are dynamic.
struct DynamicLayout {
  std::vector<Expr> shape, strides;

  bool read(PyObject* pair);  // (shape, strides); false with a Python error set
  // The sizes and strides of this run; false where one has no value.
  bool compute(const std::vector<Number>& numbers, std::vector<std::int64_t>& sizes,
               std::vector<std::int64_t>& steps) const;
};

// Sizes from here on may be dynamic: 0 and 1 are as no others.
constexpr std::int64_t kLeastDynamic = 2;

// The properties of a tensor from outside that are compared.
struct InputSpec {
  Ref type, array_type, dtype;
  std::vector<std::int64_t> layout;        // sizes, then strides
  std::unique_ptr<DynamicLayout> dynamic;  // in place of them
  std::int64_t unit = 1;                   // of strides: an ndarray's are bytes
  int device = -1;
  bool needs_grad = false, leaf = false, view = false;
  char inference = 0;

  bool read(Tensor* t);  // false: it is no tensor of a plain array
  // Of a tensor of that type.  numbers: those that are known; its dynamic sizes are added.
  bool fits(Tensor* t, std::vector<Number>& numbers) const;
  bool lies(std::span<const std::int64_t> sizes, std::span<const std::int64_t> steps,
            std::vector<Number>& numbers) const;
};

// Runs walk over the patterns of all their calls, which were elsewhere in between: they are small,
// and those of a call lie side by side.
struct Pattern {
  enum Kind : char {
    slot,      // a tensor that the region knows
    fresh,     // of arguments: one that it meets here; of results: one that is made here
    same,      // this very object
    integer,   // this integer
    real,      // this float, to the bit
    equal,     // an object of the same type that is equal
    sequence,  // a tuple or list of such
    slice,     // one with start, stop, step
    dynamic,   // a dynamic integer or float: it becomes the next of the numbers
    computed,  // an expression of numbers
  } kind = same;
  int number = 0;  // of the slot
  union {
    std::int64_t whole = 0;  // an integer
    double value;            // a float
  };
  Ref object;  // or the type of the sequence, or the Deferred of a tensor that is made here

  struct More;                 // what only some have
  std::unique_ptr<More> more;  // of sequences, slices, dynamic numbers and fresh tensors

  Pattern();
  Pattern(Pattern&&) noexcept;
  ~Pattern();
  bool is_object() const { return kind >= same && kind <= equal; }  // `object` itself fits
  std::span<Pattern> items();
  std::span<const Pattern> items() const;
  More& with_more();
};

struct Pattern::More {
  std::vector<Pattern> items;
  InputSpec input;
  std::unique_ptr<DynamicLayout> layout;  // of a tensor that is made here
  Expr expr;
};

inline Pattern::Pattern() = default;
inline Pattern::Pattern(Pattern&&) noexcept = default;
inline Pattern::~Pattern() = default;
inline std::span<Pattern> Pattern::items() {
  return more ? std::span(more->items) : std::span<Pattern>();
}
inline std::span<const Pattern> Pattern::items() const {
  return more ? std::span<const Pattern>(more->items) : std::span<const Pattern>();
}
inline Pattern::More& Pattern::with_more() {
  if (!more) more = std::make_unique<More>();
  return *more;
}

// The tensors that were met, while arguments are compared: their marks are set for the time, and
// taken back where the comparison fails.
struct Met {
  struct Mark {
    Tensor* tensor;
    unsigned long long before;
  };

  unsigned long long serial;
  int next;  // the slot of the next one that is met
  std::vector<Number>& numbers;
  std::size_t known;
  std::size_t count = 0;
  std::vector<Mark> many = {};  // after the first ones
  Mark few[6];                  // in each call: they are not cleared

  Met(unsigned long long serial, int next, std::vector<Number>& numbers)
      : serial(serial), next(next), numbers(numbers), known(numbers.size()) {}
  Mark& mark(std::size_t i) { return i < std::size(few) ? few[i] : many[i - std::size(few)]; }
  void meet(Tensor* t) {
    if (count >= std::size(few)) many.emplace_back();
    mark(count++) = {t, t->mark};
    t->mark = mark_of(serial, next++);
  }
  void take_back() {
    while (count > 0) {
      const Mark& last = mark(--count);
      last.tensor->mark = last.before;
    }
    many.clear();
    numbers.resize(known);
  }
};

// The pattern of an argument; false, and no error, where there is none.
bool make_pattern(PyObject* argument, Met& met, Pattern& pattern);
bool fits(const Pattern& pattern, PyObject* argument, Met& met);

// A list's items as a sequence of a type: a list, a tuple, a named tuple, a Size.
PyObject* of_type(PyObject* type, Ref list);

// A sequence as its pattern says (a new reference), of what `make_item(pattern)` gives for each.
template <class MakeItem>
PyObject* build_sequence(const Pattern& pattern, MakeItem&& make_item) {
  const std::span<const Pattern> items = pattern.items();
  Ref list(PyList_New(static_cast<Py_ssize_t>(items.size())));
  if (!list) return nullptr;
  for (std::size_t i = 0; i < items.size(); ++i) {
    PyObject* item = make_item(items[i]);
    if (!item) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return of_type(pattern.object.get(), std::move(list));
}

// An argument as the pattern says (a new reference), of tensors by slot.
PyObject* build(const Pattern& pattern, const std::vector<Ref>& values,
                const std::vector<Number>& numbers);

}  // namespace tritorch
