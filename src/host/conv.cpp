// Convolutions as products of what a block of positions sees (Note [Patches] in patches.h), each in
// the cache of the thread that computes it, or as sums of shifted rows where a group has few
// channels.
#include <atomic>

#include "driver/blocking.h"
#include "host/functions.h"
#include "host/patches.h"
#include "host/shifted.h"
#include "products/blas.h"

namespace tritorch::host {
namespace {

// Bytes of a block's patches, and positions of which a product has so many at least.
constexpr Py_ssize_t kPatches = 1 << 18, kColumns = 64;
// Elements that such a block sees of a group's channels whose rows are shifted, and how few results
// of a group they are for.
constexpr Py_ssize_t kShifted = 1 << 15, kFew = 4, kMany = 64;

// Products of elements from which threads pay.
constexpr double kWorth = 1 << 18;

bool is_shifted(const Patches& of) { return of.outputs <= kFew && of.channels <= kMany; }

template <class T>
Blocks blocks_of(const Patches& of) {
  const auto size = static_cast<Py_ssize_t>(sizeof(T));
  return Blocks(of, is_shifted(of) ? std::min(kShifted / of.channels, of.plane())
                                   : std::max(kPatches / (size * of.depth()), kColumns));
}

// work(part, thread) for each of the parts, over threads where that pays.
template <class Work>
void over_threads(const Patches& of, Py_ssize_t parts, Py_ssize_t threads, const Work& work) {
  const double products = static_cast<double>(of.images * of.groups * of.outputs * of.plane()) *
                          static_cast<double>(of.depth());
  if (products < kWorth || threads == 1) {
    for (Py_ssize_t i = 0; i < parts; ++i) work(i, Py_ssize_t{0});
    return;
  }
  std::atomic<Py_ssize_t> next{0};
  share(parts, [&](Parts& all) {
    const Py_ssize_t thread = next.fetch_add(1);
    if (thread >= threads) return;  // their number has grown meanwhile
    for (Py_ssize_t i; (i = all.take()) >= 0;) work(i, thread);
  });
}

// What a block sees, in a thread's memory.
template <class T>
struct Seen {
  const Patches& of;
  const Blocks blocks;
  const Frame frame;
  const std::vector<Py_ssize_t> taps;

  explicit Seen(const Patches& patches)
      : of(patches),
        blocks(blocks_of<T>(patches)),
        frame(patches, blocks.largest()),
        taps(frame.taps()) {}

  Py_ssize_t columns() const { return blocks.largest().columns(); }

  // The patches: for each channel and tap, a row of all the block's positions.
  void gather(const Block& block, const T* from, T* to) const {
    // What a vector writes beyond a run is written over by the next one.
    constexpr Py_ssize_t kWidth = 32 / sizeof(T);
    const Py_ssize_t run = block.length(2);
    for (const Py_ssize_t tap : taps)
      for (Py_ssize_t image = 0; image < block.images; ++image)
        for (Py_ssize_t z = 0; z < block.length(0); ++z)
          for (Py_ssize_t y = 0; y < block.length(1); ++y, to += run) {
            const T* seen = from + tap + image * frame.image() + frame.position(z, y);
            for (Py_ssize_t i = 0; i < run; i += kWidth) std::memcpy(to + i, seen + i, 32);
          }
  }
};

template <class T>
struct Convolution {
  const Patches& of;
  const T *source, *weights, *bias;
  T* result;

  bool run() const {
    const Seen<T> seen(of);
    const bool shifted = is_shifted(of);
    const Py_ssize_t threads = workers(), columns = seen.columns();
    const Py_ssize_t patches = shifted ? 0 : of.depth() * columns;
    const Scratch<T> scratch(threads,
                             seen.frame.size() + patches + of.outputs * columns + 2 * kSlack);
    if (!scratch) return false;
    BlockingRegion others;
    const blas::OneThread alone;
    over_threads(of, seen.blocks.count() * of.groups, threads,
                 [&](Py_ssize_t i, Py_ssize_t thread) {
                   const Block block = seen.blocks[i / of.groups];
                   const Py_ssize_t group = i % of.groups;
                   T *frame = scratch.of(thread), *made = frame + seen.frame.size();
                   seen.frame.fill(block, group, source, frame);
                   if (shifted)
                     shift(seen, block, group, frame, made);
                   else
                     multiply(seen, block, group, frame, made);
                 });
    return true;
  }

 private:
  T* place(Py_ssize_t image, Py_ssize_t group, Py_ssize_t output) const {
    return result + ((image * of.groups + group) * of.outputs + output) * volume(of.whole);
  }

  void multiply(const Seen<T>& seen, const Block& block, Py_ssize_t group, const T* frame,
                T* made) const {
    const Py_ssize_t n = block.columns();
    T* patches = made + of.outputs * seen.columns() + kSlack;
    seen.gather(block, frame, patches);
    const bool at_once = of.is_in_place() && block.images == 1;
    T* out = at_once ? place(block.image, group, 0) + block.begin(of.count) : made;
    const Py_ssize_t apart = at_once ? of.plane() : n;
    blas::multiply<T>(of.outputs, n, of.depth(),
                      {weights + group * of.outputs * of.depth(), of.depth(), false},
                      {patches, n, false}, {out, apart, false});
    for (Py_ssize_t o = 0; o < of.outputs; ++o) {
      add_bias(group, o, out + o * apart, n);
      if (at_once) continue;
      for (Py_ssize_t image = 0; image < block.images; ++image, made += n / block.images)
        put(block, made, place(block.image + image, group, o));
    }
  }

