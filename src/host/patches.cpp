#include "host/patches.h"

namespace tritorch::host {

bool Patches::is_sound() const {
  for (std::size_t dim = 0; dim < kDims; ++dim)
    if (size[dim] < 1 || count[dim] < 1 || kernel[dim] < 1 || step[dim] < 1 || every[dim] < 1 ||
        first[dim] < 0 || first[dim] + (count[dim] - 1) * every[dim] >= whole[dim])
      return false;
  return images > 0 && groups > 0 && channels > 0 && outputs > 0;
}

Blocks::Blocks(const Patches& of, Py_ssize_t columns) : of_(of), cut_(of.count), parts_{1, 1, 1} {
  // The same number of positions for each, about.
  const auto cut = [](Py_ssize_t n, Py_ssize_t most, Py_ssize_t& part, Py_ssize_t& parts) {
    parts = ceil_div(n, std::clamp<Py_ssize_t>(most, 1, n));
    part = ceil_div(n, parts);
    parts = ceil_div(n, part);
  };
  cut(of.images, columns / of.plane(), images_, many_);
  Py_ssize_t inner = of.plane();
  for (std::size_t dim = 0; dim < kDims && inner > columns; ++dim) {
    inner /= of.count[dim];
    cut(of.count[dim], columns / inner, cut_[dim], parts_[dim]);
  }
}

Block Blocks::operator[](Py_ssize_t i) const {
  Block block;
  for (std::size_t dim = kDims; dim-- > 0; i /= parts_[dim]) {
    block.low[dim] = i % parts_[dim] * cut_[dim];
    block.high[dim] = std::min(of_.count[dim], block.low[dim] + cut_[dim]);
  }
  block.image = i * images_;
  block.images = std::min(images_, of_.images - block.image);
  return block;
}

Frame::Frame(const Patches& of, const Block& largest) : of_(of), images_(largest.images) {
  for (std::size_t dim = 0; dim < kDims; ++dim)
    length_[dim] = (largest.length(dim) - 1) * of.step[dim] + std::abs(of.reach(dim)) + 1;
  phase_ = ceil_div(length_[2], of.step[2]);
}

std::vector<Py_ssize_t> Frame::taps() const {
  std::vector<Py_ssize_t> found;
  found.reserve(static_cast<std::size_t>(of_.depth()));
  for (Py_ssize_t c = 0; c < of_.channels; ++c)
    for (Py_ssize_t z = 0; z < of_.kernel[0]; ++z)
      for (Py_ssize_t y = 0; y < of_.kernel[1]; ++y)
        for (Py_ssize_t x = 0; x < of_.kernel[2]; ++x) {
          const Py_ssize_t line = of_.tap(0, z) * length_[1] + of_.tap(1, y), at = of_.tap(2, x);
          found.push_back(c * channel() + line * row() + at % of_.step[2] * phase_ +
                          at / of_.step[2]);
        }
  return found;
}

// Whether a tap sees what is so far from the first element.
bool Frame::is_seen(std::size_t dim, Py_ssize_t at) const {
  if (of_.step[dim] == 1) return true;
  for (Py_ssize_t t = 0; t < of_.kernel[dim]; ++t)
    if ((at - of_.tap(dim, t)) % of_.step[dim] == 0) return true;
  return false;
}

template <class T>
void Frame::fill_row(Py_ssize_t begin, const T* line, T* to) const {
  const Py_ssize_t step = of_.step[2], n = of_.size[2];
  for (Py_ssize_t p = 0; p < step; ++p, ++begin, to += phase_) {
    if (!is_seen(2, p)) continue;
    const Py_ssize_t low = std::clamp<Py_ssize_t>(ceil_div(-begin, step), 0, phase_);
    const Py_ssize_t high = std::clamp<Py_ssize_t>(ceil_div(n - begin, step), low, phase_);
    std::fill_n(to, low, T{});
    if (step == 1)
      std::copy_n(line + (begin + low), high - low, to + low);
    else
      for (Py_ssize_t i = low; i < high; ++i) to[i] = line[begin + i * step];
    std::fill_n(to + high, phase_ - high, T{});
  }
}

template <class T>
void Frame::fill(const Block& block, Py_ssize_t group, const T* source, T* to) const {
  Triple from;  // the source's element that is the frame's first
  for (std::size_t dim = 0; dim < kDims; ++dim)
    from[dim] =
        block.low[dim] * of_.step[dim] + of_.start[dim] + std::min<Py_ssize_t>(of_.reach(dim), 0);
  const auto is_inside = [&](std::size_t dim, Py_ssize_t at) {
    return from[dim] + at >= 0 && from[dim] + at < of_.size[dim];
  };
  const Py_ssize_t all = of_.groups * of_.channels;
  for (Py_ssize_t image = block.image; image < block.image + block.images; ++image)
    for (Py_ssize_t c = 0; c < of_.channels; ++c) {
      const T* plane = source + (image * all + group * of_.channels + c) * volume(of_.size);
      for (Py_ssize_t z = 0; z < length_[0]; ++z)
        for (Py_ssize_t y = 0; y < length_[1]; ++y, to += row())
          if (!is_inside(0, z) || !is_inside(1, y))
            std::fill_n(to, row(), T{});
          else if (is_seen(0, z) && is_seen(1, y))
            fill_row(from[2], plane + ((from[0] + z) * of_.size[1] + from[1] + y) * of_.size[2],
                     to);
    }
}

template void Frame::fill(const Block&, Py_ssize_t, const float*, float*) const;
template void Frame::fill(const Block&, Py_ssize_t, const double*, double*) const;

}  // namespace tritorch::host
