// The inverse of the error function, computed in double: x P(w), w = -log(1 - x^2), P a polynomial
// of w and, from kTail on, of its root, fitted to 40 digits (Chebyshev's nodes).  What roundings of
// w, P and the product lose is carried along, so that results are off by less than one unit in the
// last place; for floats there is no need, and polynomials are shorter.
#include "host/inverse.h"

#include <cmath>

#include "host/doubles.h"
#include "widest.h"

namespace tritorch::host {
namespace {

constexpr double kTail = 6.25, kFar = 16.0;  // values of w

template <class T>
TRITORCH_INLINE T erfinv_of(T given) {
  constexpr bool kExact = sizeof(T) == sizeof(double);
  const double x = static_cast<double>(given);
  const double size = as_double(as_bits(x) & 0x7fffffffffffffffu);
  const Pair w = minus_log(size < 1.0 ? (1.0 - size) * (1.0 + size) : 0.5);
  const bool tail = w.high >= kTail;
  const double root = std::sqrt(w.high);
  Pair p;
  double at;
  if constexpr (kExact) {
    const Pair square = product(root, root);
    const double lacks = tail ? ((w.high - square.high) - square.low + w.low) / (root + root) : 0;
    const bool far = w.high >= kFar;
    const Pair off = sum(-3.125, w.high);
    at = far ? root - 5.0 : tail ? root - 3.25 : off.high;
    const double most =
        polynomial(at, -1.9123778045391186e-23, -3.3795536525485224e-22, 4.357475280244854e-21,
                   1.8739434875095462e-20, -3.7848217521105335e-19, 6.396664855709971e-19,
                   1.5992591736199305e-17, -1.226305743260548e-16, -4.417003393665373e-17,
                   6.525767922399858e-15, -3.998852309540432e-14, -8.074665167507013e-14,
                   2.6303859148085384e-12, -1.2978692479994892e-11, -5.4142609576164565e-11,
                   1.051223070748762e-09, -4.112661266924503e-09, -2.907039074871087e-08,
                   4.234788178266526e-07, -1.3654691764135042e-06, -1.3882523394637344e-05,
                   0.0001867342080200925, -0.0007407025341544301, -0.006033670871426909);
    const double beyond =
        polynomial(at, -1.5102695423335065e-08, 6.969241977629694e-10, 1.3104351499972014e-07,
                   -2.713451105439456e-07, -2.7004219280868947e-08, 1.4987130784186127e-06,
                   -3.986084395214756e-06, 2.9257291901789823e-06, 1.2465167157087251e-05,
                   -4.731898412011245e-05, 6.828708654753377e-05, 2.4031257015092525e-05,
                   -0.00035503780975963814, 0.0009532893637435638, -0.0016882755357337071,
                   0.0024914420969817607, -0.003751208508215561, 0.00537091455357168);
    const double last =
        polynomial(at, 3.963145924658085e-11, -2.2772394472761313e-11, -4.2401917084661897e-10,
                   1.4902433047498932e-09, -3.494653368877176e-09, 7.64410733347763e-09,
                   -1.523376897450945e-08, 2.9123821685986172e-08, -6.756725498741952e-08,
                   2.2901618092413998e-07, -9.930261373154388e-07, 4.526059693479695e-06,
                   -1.9681771203726043e-05, 7.599527739461002e-05, -0.00021503011979298579,
                   -0.0001387193183536735);
    const double rest = far ? last : tail ? beyond : most;
    Pair slope = sum(far    ? 1.0103004648645446
                     : tail ? 1.0052589676941652
                            : 0.2401581824255883,
                     rest * at);
    slope.low += far ? 3.427555314421365e-17 : tail ? 6.760097696851677e-17 : 1.02993646597476e-17;
    const double first = far ? 4.849906401408584 : tail ? 3.0838856104922208 : 1.6536545626831027;
    const double lost = far    ? -2.445391027003216e-16
                        : tail ? -1.3407374802731483e-16
                               : -2.1639339883896223e-17;
    const double about = tail ? 1.0 : 0.24;  // how P grows with root, or with w
    const Pair more = product(slope.high, at);
    p = sum(first, more.high);
    p.low += lost + more.low + slope.low * at + about * (tail ? lacks : off.low + w.low);
    const Pair y = product(size, p.high);
    const double found = y.high + (y.low + size * p.low);
    const double made = size < 0x1p-500 ? size * p.high : found;
    const double edge = size == 1.0 ? static_cast<double>(__builtin_inff()) : __builtin_nan("");
    return std::copysign(size < 1.0 ? made : edge, x);
  } else {
    at = tail ? root - 3.25 : w.high - 3.125;
    const double most =
        polynomial(at, -1.2570814414523687e-11, 5.688216479117087e-12, 1.0363882341451174e-09,
                   -4.752745619151995e-09, -2.895896037948332e-08, 4.2698513895053384e-07,
                   -1.3658217507589212e-06, -1.389214124592301e-05, 0.00018673466051691629,
                   -0.0007406910325430195, -0.006033671032285515, 0.24015817844735166);
    const double beyond =
        polynomial(at, 8.074691057693325e-05, -3.7471700003254784e-05, -0.00036038249087117137,
                   0.000982682595474375, -0.0016872723525769616, 0.002485620195022507,
                   -0.0037512768086153166, 0.0053713212093162935, 1.0052589684577558);
    const double found = tail ? beyond * at + 3.0838856059231405 : most * at + 1.6536545626831027;
    const double edge = size == 1.0 ? static_cast<double>(__builtin_inff()) : __builtin_nan("");
    return static_cast<T>(std::copysign(size < 1.0 ? size * found : edge, x));
  }
}

template <class T>
TRITORCH_INLINE void walk(char** data, Py_ssize_t n, const Py_ssize_t* by) {
  constexpr Py_ssize_t kBlock = 256, kSize = sizeof(T);
  alignas(64) T block[kBlock];
  for (Py_ssize_t low = 0; low < n; low += kBlock) {
    const Py_ssize_t count = n - low < kBlock ? n - low : kBlock;
    const bool dense = by[0] == kSize && by[1] == kSize;
    const T* in = block;
    T* out = dense ? reinterpret_cast<T*>(data[1]) + low : block;
    if (dense)
      in = reinterpret_cast<const T*>(data[0]) + low;
    else
      for (Py_ssize_t i = 0; i < count; ++i)
        block[i] = *reinterpret_cast<const T*>(data[0] + (low + i) * by[0]);
#pragma GCC ivdep
    for (Py_ssize_t i = 0; i < count; ++i) out[i] = erfinv_of<T>(in[i]);
    if (dense) continue;
    for (Py_ssize_t i = 0; i < count; ++i)
      *reinterpret_cast<T*>(data[1] + (low + i) * by[1]) = block[i];
  }
}

TRITORCH_WIDEST(void, erfinv_floats, (char** data, Py_ssize_t n, const Py_ssize_t* by),
                (data, n, by), { walk<float>(data, n, by); })
TRITORCH_WIDEST(void, erfinv_doubles, (char** data, Py_ssize_t n, const Py_ssize_t* by),
                (data, n, by), { walk<double>(data, n, by); })

}  // namespace

void erfinv32(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*) {
  erfinv_floats(data, *n, by);
}
void erfinv64(char** data, const Py_ssize_t* n, const Py_ssize_t* by, void*) {
  erfinv_doubles(data, *n, by);
}

}  // namespace tritorch::host
