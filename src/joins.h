// How two numbers, or two vectors of them, become one in a reduction, for each of NumPy's
// functions.
#pragma once

namespace tritorch {

struct Add {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return a + b;
  }
};
struct Multiply {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    return a * b;
  }
};
// The first that is NaN is kept.
struct Larger {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    V least = a < b ? b : a;
    return b == b ? least : b;
  }
};
struct Less {
  template <class V>
  [[gnu::always_inline]] V operator()(V a, V b) const {
    V least = a > b ? b : a;
    return b == b ? least : b;
  }
};

}  // namespace tritorch