  void shift(const Seen<T>& seen, const Block& block, Py_ssize_t group, const T* frame,
             T* made) const {
    const Py_ssize_t run = block.length(2);
    for (Py_ssize_t o = 0; o < of.outputs; ++o) {
      T* out = made;
      for (Py_ssize_t z = 0; z < block.length(0); ++z)
        for (Py_ssize_t y = 0; y < block.length(1); ++y, out += run)
          add_shifted(frame + seen.frame.position(z, y), seen.taps.data(),
                      weights + (group * of.outputs + o) * of.depth(), of.depth(), out, run);
      add_bias(group, o, made, block.columns());
      put(block, made, place(block.image, group, o));
    }
  }

  void add_bias(Py_ssize_t group, Py_ssize_t output, T* out, Py_ssize_t n) const {
    if (!bias) return;
    const T shift = bias[group * of.outputs + output];
    for (Py_ssize_t i = 0; i < n; ++i) out[i] += shift;
  }

  // An image's part of a block to where it is in a plane.
  void put(const Block& block, const T* made, T* plane) const {
    if (of.is_in_place()) {
      std::copy_n(made, block.columns() / block.images, plane + block.begin(of.count));
      return;
    }
    const auto place = [&](std::size_t dim, Py_ssize_t q) {
      return q * of.every[dim] + of.first[dim];
    };
    const Py_ssize_t run = block.length(2), every = of.every[2];
    for (Py_ssize_t z = block.low[0]; z < block.high[0]; ++z)
      for (Py_ssize_t y = block.low[1]; y < block.high[1]; ++y, made += run) {
        T* row = plane + (place(0, z) * of.whole[1] + place(1, y)) * of.whole[2] +
                 place(2, block.low[2]);
        for (Py_ssize_t i = 0; i < run; ++i) row[i * every] = made[i];
      }
  }
};

// The weight's gradient in several sums, each over some of the blocks.  A group's channels may be
// in slices, which are groups of their own but for the result's gradient.
template <class T>
struct WeightGradient {
  const Patches& of;
  Py_ssize_t parts, slices;
  const T *grad, *source;
  T* sums;  // (parts, groups, depth, outputs)

  bool run() const {
    const Seen<T> seen(of);
    const bool shifted = is_shifted(of);
    const Py_ssize_t threads = workers(), columns = seen.columns(), size = of.outputs * of.depth();
    const Py_ssize_t patches = shifted ? 0 : (of.depth() + of.outputs) * columns;
    const Scratch<T> scratch(threads, seen.frame.size() + patches + 2 * kSlack);
    const Scratch<double> totals(threads, shifted ? size : 1);
    if (!scratch || !totals) return false;
    BlockingRegion others;
    const blas::OneThread alone;
    over_threads(of, parts * of.groups, threads, [&](Py_ssize_t i, Py_ssize_t thread) {
      const Py_ssize_t group = i % of.groups;
      T *frame = scratch.of(thread), *sum = sums + i * size;
      double* total = totals.of(thread);
      if (shifted) std::fill_n(total, size, 0.0);
      for (Py_ssize_t b = i / of.groups; b < seen.blocks.count(); b += parts) {
        const Block block = seen.blocks[b];
        seen.frame.fill(block, group, source, frame);
        if (shifted)
          shift(seen, block, group, frame, total);
        else
          multiply(seen, block, group, frame, sum);
      }
      if (!shifted) return;
      for (Py_ssize_t o = 0; o < of.outputs; ++o)
        for (Py_ssize_t k = 0; k < of.depth(); ++k)
          sum[k * of.outputs + o] = static_cast<T>(total[o * of.depth() + k]);
    });
    return true;
  }

 private:
  const T* gradient(Py_ssize_t image, Py_ssize_t group, const Block& block) const {
    return grad + (image * (of.groups / slices) + group / slices) * of.outputs * of.plane() +
           block.begin(of.count);
  }

  // frame: with room for patches after it
  void multiply(const Seen<T>& seen, const Block& block, Py_ssize_t group, T* frame, T* sum) const {
    T *patches = frame + seen.frame.size(), *room = patches + of.depth() * seen.columns() + kSlack;
    const Py_ssize_t n = block.columns(), each = n / block.images;
    seen.gather(block, frame, patches);
    const T* g = gradient(block.image, group, block);
    Py_ssize_t apart = of.plane();
    if (block.images > 1) {
      for (Py_ssize_t image = 0; image < block.images; ++image) {
        const T* from = gradient(block.image + image, group, block);
        for (Py_ssize_t o = 0; o < of.outputs; ++o)
          std::copy_n(from + o * of.plane(), each, room + o * n + image * each);
      }
      g = room, apart = n;
    }
    blas::multiply<T>(of.depth(), of.outputs, n, {patches, n, false}, {g, apart, true},
                      {sum, of.outputs, false}, T{1});
  }

