#include "distributed/sha256.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace tritorch::distributed {
namespace {

constexpr int kPrimes = 64;

// The first 32 bits of the fractional parts of roots of primes, which is where the standard has
// its constants from.  A long double has 64 bits, of which at most 5 are before the point.
std::array<std::uint32_t, kPrimes> constants(bool cubic) {
  std::array<std::uint32_t, kPrimes> out{};
  int found = 0;
  for (int n = 2; found < kPrimes; ++n) {
    bool prime = true;
    for (int d = 2; d * d <= n; ++d) prime &= n % d != 0;
    if (!prime) continue;
    const long double root =
        cubic ? std::cbrt(static_cast<long double>(n)) : std::sqrt(static_cast<long double>(n));
    out[found++] = static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
  }
  return out;
}

void compress(std::array<std::uint32_t, 8>& state, const unsigned char* block) {
  static const auto k = constants(true);
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const auto a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto s = state;
  for (int i = 0; i < 64; ++i) {
    const auto a = s[0], e = s[4];
    const auto t1 = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                    ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
    const auto t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                    ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

std::string sha256(std::string_view message) {
  static const auto first = constants(false);
  std::array<std::uint32_t, 8> state{};
  for (int i = 0; i < 8; ++i) state[i] = first[i];
  std::string padded(message);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  const std::uint64_t bits = std::uint64_t{message.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift);
  for (std::size_t at = 0; at < padded.size(); at += 64)
    compress(state, reinterpret_cast<const unsigned char*>(padded.data()) + at);
  std::string out;
  for (const std::uint32_t word : state)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(word >> shift);
  return out;
}

std::string hmac(std::string_view secret, std::string_view message) {
  std::string key(secret.size() > 64 ? sha256(secret) : std::string(secret));
  key.resize(64, '\0');
  std::string inner, outer;
  for (const char byte : key) {
    inner += static_cast<char>(byte ^ 0x36);
    outer += static_cast<char>(byte ^ 0x5c);
  }
  return sha256(outer + sha256(inner.append(message)));
}

bool same(std::string_view a, std::string_view b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  if (getrandom(out.data(), count, 0) != static_cast<ssize_t>(count))
    throw std::runtime_error("no random bytes");
  return out;
}

}  // namespace tritorch::distributed
