#include "array/order.h"

#include <algorithm>
#include <numeric>

namespace tritorch {
namespace {

using Ints = std::vector<std::int64_t>;
using Span = std::span<const std::int64_t>;

// Dims from the innermost to the outermost.
using Order = std::vector<std::size_t>;

// least: what a dim counts at least; outside of a dim of no elements strides are 0 or not.
Ints strides_in(const Order& order, Span shape, std::int64_t least = 1) {
  Ints strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t dim : order) {
    strides[dim] = step;
    step *= std::max(shape[dim], least);
  }
  return strides;
}

Order row_major(std::size_t ndim) {
  Order order(ndim);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

Order channels_last(std::size_t ndim = 4) {
  return ndim == 4 ? Order{1, 3, 2, 0} : Order{1, 4, 3, 2, 0};
}

// Whether strides are taken for channels_last, which dims of size one leave open.
bool looks_channels_last(const Lie& x) {
  const std::size_t ndim = x.shape.size();
  if ((ndim != 4 && ndim != 5) || x.strides[1] == 0) return false;
  std::int64_t least = 0;
  for (std::size_t dim : channels_last(ndim)) {
    if (x.shape[dim] == 0 || x.strides[dim] < least) return false;
    if (dim == 0 && least == x.strides[1]) return false;
    least = x.strides[dim] * std::max<std::int64_t>(x.shape[dim], 1);
  }
  return true;
}

// Whether strides are those of a dense array in an order; dims of size one may have any.
bool lies_in(const Lie& x, const Order& order) {
  std::int64_t step = x.unit;
  for (std::size_t dim : order) {
    if (x.shape[dim] < 2) continue;
    if (x.strides[dim] != step) return false;
    step *= x.shape[dim];
  }
  return true;
}

bool dense_without_overlap(const Lie& x) {
  if (std::ranges::count(x.shape, 0) > 0) return true;
  Order order = row_major(x.shape.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (x.shape[a] < 2) return false;
    return x.shape[b] < 2 || x.strides[a] < x.strides[b];
  });
  return lies_in(x, order);
}

// -1: dim a lies inside of b; 1: the other way round; 0: nothing tells.
int compare(Span shape, std::span<const Ints> strides, std::size_t a, std::size_t b) {
  for (const Ints& each : strides) {
    if (each[a] == 0 || each[b] == 0) continue;
    if (each[a] != each[b]) return each[a] < each[b] ? -1 : 1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

// An insertion sort, because what `compare` says is no total order.
Order sorted(Span shape, std::span<const Ints> strides) {
  Order order = row_major(shape.size());
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::size_t moving = i;
    for (std::size_t j = i; j-- > 0;) {
      int found = compare(shape, strides, order[j], order[moving]);
      if (found < 0) break;
      if (found == 0) continue;
      std::swap(order[j], order[moving]);
      moving = j;
    }
  }
  return order;
}

}  // namespace

std::vector<std::int64_t> result_strides(Span shape, std::span<const Lie> operands, bool numbers) {
  const std::size_t ndim = shape.size();
  const auto whole = [&](const Lie& x) { return std::ranges::equal(x.shape, shape); };
  if (operands.empty()) return strides_in(row_major(ndim), shape);
  if ((!numbers || ndim == 0) && std::ranges::all_of(operands, whole)) {
    const auto all_in = [&](const Order& order) {
      return std::ranges::all_of(operands, [&](const Lie& x) { return lies_in(x, order); });
    };
    const bool nothing = std::ranges::count(shape, 0) > 0;
    if (nothing || all_in(row_major(ndim))) return strides_in(row_major(ndim), shape);
    if (ndim == 4 && all_in(channels_last())) return strides_in(channels_last(), shape);
    const Lie& first = operands.front();
    const auto alike = [&](const Lie& x) {
      for (std::size_t dim = 0; dim < ndim; ++dim)
        if (x.strides[dim] * first.unit != first.strides[dim] * x.unit) return false;
      return true;
    };
    if (std::ranges::all_of(operands, alike) && dense_without_overlap(first)) {
      Ints strides(first.strides.begin(), first.strides.end());
      for (std::int64_t& stride : strides) stride /= first.unit;
      return strides;
    }
  }
  std::vector<Ints> strides;
  for (const Lie& x : operands) {
    Ints& each = strides.emplace_back(ndim, 0);
    const std::size_t lead = ndim - x.shape.size();
    for (std::size_t dim = 0; dim < x.shape.size(); ++dim)
      if (x.shape[dim] == shape[lead + dim]) each[lead + dim] = x.strides[dim];
  }
  const Order order = sorted(shape, strides);
  return strides_in(order, shape, order == row_major(ndim) ? 1 : 0);
}

std::vector<std::int64_t> format_strides(Span shape, std::span<const Lie> operands, bool one) {
  const std::size_t ndim = shape.size();
  std::size_t fitting = 0, last_ones = 0;
  for (const Lie& x : operands) {
    if (x.shape.size() != ndim) continue;
    ++fitting;
    last_ones += looks_channels_last(x);
  }
  const bool last = last_ones > 0 && (one || last_ones == fitting);
  return last ? strides_in(channels_last(ndim), shape, 0) : strides_in(row_major(ndim), shape);
}

std::vector<std::int64_t> column_major_strides(Span shape) {
  const std::size_t ndim = shape.size();
  Ints strides = strides_in(row_major(ndim), shape);
  if (ndim < 2) return strides;
  strides[ndim - 1] = std::max<std::int64_t>(shape[ndim - 2], 1);
  strides[ndim - 2] = 1;
  return strides;
}

std::vector<std::int64_t> copy_strides(const Lie& x) {
  Ints strides(x.strides.begin(), x.strides.end());
  for (std::int64_t& stride : strides) stride /= x.unit;
  if (dense_without_overlap(x)) return strides;
  return strides_in(sorted(x.shape, std::span(&strides, 1)), x.shape);
}

bool strictly_row_major(const Lie& x) {
  std::int64_t step = x.unit;
  for (std::size_t dim = x.shape.size(); dim-- > 0; step *= std::max<std::int64_t>(x.shape[dim], 1))
    if (x.strides[dim] != step) return false;
  return true;
}

}  // namespace tritorch