  void shift(const Seen<T>& seen, const Block& block, Py_ssize_t group, const T* frame,
             double* total) const {
    for (Py_ssize_t o = 0; o < of.outputs; ++o)
      for (Py_ssize_t z = 0; z < block.length(0); ++z)
        add_products(Lines<T>{gradient(block.image, group, block) + o * of.plane() +
                                  z * of.count[1] * of.count[2],
                              of.count[2]},
                     Lines<T>{frame + seen.frame.position(z, 0), seen.frame.position(0, 1)},
                     block.length(1), block.length(2), seen.taps.data(), of.depth(),
                     total + o * of.depth());
  }
};

#define TRITORCH_TRIPLE "(nnn)"
#define TRITORCH_READ(triple) &(triple)[0], &(triple)[1], &(triple)[2]

// The fields of patches; false with a Python error set.
bool read(PyObject* given, Patches& of) {
  const bool good = PyArg_ParseTuple(
      given,
      "nnnn" TRITORCH_TRIPLE TRITORCH_TRIPLE TRITORCH_TRIPLE TRITORCH_TRIPLE TRITORCH_TRIPLE
          TRITORCH_TRIPLE TRITORCH_TRIPLE TRITORCH_TRIPLE TRITORCH_TRIPLE,
      &of.images, &of.groups, &of.channels, &of.outputs, TRITORCH_READ(of.size),
      TRITORCH_READ(of.count), TRITORCH_READ(of.kernel), TRITORCH_READ(of.start),
      TRITORCH_READ(of.step), TRITORCH_READ(of.spread), TRITORCH_READ(of.whole),
      TRITORCH_READ(of.first), TRITORCH_READ(of.every));
  if (!good) return false;
  if (!of.is_sound()) return PyErr_SetString(PyExc_ValueError, "no patches"), false;
  if (!blas::has_library()) return PyErr_SetString(PyExc_ValueError, "no products"), false;
  return true;
}

template <class T>
T* numbers(const NDArray* array) {
  return array ? reinterpret_cast<T*>(array->data) : nullptr;
}

// convolve(source, weights, bias, out, kind, patches): weights (groups, outputs, depth); bias
// (groups * outputs) or None
PyObject* convolve(PyObject*, PyObject* args) {
  PyObject *given, *by, *shift, *made, *patches;
  const char* kind;
  Patches of;
  if (!PyArg_ParseTuple(args, "OOOOsO!", &given, &by, &shift, &made, &kind, &PyTuple_Type,
                        &patches) ||
      !read(patches, of))
    return nullptr;
  const Py_ssize_t results = of.groups * of.outputs, all = of.images * of.groups;
  const NDArray* source = dense(given, all * of.channels * volume(of.size), "the source");
  const NDArray* weights = source ? dense(by, results * of.depth(), "the weight") : nullptr;
  const NDArray* out =
      weights ? dense(made, all * of.outputs * volume(of.whole), "the result") : nullptr;
  const NDArray* bias = out && shift != Py_None ? dense(shift, results, "the bias") : nullptr;
  if (!out || (shift != Py_None && !bias)) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    return Convolution<T>{of, numbers<T>(source), numbers<T>(weights), numbers<T>(bias),
                          numbers<T>(out)}
        .run();
  });
}

// convolve_weight(grad, source, sums, kind, slices, patches)
PyObject* convolve_weight(PyObject*, PyObject* args) {
  PyObject *gradient, *given, *made, *patches;
  const char* kind;
  Py_ssize_t slices;
  Patches of;
  if (!PyArg_ParseTuple(args, "OOOsnO!", &gradient, &given, &made, &kind, &slices, &PyTuple_Type,
                        &patches) ||
      !read(patches, of))
    return nullptr;
  if (slices < 1 || of.groups % slices) return PyErr_Format(PyExc_ValueError, "no slices");
  const Py_ssize_t grads = of.images * (of.groups / slices) * of.outputs * of.plane();
  const Py_ssize_t sources = of.images * of.groups * of.channels * volume(of.size);
  const NDArray* grad = dense(gradient, grads, "the gradient");
  const NDArray* source = grad ? dense(given, sources, "the source") : nullptr;
  const NDArray* sums = source ? as_ndarray(made) : nullptr;
  if (!source) return nullptr;
  const Py_ssize_t parts = sums && sums->nd ? sums->dimensions[0] : 0;
  if (!dense(made, parts * of.groups * of.outputs * of.depth(), "the sums")) return nullptr;
  return of_kind(kind, [&]<class T>(T) {
    return WeightGradient<T>{
        of, parts, slices, numbers<T>(grad), numbers<T>(source), numbers<T>(sums)}
        .run();
  });
}

PyMethodDef functions[] = {
    {"convolve", convolve, METH_VARARGS, "A convolution, or a phase of its input's gradient."},
    {"convolve_weight", convolve_weight, METH_VARARGS,
     "The gradient of a convolution's weight, in parts."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_conv(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace tritorch::host
