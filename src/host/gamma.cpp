// log |gamma(x)| of doubles, off by less than one unit in the last place from -1/2 on: up to 8
// (x - 1) (x - 2) R(x), R a polynomial on each of four ranges, fitted to 50 digits (Chebyshev's
// nodes), so that zeros are exact; then Stirling's series.  What roundings lose is carried along.
// The rest is the C library's.
#include "host/gamma.h"

#include <cmath>

#include "host/doubles.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr int kTerms = 23;
// Of powers of (x - c) / r, the highest first: [1/2, 1), [1, 2), [2, 4), [4, 8).
constexpr double kTable[kTerms][4] = {
    {1.2714438737601262e-12, 1.2170358219385592e-12, 1.1264743383485393e-12, 9.996721200502766e-13},
    {-3.977810975361369e-12, -3.8008085820640625e-12, -3.508550204089111e-12,
     -3.106264634814355e-12},
    {5.1571586044931605e-12, 4.892185826125285e-12, 4.467371325162865e-12, 3.918751544592074e-12},
    {-1.6286068677013056e-11, -1.5410479069560222e-11, -1.4023763908606806e-11,
     -1.2273700630166111e-11},
    {6.984595079446454e-11, 6.615691316451458e-11, 6.031481087274179e-11, 5.290137076629256e-11},
    {-2.2095788499392924e-10, -2.0871311005452823e-10, -1.895996814995956e-10,
     -1.6592855521223727e-10},
    {6.750451654811916e-10, 6.353017600845751e-10, 5.744261016844076e-10, 5.013151118082131e-10},
    {-2.1504876788269343e-09, -2.016989565826891e-09, -1.8164116151732646e-09,
     -1.5820445984689636e-09},
    {6.900341420630893e-09, 6.448043752521901e-09, 5.783208420311016e-09, 5.027856512820897e-09},
    {-2.216065797076111e-08, -2.0620995364628568e-08, -1.841497127820091e-08,
     -1.5981302885912993e-08},
    {7.151037220196316e-08, 6.622926112005164e-08, 5.8882033549475935e-08, 5.1014827750913645e-08},
    {-2.3213321235444115e-07, -2.138632494418463e-07, -1.892877904064232e-07,
     -1.6373653443567686e-07},
    {7.586353195034399e-07, 6.948460789947273e-07, 6.122635126217297e-07, 5.287832312308032e-07},
    {-2.4992076415498894e-06, -2.2742474054826674e-06, -1.9952442751367096e-06,
     -1.7203126412122382e-06},
    {8.313450071230552e-06, 7.5113911543279285e-06, 6.562467721256208e-06, 5.6470115419817134e-06},
    {-2.7988593531078073e-05, -2.5094328669818345e-05, -2.183778489217821e-05,
     -1.874229813373197e-05},
    {9.568996646344151e-05, 8.510090382266539e-05, 7.377669410589443e-05, 6.30782328797224e-05},
    {-0.0003339638182311686, -0.00029455070151955954, -0.0002543369955571942,
     -0.00021617417919737007},
    {0.0012002398216730476, 0.0010498186644491197, 0.0009018012625239304, 0.0007592039672213128},
    {-0.004514237527713218, -0.003913560937626187, -0.003332280825140434, -0.0027610930460034437},
    {0.018380335451527403, 0.015727850268641236, 0.0131490483781584, 0.010600203569701894},
    {-0.08808985033300351, -0.07297994795715304, -0.05846821787072541, -0.04482536158201202},
    {0.6504990445801452, 0.4831289505409809, 0.34657359027997264, 0.2393745871391023}};
constexpr double kLost[2][4] = {
    {8.357472708167907e-18, 1.6718818997178506e-17, 1.1595234069231498e-17,
     -1.3070382920565713e-17},
    {-4.713897752562058e-19, -2.531005362147526e-18, -3.0296766432156825e-18,
     -1.258880622925114e-18}};  // of the last and the one before
constexpr double kLeast = -0.5, kLowest = 1e-300, kMost = 1e15;

// The number of a row for the range in which a number lies.
TRITORCH_INLINE double of_range(const double* row, double place) {
  const double a = row[0], b = row[1], c = row[2], d = row[3];
  const double low = place >= 1.0 ? b : a, high = place >= 4.0 ? d : c;
  return place >= 2.0 ? high : low;
}

TRITORCH_INLINE double magnitude(double x) { return as_double(as_bits(x) & 0x7fffffffffffffffu); }
// Whether the polynomials and the series are for it.
TRITORCH_INLINE bool is_near(double x) {
  return (x >= kLeast) & (x <= kMost) & (magnitude(x) >= kLowest);
}

