// Note [The samplers]: a sampler turns a fixed number of words of the stream into a number of its
// own type: float32 from one word, float64 from two, integers.  They do so block by block, in
// memory that stays in the cache, and another loop converts a block to the dtype that is wanted, as
// PyTorch's casts do: by way of float32 to what is narrower.  A further sampler is a line of
// `draw`.
//
// Because the number of words is fixed, the stream can be split: where a number takes long, threads
// begin at the words that their part starts with, and what is drawn does not depend on them.
//
// Functions of float64 are the C library's, which are PyTorch's too.  They are slow, so a quicker
// one serves where its error cannot show: where the result is rounded to float32 and not close to
// where that turns, and where its own last bit is certain.  All else asks the C library.
#include "random/samplers.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "random/convert.h"
#include "random/kernels.h"

namespace tritorch::random {
namespace {

constexpr std::size_t kBlock = 1024;        // numbers; a multiple of 16
constexpr std::size_t kParallel = 1 << 14;  // numbers that take long, from which threads pay
constexpr double kTurn = 6.283185307179586;
constexpr double kPi = 3.141592653589793;

template <class T>
constexpr DType kDTypeOf = std::is_same_v<T, float>          ? DType::float32
                           : std::is_same_v<T, double>       ? DType::float64
                           : std::is_same_v<T, std::int64_t> ? DType::int64
                                                             : DType::uint8;

char* at(const Target& target, std::size_t index) {
  return static_cast<char*>(target.data) + index * item_size(target.dtype);
}

// ---- blocks -------------------------------------------------------------------------------------

// Numbers [low, high) of a target, from the engine's next words.
template <class Natural, class Block>
void fill_part(Mt19937& engine, const Target& target, std::size_t low, std::size_t high,
               std::size_t words_each, const Block& block) {
  std::uint32_t words[2 * kBlock];
  Natural values[kBlock];
  for (; low < high; low += kBlock) {
    const std::size_t count = std::min(kBlock, high - low);
    engine.fill(words, count * words_each);
    if (target.dtype == kDTypeOf<Natural>) {
      block(words, reinterpret_cast<Natural*>(at(target, low)), count);
    } else {
      block(words, values, count);
      convert(values, target.dtype, at(target, low), count);
    }
  }
}

enum Cost { cheap, dear };

// block(words, out, n) for all of the target.
template <class Natural, class Block>
void fill(Mt19937& engine, const Target& target, std::size_t words_each, Cost cost,
          const Block& block) {
  const std::size_t blocks = (target.size + kBlock - 1) / kBlock;
  const std::size_t parts =
      cost == dear && target.size >= kParallel
          ? std::clamp<std::size_t>(static_cast<std::size_t>(target.threads), 1, blocks)
          : 1;
  if (parts == 1) return fill_part<Natural>(engine, target, 0, target.size, words_each, block);
  const std::size_t share = (blocks + parts - 1) / parts * kBlock;
  const auto end_of = [&](std::size_t part) { return std::min(target.size, (part + 1) * share); };
  std::vector<std::thread> threads;
  Mt19937 first = engine;
  for (std::size_t part = 0; part < parts && part * share < target.size; ++part) {
    if (part > 0)
      threads.emplace_back([&, part, start = engine]() mutable {
        fill_part<Natural>(start, target, part * share, end_of(part), words_each, block);
      });
    engine.discard((end_of(part) - part * share) * words_each);
  }
  fill_part<Natural>(first, target, 0, end_of(0), words_each, block);
  for (std::thread& thread : threads) thread.join();
}

// ---- uniform numbers ----------------------------------------------------------------------------

void fill_uniform(Mt19937& engine, const Target& target, double low, double high) {
  if (target.dtype == DType::float64)
    return fill<double>(engine, target, 2, cheap,
                        [=](const std::uint32_t* words, double* out, std::size_t n) {
                          kernels().uniform64(words, out, n, low, high);
                        });
  const Narrow narrow = target.dtype == DType::float16    ? Narrow::float16
                        : target.dtype == DType::bfloat16 ? Narrow::bfloat16
                                                          : Narrow::none;
  fill<float>(engine, target, 1, cheap, [=](const std::uint32_t* words, float* out, std::size_t n) {
    kernels().uniform32(words, out, n, static_cast<float>(low), static_cast<float>(high), narrow);
  });
}

void fill_bernoulli(Mt19937& engine, const Target& target, double p) {
  // u < p for a fraction u of 53 bits: its numerator is below p 2^53, rounded up.
  const auto threshold = static_cast<std::uint64_t>(std::ceil(p * 0x1p53));
  fill<std::uint8_t>(engine, target, 2, cheap,
                     [=](const std::uint32_t* words, std::uint8_t* out, std::size_t n) {
                       kernels().below(words, out, n, threshold);
                     });
}

// ---- normal numbers -----------------------------------------------------------------------------

// Box and Muller's numbers of radii and angles, each pair's in place of what it was made of.  Sines
// and cosines are the C library's, which is asked where it might differ from our own.
void to_normal(double* radii, double* angles, std::size_t n) {
  double sines[kBlock], cosines[kBlock], sine_doubt[kBlock], cosine_doubt[kBlock];
  kernels().turn(angles, sines, cosines, sine_doubt, cosine_doubt, n);
  for (std::size_t i = 0; i < n; ++i) {
    if (cosine_doubt[i] != 0) cosines[i] = std::cos(angles[i]);
    if (sine_doubt[i] != 0) sines[i] = std::sin(angles[i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    angles[i] = radii[i] * sines[i];
    radii[i] *= cosines[i];
  }
}

struct Pair {
  double first, second;
};

// The two of one pair of uniform numbers where normal ones are drawn one by one.
Pair normal_pair(double angle, double radius) {
  const double r = std::sqrt(-2.0 * std::log1p(-radius)), theta = kTurn * angle;
  return {r * std::cos(theta), r * std::sin(theta)};
}

// normal_pair of many pairs, in place.
void by_pairs(double* values, std::size_t n) {
  double radii[kBlock / 2], angles[kBlock / 2];
  for (std::size_t i = 0; i < n / 2; ++i) angles[i] = kTurn * values[2 * i];
  for (std::size_t i = 0; i < n / 2; ++i) radii[i] = std::log1p(-values[2 * i + 1]);
  for (std::size_t i = 0; i < n / 2; ++i) radii[i] = std::sqrt(-2.0 * radii[i]);
  to_normal(radii, angles, n / 2);
  for (std::size_t i = 0; i < n / 2; ++i) {
    values[2 * i] = radii[i];
    values[2 * i + 1] = angles[i];
  }
}

// The same, times std plus mean, for results that are rounded to float32: where a few units of
// float64 could decide how, it is done exactly.
void by_pairs_for_floats(double* values, std::size_t n, double mean, double std) {
  double uniform[kBlock], angles[kBlock / 2], chances[kBlock / 2], radii[kBlock / 2];
  double sines[kBlock / 2], cosines[kBlock / 2], unread[2][kBlock / 2];
  std::copy(values, values + n, uniform);
  for (std::size_t i = 0; i < n / 2; ++i) {
    angles[i] = kTurn * uniform[2 * i];
    chances[i] = uniform[2 * i + 1];
  }
  kernels().log_rest(chances, radii, n / 2);
  kernels().turn(angles, sines, cosines, unread[0], unread[1], n / 2);
  for (std::size_t i = 0; i < n / 2; ++i) {
    const double r = std::sqrt(-2.0 * radii[i]);
    values[2 * i] = r * cosines[i];
    values[2 * i + 1] = r * sines[i];
  }
  kernels().affine(values, n, std, mean);
  for (std::size_t i = 0; i < n; ++i) {
    const double unsure = 0x1p-48 * (std::fabs(values[i]) + std::fabs(mean));
    if (static_cast<float>(values[i] - unsure) == static_cast<float>(values[i] + unsure)) continue;
    const Pair pair = normal_pair(uniform[i & ~std::size_t{1}], uniform[i | 1]);
    values[i] = std::fma(i & 1 ? pair.second : pair.first, std, mean);
  }
}

// finish(normal numbers, n) for all of the target, in pairs; the generator keeps what is left over.
template <class Numbers, class Finish>
void fill_pairs(Generator& generator, Target target, const Numbers& numbers, const Finish& finish) {
  const auto put = [&](std::size_t index, double value) {
    finish(&value, 1);
    convert(&value, target.dtype, at(target, index), 1);
  };
  if (target.size > 0 && generator.normal) {
    put(0, *std::exchange(generator.normal, std::nullopt));
    target.data = at(target, 1);
    --target.size;
  }
  const bool odd = target.size % 2 != 0;
  Target even = target;
  even.size -= odd;
  fill<double>(generator.engine, even, 2, dear,
               [&](const std::uint32_t* words, double* out, std::size_t n) {
                 kernels().uniform64(words, out, n, 0, 1);
                 numbers(out, n);
               });
  if (odd) put(target.size - 1, normal(generator));
}

void fill_normal_by_pairs(Generator& generator, const Target& target, double mean, double std) {
  const auto finish = [=](double* x, std::size_t n) { kernels().affine(x, n, std, mean); };
  if (target.dtype == DType::float64)
    fill_pairs(
        generator, target,
        [&](double* x, std::size_t n) {
          by_pairs(x, n);
          finish(x, n);
        },
        finish);
  else
    fill_pairs(
        generator, target, [=](double* x, std::size_t n) { by_pairs_for_floats(x, n, mean, std); },
        finish);
}

void fill_log_normal(Generator& generator, const Target& target, double mean, double std) {
  const auto finish = [=](double* x, std::size_t n) {
    kernels().affine(x, n, std, mean);
    for (std::size_t i = 0; i < n; ++i) x[i] = std::exp(x[i]);
  };
  fill_pairs(
      generator, target,
      [&](double* x, std::size_t n) {
        by_pairs(x, n);
        finish(x, n);
      },
      finish);
}

// Groups of 16 uniform numbers, of which the first eight give radii.
void box_muller(double* values, std::size_t n, double mean, double std) {
  double radii[kBlock / 2], angles[kBlock / 2];
  const auto place = [](std::size_t i) { return i / 8 * 16 + i % 8; };
  for (std::size_t i = 0; i < n / 2; ++i) {
    radii[i] = std::sqrt(-2.0 * std::log(1.0 - values[place(i)]));
    angles[i] = kTurn * values[place(i) + 8];
  }
  to_normal(radii, angles, n / 2);
  for (std::size_t i = 0; i < n / 2; ++i) {
    values[place(i)] = radii[i];
    values[place(i) + 8] = angles[i];
  }
  kernels().affine(values, n, std, mean);
}

// Sixteen at a time; what is left over is made, with the ones before it, of 16 further words.
void fill_normal(Generator& generator, const Target& target, double mean, double std) {
  Mt19937& engine = generator.engine;
  const std::size_t rest = target.size % 16;
  Target whole = target, last = target;
  whole.size -= rest;
  last.data = at(target, target.size - 16);
  last.size = 16;
  const bool wide = target.dtype == DType::float64;
  const auto fill_groups = [&](const Target& part) {
    if (wide)
      fill<double>(engine, part, 2, dear,
                   [=](const std::uint32_t* words, double* out, std::size_t n) {
                     kernels().uniform64(words, out, n, 0, 1);
                     box_muller(out, n, mean, std);
                   });
    else
      fill<float>(
          engine, part, 1, cheap, [=](const std::uint32_t* words, float* out, std::size_t n) {
            kernels().uniform32(words, out, n, 0, 1, Narrow::none);
            kernels().box_muller(out, n / 16, static_cast<float>(mean), static_cast<float>(std));
          });
  };
  fill_groups(whole);
  if (rest == 0) return;
  // PyTorch first draws the whole of a float32 or float64 tensor.
  if (wide || target.dtype == DType::float32) engine.discard(rest * (wide ? 2 : 1));
  fill_groups(last);
}

// ---- other distributions ------------------------------------------------------------------------

// function(values, n) of uniform numbers in [0, 1) of 53 bits, in place.
template <class Function>
void fill_by(Mt19937& engine, const Target& target, const Function& function) {
  fill<double>(engine, target, 2, dear,
               [&](const std::uint32_t* words, double* out, std::size_t n) {
                 kernels().uniform64(words, out, n, 0, 1);
                 function(out, n);
               });
}

void fill_cauchy(Mt19937& engine, const Target& target, double median, double sigma) {
  fill_by(engine, target, [=](double* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) x[i] = std::tan(kPi * (x[i] - 0.5));
    kernels().affine(x, n, sigma, median);
  });
}

void fill_exponential(Mt19937& engine, const Target& target, double rate) {
  const double scale = -1.0 / rate;
  if (target.dtype == DType::float64)
    return fill_by(engine, target, [=](double* x, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) x[i] = scale * std::log1p(-x[i]);
    });
  fill_by(engine, target, [=](double* x, std::size_t n) {
    double logs[kBlock];
    kernels().log_rest(x, logs, n);
    for (std::size_t i = 0; i < n; ++i) {
      const double value = scale * logs[i], unsure = 0x1p-48 * value;
      const bool sure = static_cast<float>(value - unsure) == static_cast<float>(value + unsure);
      x[i] = sure ? value : scale * std::log1p(-x[i]);
    }
  });
}

void fill_geometric(Mt19937& engine, const Target& target, double p) {
  const double rate = std::log1p(-p);
  fill_by(engine, target, [=](double* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) x[i] = std::ceil(std::log(x[i]) / rate);
  });
}

}  // namespace

