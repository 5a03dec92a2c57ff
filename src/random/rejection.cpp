#include "random/rejection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "random/samplers.h"

namespace tritorch::random {
namespace {

// ---- Poisson ------------------------------------------------------------------------------------

// Products of uniform numbers until they fall below exp(-rate).
double poisson_by_products(Generator& generator, double rate) {
  const double least = std::exp(-rate);
  std::int64_t count = 0;
  for (double product = uniform(generator); product > least; product *= uniform(generator)) ++count;
  return static_cast<double>(count);
}

// Hoermann's PTRS (1993): a ratio of uniform numbers, transformed, under a hat.
double poisson_by_rejection(Generator& generator, double rate) {
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), box = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = uniform(generator) - 0.5, v = uniform(generator);
    const double us = 0.5 - std::fabs(u);
    const auto count = static_cast<std::int64_t>(std::floor((2 * a / us + b) * u + rate + 0.43));
    const auto k = static_cast<double>(count);
    if (us >= 0.07 && v <= box) return k;
    if (count < 0 || (us < 0.013 && v > us)) continue;
    const double ratio = std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b);
    if (ratio <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
  }
}

// ---- gamma --------------------------------------------------------------------------------------

// Marsaglia and Tsang's method (2000); a shape below 1 is raised by 1 and paid for by a power.
template <class T>
double gamma(Generator& generator, T shape) {
  double scale = 1;
  if (shape < 1) {
    if (shape == 0) return 0;
    scale = std::pow(1 - uniform(generator), static_cast<double>(1.0f / shape));
    shape += T{1};
  }
  const double d = shape - 1.0f / 3.0f, c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    double x, y;
    do {
      x = normal(generator);
      y = 1.0 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - uniform(generator), square = x * x;
    if (u < 1.0 - static_cast<double>(0.0331f) * square * square) return scale * d * v;
    if (std::log(u) < 0.5 * square + d * (1.0 - v + std::log(v))) return scale * d * v;
  }
}

// ---- binomial -----------------------------------------------------------------------------------

// What Stirling's formula leaves of log(k!).
double stirling_rest(double k) {
  static constexpr double kRests[] = {
      0.0810614667953272,  0.0413406959554092,  0.0276779256849983, 0.02079067210376509,
      0.0166446911898211,  0.0138761288230707,  0.0118967099458917, 0.0104112652619720,
      0.00925546218271273, 0.00833056343336287,
  };
  if (k < std::size(kRests)) return kRests[static_cast<std::size_t>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

// The trials between successes are geometrically distributed.
template <class T>
T binomial_by_gaps(Generator& generator, T count, T chance) {
  const double rate = std::log1p(-chance);
  T successes = 0;
  for (double trials = 0;;) {
    trials += std::ceil(std::log(uniform(generator)) / rate);
    if (trials > count) return successes;
    successes += 1;
  }
}

// Hoermann's BTRS (1993).
template <class T>
T binomial_by_rejection(Generator& generator, T count, T chance) {
  const double deviation = std::sqrt(count * chance * (1 - chance));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * chance;
  const double c = count * chance + 0.5, box = 0.92 - 4.2 / b, odds = chance / (1 - chance);
  const double alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((count + 1) * chance);
  for (;;) {
    const double u = uniform(generator) - 0.5, v = uniform(generator);
    const double us = 0.5 - std::fabs(u);
    const T k = static_cast<T>(std::floor((2 * a / us + b) * u + c));
    if (k < 0 || k > count) continue;
    if (us >= 0.07 && v <= box) return k;
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) +
                         stirling_rest(mode) + stirling_rest(count - mode) - stirling_rest(k) -
                         stirling_rest(count - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

template <class T>
T binomial_of_rare(Generator& generator, T count, T chance) {
  return count * chance >= 10 ? binomial_by_rejection(generator, count, chance)
                              : binomial_by_gaps(generator, count, chance);
}

template <class T>
T binomial(Generator& generator, T count, T chance) {
  if (std::isnan(count)) return count;  // PyTorch draws for ever
  if (count <= 0 || chance <= 0) return 0;
  if (chance >= 1) return count;
  if (chance <= 0.5) return binomial_of_rare(generator, count, chance);
  if (chance > 0.5) return count - binomial_of_rare(generator, count, static_cast<T>(1.0 - chance));
  return std::numeric_limits<T>::quiet_NaN();
}

}  // namespace

void draw_poisson(Generator& generator, const double* rates, double* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double rate = rates[i];
    if (!(rate >= 0))
      throw std::invalid_argument("invalid Poisson rate, expected rate to be non-negative");
    out[i] = rate >= 10  ? poisson_by_rejection(generator, rate)
             : rate == 0 ? 0
                         : poisson_by_products(generator, rate);
  }
}

template <class T>
void draw_gamma(Generator& generator, const T* shapes, T* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = std::max(std::numeric_limits<T>::min(), static_cast<T>(gamma(generator, shapes[i])));
}

template <class T>
void draw_binomial(Generator& generator, const T* counts, const T* chances, T* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = binomial(generator, counts[i], chances[i]);
}

template void draw_gamma(Generator&, const float*, float*, std::size_t);
template void draw_gamma(Generator&, const double*, double*, std::size_t);
template void draw_binomial(Generator&, const float*, const float*, float*, std::size_t);
template void draw_binomial(Generator&, const double*, const double*, double*, std::size_t);

}  // namespace tritorch::random
