// The generator's stream and state, and that both builds of the kernels give the same bits.
#include <cmath>
#include <cstring>
#include <vector>

#include "random/kernels.h"
#include "random/samplers.h"
#include "tests/cpp/check.h"

using namespace tritorch;
using namespace tritorch::random;

namespace {

constexpr std::size_t kCount = 40'000;

std::vector<std::uint32_t> words(std::uint64_t seed, std::size_t n) {
  std::vector<std::uint32_t> out(n);
  Mt19937(seed).fill(out.data(), n);
  return out;
}

std::vector<double> uniform_numbers() {
  const auto given = words(3, 2 * kCount);
  std::vector<double> out(kCount);
  kernels().uniform64(given.data(), out.data(), kCount, 0, 1);
  return out;
}

#if defined(__x86_64__)
bool both_builds_run() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// Whether make(kernels, out) gives the same bytes with both.
template <class T, class Make>
bool same_bits(std::size_t n, const Make& make) {
  if (!both_builds_run()) return true;
  std::vector<T> first(n), second(n);
  make(fused::kernels, first.data());
  make(plain::kernels, second.data());
  return std::memcmp(first.data(), second.data(), n * sizeof(T)) == 0;
}
#endif

}  // namespace

TEST(the_stream_is_the_mersenne_twisters) {
  const auto out = words(5489, 10'000);
  CHECK_EQ(out[0], 3499211612u);
  CHECK_EQ(out[9999], 4123659995u);
  Mt19937 one(5489), other(5489);
  for (std::size_t i = 0; i < 10'000; ++i) CHECK_EQ(one.next(), out[i]);
  other.discard(9'999);
  CHECK_EQ(other.next(), out[9999]);
}

TEST(a_state_restores_its_place) {
  for (std::size_t drawn : {0, 1, 623, 624, 625, 2000}) {
    Generator generator(7), twin(8);
    generator.engine.discard(drawn);
    if (drawn % 2) generator.normal = 0.25;
    char state[Generator::kStateBytes], again[Generator::kStateBytes];
    generator.get_state(state);
    twin.set_state(state);
    twin.get_state(again);
    CHECK(std::memcmp(state, again, sizeof state) == 0);
    CHECK_EQ(normal(twin), normal(generator));
    CHECK_EQ(twin.engine.next(), generator.engine.next());
  }
}

TEST(what_is_no_state_is_refused) {
  Generator generator(7);
  const std::vector<char> nothing(Generator::kStateBytes);
  CHECK_THROWS(generator.set_state(nothing.data()), std::invalid_argument);
}

TEST(threads_do_not_change_what_is_drawn) {
  for (const char* name : {"normal", "normal_by_pairs", "log_normal", "cauchy", "exponential"})
    for (DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
      const std::size_t bytes = kCount * item_size(dtype);
      std::vector<char> alone(bytes), shared(bytes);
      Generator one(5), other(5);
      draw(one, name, {alone.data(), dtype, kCount, 1}, 1.5, 2.5);
      draw(other, name, {shared.data(), dtype, kCount, 3}, 1.5, 2.5);
      CHECK(alone == shared);
      CHECK_EQ(one.engine.next(), other.engine.next());
    }
}

TEST(quick_functions_are_the_c_librarys_where_they_are_certain) {
  std::vector<double> angles = uniform_numbers(), sines(kCount), cosines(kCount);
  std::vector<double> sine_doubt(kCount), cosine_doubt(kCount);
  for (double& angle : angles) angle *= 6.283185307179586;
  for (int i = 0; i < 64; ++i) angles[i] = i * 3.141592653589793 / 32;
  kernels().turn(angles.data(), sines.data(), cosines.data(), sine_doubt.data(),
                 cosine_doubt.data(), kCount);
  std::size_t certain = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (sine_doubt[i] == 0) CHECK_EQ(sines[i], std::sin(angles[i]));
    if (cosine_doubt[i] == 0) CHECK_EQ(cosines[i], std::cos(angles[i]));
    certain += sine_doubt[i] == 0;
  }
  CHECK(certain > kCount * 8 / 10);
  const std::vector<double> u = uniform_numbers();
  std::vector<double> logs(kCount);
  kernels().log_rest(u.data(), logs.data(), kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    CHECK(std::fabs(logs[i] - std::log1p(-u[i])) <= 0x1p-50 * std::fabs(logs[i]));
}

#if defined(__x86_64__)
TEST(both_builds_give_the_same_bits) {
  const auto given = words(9, 2 * kCount);
  const auto fractions = uniform_numbers();
  CHECK(same_bits<std::uint32_t>(624, [&](const Kernels& k, std::uint32_t* out) {
    std::copy(given.begin(), given.begin() + 624, out);
    k.twist(out);
  }));
  CHECK(same_bits<std::uint32_t>(
      kCount, [&](const Kernels& k, std::uint32_t* out) { k.temper(given.data(), out, kCount); }));
  for (Narrow narrow : {Narrow::none, Narrow::float16, Narrow::bfloat16})
    CHECK(same_bits<float>(kCount, [&](const Kernels& k, float* out) {
      k.uniform32(given.data(), out, kCount, -2.5f, 3.3f, narrow);
    }));
  CHECK(same_bits<double>(kCount, [&](const Kernels& k, double* out) {
    k.uniform64(given.data(), out, kCount, -2.5, 3.3);
  }));
  CHECK(same_bits<std::int64_t>(kCount, [&](const Kernels& k, std::int64_t* out) {
    k.modulo64(given.data(), out, kCount, 12'345'678'901'234, 5);
  }));
  CHECK(same_bits<float>(kCount, [&](const Kernels& k, float* out) {
    k.uniform32(given.data(), out, kCount, 0, 1, Narrow::none);
    k.box_muller(out, kCount / 16, 1.5f, 0.7f);
  }));
  CHECK(same_bits<double>(4 * kCount, [&](const Kernels& k, double* out) {
    k.turn(fractions.data(), out, out + kCount, out + 2 * kCount, out + 3 * kCount, kCount);
  }));
  CHECK(same_bits<double>(kCount, [&](const Kernels& k, double* out) {
    k.log_rest(fractions.data(), out, kCount);
    k.affine(out, kCount, 1.1, 0.3);
  }));
  CHECK(same_bits<std::uint16_t>(2 * kCount, [&](const Kernels& k, std::uint16_t* out) {
    std::vector<float> values(kCount);
    std::memcpy(values.data(), given.data(), kCount * sizeof(float));  // of any bits
    k.to_float16(values.data(), out, kCount);
    k.to_bfloat16(values.data(), out + kCount, kCount);
  }));
}

TEST(remainders_are_exact) {
  const auto given = words(4, 2'000);
  for (std::uint64_t range : {1ull, 2ull, 3ull, 105ull, 268'435'455ull, 268'435'456ull,
                              4'294'967'297ull, 9'223'372'036'854'775'809ull, ~0ull}) {
    std::int64_t out[1'000];
    kernels().modulo64(given.data(), out, 1'000, range, 0);
    for (std::size_t i = 0; i < 1'000; ++i) {
      const auto word = static_cast<std::uint64_t>(given[2 * i]) << 32 | given[2 * i + 1];
      CHECK_EQ(static_cast<std::uint64_t>(out[i]), word % range);
    }
  }
}
#endif