double uniform(Generator& generator) {
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 53) - 1;
  return static_cast<double>(generator.engine.next64() & kFraction) * 0x1p-53;
}

double normal(Generator& generator) {
  if (generator.normal) return *std::exchange(generator.normal, std::nullopt);
  const double angle = uniform(generator), radius = uniform(generator);
  const Pair pair = normal_pair(angle, radius);
  generator.normal = pair.second;
  return pair.first;
}

void draw(Generator& generator, std::string_view name, const Target& target, double p, double q) {
  Mt19937& engine = generator.engine;
  if (name == "uniform") return fill_uniform(engine, target, p, q);
  if (name == "bernoulli") return fill_bernoulli(engine, target, p);
  if (name == "normal" && target.size >= 16) return fill_normal(generator, target, p, q);
  if (name == "normal" || name == "normal_by_pairs")
    return fill_normal_by_pairs(generator, target, p, q);
  if (name == "log_normal") return fill_log_normal(generator, target, p, q);
  if (name == "cauchy") return fill_cauchy(engine, target, p, q);
  if (name == "exponential") return fill_exponential(engine, target, p);
  if (name == "geometric") return fill_geometric(engine, target, p);
  throw std::invalid_argument("there is no sampler " + std::string(name));
}

void draw_integers(Generator& generator, const Target& target, std::uint64_t range,
                   std::uint64_t base, bool wide) {
  fill<std::int64_t>(generator.engine, target, wide ? 2 : 1, cheap,
                     [=](const std::uint32_t* words, std::int64_t* out, std::size_t n) {
                       if (range == 0)
                         for (std::size_t i = 0; i < n; ++i)
                           out[i] = static_cast<std::int64_t>(
                               static_cast<std::uint64_t>(words[2 * i]) << 32 | words[2 * i + 1]);
                       else if (wide)
                         kernels().modulo64(words, out, n, range, base);
                       else
                         kernels().modulo32(words, out, n, range, base);
                     });
}

