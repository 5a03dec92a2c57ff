// What convolutions read of their input.
//
// Note [Patches]: position q of a result sees, by tap t, element q * step + start + t * spread of
// the source, in each of three dims (lines and planes have dims of one element before); what lies
// outside is zero.  So are a convolution, and each phase of its input's gradient: of the elements
// that are as far from a multiple of the stride.  A block of positions copies what it sees, with
// the zeros, into a frame in the cache, whose rows have every step-th element side by side: there
// each tap of a row of positions is one run of memory.
#pragma once

#include <Python.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace tritorch::host {

constexpr int kDims = 3;
using Triple = std::array<Py_ssize_t, kDims>;

inline Py_ssize_t volume(const Triple& size) { return size[0] * size[1] * size[2]; }
inline Py_ssize_t ceil_div(Py_ssize_t a, Py_ssize_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

struct Patches {
  Py_ssize_t images, groups, channels, outputs;  // channels and outputs of each group
  Triple size, count, kernel, start, step, spread;
  Triple whole, first, every;  // position q is element q * every + first of the result

  Py_ssize_t plane() const { return volume(count); }
  Py_ssize_t depth() const { return channels * volume(kernel); }
  bool is_in_place() const { return whole == count; }
  // How far a tap is from the first element that its position sees.
  Py_ssize_t reach(std::size_t dim) const { return (kernel[dim] - 1) * spread[dim]; }
  Py_ssize_t tap(std::size_t dim, Py_ssize_t t) const {
    return t * spread[dim] - std::min<Py_ssize_t>(reach(dim), 0);
  }
  bool is_sound() const;
};

// Some positions that follow each other: a part of one image, or all of several.
struct Block {
  Py_ssize_t image, images;
  Triple low, high;

  Py_ssize_t length(std::size_t dim) const { return high[dim] - low[dim]; }
  Py_ssize_t columns() const { return images * length(0) * length(1) * length(2); }
  Py_ssize_t begin(const Triple& count) const {
    return (low[0] * count[1] + low[1]) * count[2] + low[2];
  }
};

constexpr Py_ssize_t kSlack = 64;  // elements after a buffer's end that whole vectors reach

// Blocks of about so many positions.
class Blocks {
 public:
  Blocks(const Patches& of, Py_ssize_t columns);
  Py_ssize_t count() const { return many_ * volume(parts_); }
  Block operator[](Py_ssize_t i) const;
  Block largest() const { return {0, images_, {}, cut_}; }

 private:
  const Patches& of_;
  Py_ssize_t images_ = 1, many_ = 1;
  Triple cut_, parts_;
};

// How what blocks see of a group's channels lies.
class Frame {
 public:
  Frame(const Patches& of, const Block& largest);
  Py_ssize_t size() const { return images_ * image() + kSlack; }
  Py_ssize_t image() const { return of_.channels * channel(); }
  // From a block's first position to another of the same image.
  Py_ssize_t position(Py_ssize_t z, Py_ssize_t y) const {
    return (z * of_.step[0] * length_[1] + y * of_.step[1]) * row();
  }
  // What the first position sees of each channel, by each tap.
  std::vector<Py_ssize_t> taps() const;

  template <class T>
  void fill(const Block& block, Py_ssize_t group, const T* source, T* to) const;

 private:
  Py_ssize_t row() const { return phase_ * of_.step[2]; }
  Py_ssize_t channel() const { return length_[0] * length_[1] * row(); }
  bool is_seen(std::size_t dim, Py_ssize_t at) const;
  template <class T>
  void fill_row(Py_ssize_t begin, const T* line, T* to) const;

  const Patches& of_;
  Py_ssize_t images_;
  Triple length_;     // of an image's channel
  Py_ssize_t phase_;  // from the elements of one remainder by the step to those of the next
};

// Memory for each of the threads that share work, without constructors.
template <class T>
class Scratch {
 public:
  Scratch(Py_ssize_t threads, Py_ssize_t each)
      : each_(each),
        data_(static_cast<T*>(std::malloc(sizeof(T) * static_cast<std::size_t>(threads * each)))) {}
  ~Scratch() { std::free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  explicit operator bool() const { return data_; }
  T* of(Py_ssize_t thread) const { return data_ + thread * each_; }

 private:
  Py_ssize_t each_;
  T* data_;
};

}  // namespace tritorch::host