// Of x below 8.
TRITORCH_INLINE double by_ranges(double x) {
  const bool small = x < 0.5;  // by gamma(x) = gamma(x + 1) / x
  const double place = small ? (x < 0.0 ? 0.75 : 1.25) : x;
  const double below = x < 0.0 ? -0.25 : 0.5, low = place >= 1.0 ? 1.5 : 0.75;
  const double high = place >= 4.0 ? 6.0 : 3.0, beyond = place >= 2.0 ? high : low;
  const double narrow = place >= 1.0 ? 2.0 : 4.0, wide = place >= 4.0 ? 0.5 : 1.0;
  const double at = (x - (small ? below : beyond)) * (place >= 2.0 ? wide : narrow);
  const double square = at * at;
  double odd = of_range(kTable[0], place), even = of_range(kTable[1], place);
#pragma GCC unroll 16
  for (int i = 2; i < kTerms - 3; i += 2) {
    odd = odd * square + of_range(kTable[i], place);
    even = even * square + of_range(kTable[i + 1], place);
  }
  odd = odd * square + of_range(kTable[kTerms - 3], place);
  const Pair slope = sum(of_range(kTable[kTerms - 2], place), at * (odd + at * even));
  const Pair more = product(slope.high, at);
  Pair p = sum(of_range(kTable[kTerms - 1], place), more.high);
  p.low += of_range(kLost[0], place) + more.low + (slope.low + of_range(kLost[1], place)) * at;
  const double first = small ? x : x - 1.0;
  const Pair second = any_sum(x, small ? -1.0 : -2.0);
  Pair both = product(first, second.high);
  both.low += first * second.low;
  const Pair y = product(both.high, p.high);
  const double lost = y.low + (both.high * p.low + both.low * p.high);
  const Pair log = minus_log(small ? magnitude(x) : 1.0);
  const Pair whole = any_sum(log.high, y.high);
  return small ? whole.high + (whole.low + (log.low + lost)) : y.high + lost;
}

TRITORCH_INLINE double by_stirling(double x) {
  const Pair log = minus_log(x);
  const double inverse = 1.0 / x, square = inverse * inverse;
  const double series = inverse * polynomial(square, 43867.0 / 244188.0, -3617.0 / 122400.0,
                                             1.0 / 156.0, -691.0 / 360360.0, 1.0 / 1188.0,
                                             -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0);
  const double factor = 0.5 - x;
  const Pair most = product(factor, log.high);
  const Pair less = sum(most.high, -x), found = sum(less.high, 0.9189385332046728);
  return found.high + (found.low + (less.low + (most.low + (factor * log.low + series))));
}

TRITORCH_INLINE void walk(char** data, Py_ssize_t n, const Py_ssize_t* by,
                          double (*by_library)(double)) {
  constexpr Py_ssize_t kBlock = 256;
  alignas(64) double in[kBlock], out[kBlock];
  for (Py_ssize_t low = 0; low < n; low += kBlock) {
    const Py_ssize_t count = n - low < kBlock ? n - low : kBlock;
    for (Py_ssize_t i = 0; i < count; ++i)
      in[i] = *reinterpret_cast<const double*>(data[0] + (low + i) * by[0]);
#pragma GCC ivdep
    for (Py_ssize_t i = 0; i < count; ++i) {
      double x = in[i] >= kLeast ? in[i] : 1.0;
      x = x <= kMost ? x : 1.0;
      x = magnitude(x) >= kLowest ? x : 1.0;
      const double near = by_ranges(x < 8.0 ? x : 1.0), far = by_stirling(x < 8.0 ? 8.0 : x);
      out[i] = x < 8.0 ? near : far;
    }
    for (Py_ssize_t i = 0; i < count; ++i)
      *reinterpret_cast<double*>(data[1] + (low + i) * by[1]) =
          is_near(in[i]) ? out[i] : by_library(in[i]);
  }
}

double log_of_gamma(double x) {
#if defined(__GLIBC__)
  int sign;  // a global one would be every thread's
  return lgamma_r(x, &sign);
#else
  return std::lgamma(x);
#endif
}

TRITORCH_WIDEST(void, lgamma_doubles, (char** data, Py_ssize_t n, const Py_ssize_t* by),
                (data, n, by), { walk(data, n, by, log_of_gamma); })

}  // namespace

void lgamma64(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*) {
  lgamma_doubles(data, *n, by);
}

}  // namespace tritorch::host