void draw_bernoulli(Generator& generator, const Target& target, const double* probabilities) {
  fill<std::uint8_t>(generator.engine, target, 2, cheap,
                     [&](const std::uint32_t* words, std::uint8_t* out, std::size_t n) {
                       double values[kBlock];
                       kernels().uniform64(words, values, n, 0, 1);
                       for (std::size_t i = 0; i < n; ++i) out[i] = values[i] < probabilities[i];
                       probabilities += n;
                     });
}

void draw_bernoulli(Generator& generator, const Target& target, const float* probabilities) {
  fill<std::uint8_t>(generator.engine, target, 1, cheap,
                     [&](const std::uint32_t* words, std::uint8_t* out, std::size_t n) {
                       float values[kBlock];
                       kernels().uniform32(words, values, n, 0, 1, Narrow::none);
                       for (std::size_t i = 0; i < n; ++i) out[i] = values[i] < probabilities[i];
                       probabilities += n;
                     });
}

namespace {

template <class T>
void slopes(Generator& generator, const T* x, T* out, std::size_t n, double low, double high) {
  for (std::size_t i = 0; i < n; ++i)
    out[i] = x[i] <= T{0} ? static_cast<T>(uniform(generator) * (high - low) + low) : T{1};
}

}  // namespace

void draw_slopes(Generator& generator, const double* x, double* out, std::size_t n, double low,
                 double high) {
  slopes(generator, x, out, n, low, high);
}

void draw_slopes(Generator& generator, const float* x, float* out, std::size_t n, double low,
                 double high) {
  slopes(generator, x, out, n, low, high);
}

}  // namespace tritorch::random
