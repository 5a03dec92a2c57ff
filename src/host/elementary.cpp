// Note [Elementary functions]
// NumPy's loops for exp and tanh of float32 are vectors on some machines and single numbers on
// others, those for expm1 and log1p single numbers on all, and activations are up to twelve of
// them. Here each is one loop of arithmetic that compilers make vectors of, without fused products,
// so its bits are the same on every machine, wherever an element lies.  They are ufuncs, as
// NumPy's, and so steps of chains.  Errors are at most 2.5 units in the last place.  Both sides
// of choices may be computed, so flags of floating point errors say nothing.
//
// erf and erfc of float64 are the C library's.
#include "host/elementary.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "host/functions.h"
#include "host/gamma.h"
#include "host/inverse.h"
#include "ref.h"
#include "widest.h"

namespace tritorch::host {
namespace {

#define TRITORCH_INLINE [[gnu::always_inline]] static inline

constexpr float kInfinity = __builtin_inff();

TRITORCH_INLINE float as_float(std::uint32_t x) { return std::bit_cast<float>(x); }
TRITORCH_INLINE std::uint32_t as_bits(float x) { return std::bit_cast<std::uint32_t>(x); }
TRITORCH_INLINE float absolute(float x) { return as_float(as_bits(x) & 0x7fffffffu); }
// A number without a sign, with that of another.
TRITORCH_INLINE float with_sign(float x, float other) {
  return as_float(as_bits(x) | (as_bits(other) & 0x80000000u));
}
TRITORCH_INLINE float at_most(float x, float high) { return x > high ? high : x; }  // or NaN
TRITORCH_INLINE float at_least(float x, float low) { return x < low ? low : x; }

// The first coefficient is that of the highest power.  What of it is even and what is odd are
// computed side by side: few numbers wait for one another then.
template <class... More>
TRITORCH_INLINE float polynomial(float x, float first, float second, More... more) {
  const float square = x * x;
  float total[] = {first, second};
  int i = 0;
  ((total[i] = total[i] * square + more, i ^= 1), ...);
  return total[i] * x + total[i ^ 1];
}

TRITORCH_INLINE float power_of_two(std::int32_t n) {
  return as_float(static_cast<std::uint32_t>(n + 127) << 23);
}

// e^x = 2^n (1 + r + rest), |r| <= log(2) / 2; for n of at most 22 bits.
struct Reduced {
  std::int32_t n;
  float r, rest;
};

TRITORCH_INLINE Reduced reduced(float x) {
  constexpr float kRounds = 0x1.8p23f;  // a sum with it has no fraction
  const float shifted = x * 1.44269504f + kRounds, n = shifted - kRounds;
  const float high = x - n * 0.693359375f, low = n * -2.12194440e-4f;  // log(2) in two parts
  const float r = high - low, lost = (high - r) - low;
  const float q = polynomial(r, 0.001394667f, 0.0083667105f, 0.04166628f, 0.16666542f, 0.5f);
  return {static_cast<std::int32_t>(as_bits(shifted) - as_bits(kRounds)), r, r * r * q + lost};
}

// Of numbers up to 89.  In two factors, of which the second may leave the range of normal numbers.
TRITORCH_INLINE float exp_of_less(float x) {
  const Reduced e = reduced(at_least(x, -104.0f));
  const std::int32_t half = e.n >> 1;
  return (1.0f + (e.r + e.rest)) * power_of_two(half) * power_of_two(e.n - half);
}

TRITORCH_INLINE float exp_of(float x) { return exp_of_less(at_most(x, 89.0f)); }

// scale e^x - scale 2^-n, without cancellation.
TRITORCH_INLINE float scaled_expm1(const Reduced& e, float scale, float one) {
  return ((scale - one) + scale * e.r) + scale * e.rest;
}

TRITORCH_INLINE float expm1_of(float x) {
  const Reduced e = reduced(at_least(at_most(x, 89.0f), -20.0f));
  const float y = 2.0f * scaled_expm1(e, power_of_two(e.n - 1), 0.5f);  // its half is in range
  return x == 0.0f ? x : e.n == 0 ? e.r + e.rest : y;  // while halves may be inexact
}

TRITORCH_INLINE float tanh_of(float x) {
  const float size = at_most(absolute(x), 10.0f), square = size * size;
  const Reduced e = reduced(2.0f * size);
  const float y = scaled_expm1(e, power_of_two(e.n), 1.0f);
  const float small = size + size * square *
                                 polynomial(square, -0.0060451651f, 0.020961329f, -0.053843263f,
                                            0.13332719f, -0.33333328f);
  return with_sign(square < 0.390625f ? small : y / (y + 2.0f), x);
}

// 1 / (1 + e^-x), however small.
TRITORCH_INLINE float sigmoid_of(float x) {
  const float e = exp_of_less(-absolute(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// log(x 2^-scaled) + lost, small, of a positive normal number.
TRITORCH_INLINE float log_of_normal(float x, std::int32_t scaled, float lost = 0.0f) {
  const std::uint32_t from_root = as_bits(x) - 0x3f3504f3u;  // sqrt(1/2)
  const std::int32_t n = static_cast<std::int32_t>(from_root) >> 23;
  const float f = as_float((from_root & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float p = polynomial(f, -0.07860067f, 0.12885906f, -0.13130431f, 0.14180692f, -0.1662435f,
                             0.20002303f, -0.25000817f, 0.33333316f);
  const float square = f * f, whole = static_cast<float>(n - scaled);
  const float rest = (whole * -2.12194440e-4f + lost) + square * f * p;
  return (f + (rest - 0.5f * square)) + whole * 0.693359375f;
}

TRITORCH_INLINE float log_of(float x) {
  const bool small = x < 0x1p-126f;
  const float y = log_of_normal(small ? x * 0x1p23f : x, small ? 23 : 0);
  const float edge = x == 0.0f ? -kInfinity : x < 0.0f ? __builtin_nanf("") : x;  // 0, inf, NaN
  return x > 0.0f && x < kInfinity ? y : edge;
}

// The sum's rounding is made good.
TRITORCH_INLINE float log1p_of(float x) {
  const float y = 1.0f + x;
  const float found = log_of_normal(y, 0, (x - (y - 1.0f)) / y);
  const float edge = x == -1.0f ? -kInfinity : x < -1.0f ? __builtin_nanf("") : x;
  return x > -1.0f && x < kInfinity && x != 0.0f ? found : edge;
}

// 1 - e^p(x) from where it is large enough; below, a polynomial.
TRITORCH_INLINE float erf_of(float x) {
  const float size = at_most(absolute(x), 4.0f), square = size * size;
  const float small = polynomial(square, -5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f,
                                 0.112819925f, -0.376125336f, 0.128379166f);
  const float p = polynomial(size, -1.72853470e-5f, 3.83197126e-4f, -3.88396438e-3f, 2.42546219e-2f,
                             -0.106777877f, -0.634846687f, -0.128717512f);
  const float large = 1.0f - exp_of_less(p * size - size);
  return with_sign(size > 0.927734375f ? large : size + small * size, x);
}

// The normal distribution function: 1/2 and an odd polynomial near 0; below e^(-x^2 / 2) q(u),
// u = 1 / (1 + 0.3 |x|).  Far below 0 it loses what rounding x^2 / 2 does, some units; 1 + erf, as
// elsewhere, loses all digits.
TRITORCH_INLINE float normal_of(float x) {
  const float size = at_most(absolute(x), 14.5f), u = 1.0f / (1.0f + 0.3f * size);
  const float q = u * polynomial(u, -0.02095602424f, 0.114257453f, -0.2325244073f, 0.1975505846f,
                                 -0.08421348152f, 0.09871138235f, 0.07751790108f, 0.1104184111f,
                                 0.1195504315f, 0.1196877477f);
  const float square = size * size, below = exp_of_less(-0.5f * square) * q;
  const float odd = x * polynomial(square, 0.000102968438f, -0.00118131686f, 0.00997236033f,
                                   -0.0664902963f, 0.398942279f);
  return size < 0.75f ? 0.5f + odd : x < 0.0f ? below : 1.0f - below;
}

// Each function, of a number.
#define TRITORCH_FUNCTION(Name, value)                  \
  struct Name {                                         \
    TRITORCH_INLINE float of(float x) { return value; } \
  };
TRITORCH_FUNCTION(Exp, exp_of(x))
TRITORCH_FUNCTION(Expm1, expm1_of(x))
TRITORCH_FUNCTION(Log, log_of(x))
TRITORCH_FUNCTION(Log1p, log1p_of(x))
TRITORCH_FUNCTION(Tanh, tanh_of(x))
TRITORCH_FUNCTION(Sigmoid, sigmoid_of(x))
TRITORCH_FUNCTION(Erf, erf_of(x))
TRITORCH_FUNCTION(Normal, normal_of(x))
#undef TRITORCH_FUNCTION

// ---- loops --------------------------------------------------------------------------------------

using Loop = void (*)(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*);

constexpr Py_ssize_t kBlock = 256;

template <class F>
TRITORCH_INLINE void compute(const float* in, float* out, Py_ssize_t n) {
#pragma GCC ivdep
  for (Py_ssize_t i = 0; i < n; ++i) out[i] = F::of(in[i]);
}

// An array that lies otherwise goes through memory that is dense.
template <class F>
TRITORCH_INLINE void walk(char** data, Py_ssize_t n, const Py_ssize_t* by) {
  if (by[0] == sizeof(float) && by[1] == sizeof(float))
    return compute<F>(reinterpret_cast<float*>(data[0]), reinterpret_cast<float*>(data[1]), n);
  alignas(64) float block[kBlock];
  for (Py_ssize_t low = 0; low < n; low += kBlock) {
    const Py_ssize_t count = std::min(kBlock, n - low);
    for (Py_ssize_t i = 0; i < count; ++i)
      block[i] = *reinterpret_cast<const float*>(data[0] + (low + i) * by[0]);
    compute<F>(block, block, count);
    for (Py_ssize_t i = 0; i < count; ++i)
      *reinterpret_cast<float*>(data[1] + (low + i) * by[1]) = block[i];
  }
}

template <class F>
void plain(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*) {
  walk<F>(data, *n, by);
}
#if defined(__x86_64__) && defined(__GNUC__)
template <class F>
[[gnu::target("avx2")]] void wider(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*) {
  walk<F>(data, *n, by);
}
template <class F>
[[gnu::target("avx512f")]] void widest(char** data, const Py_ssize_t* n, const Py_ssize_t* by,
                                       void*) {
  walk<F>(data, *n, by);
}
template <class F>
Loop chosen() {
  if (chosen_cpu == Cpu::avx512) return widest<F>;
  return chosen_cpu == Cpu::avx2 ? wider<F> : plain<F>;
}
#else
template <class F>
Loop chosen() {
  return plain<F>;
}
#endif

// A function of the C library.
template <double (*Function)(double)>
void by_library(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*) {
  for (Py_ssize_t i = 0; i < *n; ++i)
    *reinterpret_cast<double*>(data[1] + i * by[1]) =
        Function(*reinterpret_cast<const double*>(data[0] + i * by[0]));
}

// ---- ufuncs -------------------------------------------------------------------------------------

// As NumPy's ABI has fixed it since 1.0.
struct Ufunc {
  PyObject_HEAD int nin, nout, nargs, identity;
  Loop* functions;
  void* const* data;
  int ntypes, reserved;
  const char* name;
  const char* types;
};
constexpr char kFloat = static_cast<char>(NDArray::kFloat32);
constexpr char kDouble = static_cast<char>(NDArray::kFloat64);
constexpr int kFromLoops = 1, kNoIdentity = -1;  // an entry of the table of NumPy's functions
using FromLoops = PyObject* (*)(Loop*, void* const*, const char*, int, int, int, int, const char*,
                                const char*, int);

struct Made {
  std::vector<Loop> loops;
  std::vector<void*> data;
  std::vector<char> types;
};

// A ufunc; null with a Python error set.  like: null, or NumPy's, whose loops for other dtypes it
// has.
PyObject* make(const char* name, Loop loop, PyObject* like, FromLoops from_loops) {
  Made& made = *new Made;  // which the ufunc reads, in threads that outlast the process's end, too
  if (like) {
    const auto& ufunc = *reinterpret_cast<const Ufunc*>(like);
    const auto n = static_cast<std::size_t>(ufunc.ntypes);
    made.loops.assign(ufunc.functions, ufunc.functions + n);
    made.data.assign(ufunc.data, ufunc.data + n);
    made.types.assign(ufunc.types, ufunc.types + n * 2);
    for (std::size_t i = 0; i < n; ++i)
      if (made.types[i * 2] == kFloat) made.loops[i] = loop;
  } else {
    made = {{loop}, {nullptr}, {kFloat, kFloat}};
  }
  return from_loops(made.loops.data(), made.data.data(), made.types.data(),
                    static_cast<int>(made.loops.size()), 1, 1, kNoIdentity, name, nullptr, 0);
}

// A function of float64 alone.
PyObject* of_doubles(const char* name, Loop loop, FromLoops from_loops) {
  Made& made = *new Made{{loop}, {nullptr}, {kDouble, kDouble}};
  return from_loops(made.loops.data(), made.data.data(), made.types.data(), 1, 1, 1, kNoIdentity,
                    name, nullptr, 0);
}

}  // namespace

void exponentials(float* x, Py_ssize_t n) {
  static const Loop loop = chosen<Exp>();
  char* data[] = {reinterpret_cast<char*>(x), reinterpret_cast<char*>(x)};
  constexpr Py_ssize_t by[] = {sizeof(float), sizeof(float)};
  loop(data, &n, by, nullptr);
}
void exponentials(double* x, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) x[i] = std::exp(x[i]);
}

bool add_elementary(PyObject* module) {
  const Ref core(PyImport_ImportModule("numpy._core._multiarray_umath"));
  const Ref capsule(core ? PyObject_GetAttrString(core.get(), "_UFUNC_API") : nullptr);
  auto** table =
      capsule ? static_cast<void**>(PyCapsule_GetPointer(capsule.get(), nullptr)) : nullptr;
  bool good = table;
  if (good) {
    const auto from_loops = reinterpret_cast<FromLoops>(table[kFromLoops]);
    const struct {
      const char* name;
      Loop loop;
      bool numpys;
    } all[] = {{"exp", chosen<Exp>(), true},          {"expm1", chosen<Expm1>(), true},
               {"log", chosen<Log>(), true},          {"log1p", chosen<Log1p>(), true},
               {"tanh", chosen<Tanh>(), true},        {"erf", chosen<Erf>(), false},
               {"sigmoid", chosen<Sigmoid>(), false}, {"normal", chosen<Normal>(), false}};
    for (const auto& each : all) {
      const Ref like(good && each.numpys ? PyObject_GetAttrString(core.get(), each.name) : nullptr);
      good = good && (like || !each.numpys);
      const Ref ufunc(good ? make(each.name, each.loop, like.get(), from_loops) : nullptr);
      good = ufunc && PyModule_AddObjectRef(module, each.name, ufunc.get()) == 0;
    }
    const struct {
      const char* name;
      Loop loop;
    } library[] = {
        {"erf64", by_library<std::erf>}, {"erfc64", by_library<std::erfc>}, {"lgamma64", lgamma64}};
    for (const auto& each : library) {
      const Ref ufunc(good ? of_doubles(each.name, each.loop, from_loops) : nullptr);
      good = ufunc && PyModule_AddObjectRef(module, each.name, ufunc.get()) == 0;
    }
    if (good) {
      Made& made =
          *new Made{{erfinv32, erfinv64}, {nullptr, nullptr}, {kFloat, kFloat, kDouble, kDouble}};
      const Ref ufunc(from_loops(made.loops.data(), made.data.data(), made.types.data(), 2, 1, 1,
                                 kNoIdentity, "erfinv", nullptr, 0));
      good = ufunc && PyModule_AddObjectRef(module, "erfinv", ufunc.get()) == 0;
    }
  }
  return good;
}

}  // namespace tritorch::host
