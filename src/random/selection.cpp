#include "random/selection.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "random/convert.h"

namespace tritorch::random {
namespace {

constexpr std::size_t kBlock = 1024;

// Exchanges each number with one of those from it on, which one word chooses.
template <class T>
void shuffle(Mt19937& engine, T* numbers, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<T>(i);
  std::uint32_t words[kBlock];
  for (std::size_t low = 0; low + 1 < n; low += kBlock) {
    const std::size_t count = std::min(kBlock, n - 1 - low);
    engine.fill(words, count);
    for (std::size_t i = 0; i < count; ++i) {
      words[i] %= static_cast<std::uint32_t>(n - low - i);
      __builtin_prefetch(numbers + low + i + words[i], 1);
    }
    for (std::size_t i = 0; i < count; ++i)
      std::swap(numbers[low + i], numbers[low + i + words[i]]);
  }
}

// The same where one word could not choose evenly: each number takes the place of one before it.
void shuffle_many(Mt19937& engine, std::int64_t* numbers, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto place = static_cast<std::size_t>(engine.next64() % (i + 1));
    numbers[i] = numbers[place];
    numbers[place] = static_cast<std::int64_t>(i);
  }
}

}  // namespace

void draw_permutation(Generator& generator, const Target& target) {
  const std::size_t n = target.size;
  if (n >= std::numeric_limits<std::uint32_t>::max() / 20) {
    std::vector<std::int64_t> numbers(n);
    shuffle_many(generator.engine, numbers.data(), n);
    return convert(numbers.data(), target.dtype, target.data, n);
  }
  if (target.dtype == DType::int32)
    return shuffle(generator.engine, static_cast<std::int32_t*>(target.data), n);
  std::vector<std::int32_t> numbers(n);
  shuffle(generator.engine, numbers.data(), n);
  convert(numbers.data(), target.dtype, target.data, n);
}

template <class T>
void draw_by_weight(Generator& generator, const T* weights, std::size_t rows,
                    std::size_t categories, std::int64_t* out, std::size_t samples) {
  std::vector<T> edges(categories);
  for (std::size_t row = 0; row < rows; ++row, weights += categories) {
    T sum = 0;
    for (std::size_t i = 0; i < categories; ++i) edges[i] = sum += weights[i];
    for (T& edge : edges) edge /= sum;
    edges.back() = 1;
    for (std::size_t i = 0; i < samples; ++i)
      *out++ = std::lower_bound(edges.begin(), edges.end(), uniform(generator),
                                [](T edge, double u) { return edge < u; }) -
               edges.begin();
  }
}

template <class T>
void largest(const T* values, std::size_t rows, std::size_t categories, std::int64_t* out,
             std::size_t samples) {
  using Item = std::pair<T, std::int64_t>;
  const auto before = [](const Item& a, const Item& b) {
    return (a.first != a.first && b.first == b.first) || a.first > b.first;
  };
  std::vector<Item> items(categories);
  const auto begin = items.begin(), last = begin + static_cast<std::ptrdiff_t>(samples) - 1;
  for (std::size_t row = 0; row < rows; ++row, values += categories) {
    for (std::size_t i = 0; i < categories; ++i)
      items[i] = {values[i], static_cast<std::int64_t>(i)};
    if (samples * 64 <= categories) {
      std::partial_sort(begin, last + 1, items.end(), before);
    } else {
      std::nth_element(begin, last, items.end(), before);
      std::sort(begin, last, before);
    }
    for (std::size_t i = 0; i < samples; ++i) *out++ = items[i].second;
  }
}

template void draw_by_weight(Generator&, const float*, std::size_t, std::size_t, std::int64_t*,
                             std::size_t);
template void draw_by_weight(Generator&, const double*, std::size_t, std::size_t, std::int64_t*,
                             std::size_t);
template void largest(const float*, std::size_t, std::size_t, std::int64_t*, std::size_t);
template void largest(const double*, std::size_t, std::size_t, std::int64_t*, std::size_t);

}  // namespace tritorch::random
