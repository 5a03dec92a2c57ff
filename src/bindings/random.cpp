// The CPU's generator and what it draws.
#include "bindings/convert.h"
#include "driver/blocking.h"
#include "random/rejection.h"
#include "random/selection.h"
#include "tensor/ndarray.h"

namespace tritorch {
namespace {

// The memory of an ndarray that lies dense in C's order; its dtype is the caller's to know.
template <class T = void>
T* dense(nb::handle array, std::size_t size) {
  const NDArray* a = as_ndarray(array.ptr());
  if (!a || !a->is_contiguous() || a->size() != size)
    throw std::domain_error("a contiguous ndarray of " + std::to_string(size) +
                            " numbers is needed");
  return reinterpret_cast<T*>(a->data);
}

std::size_t size_of(nb::handle array) {
  const NDArray* a = as_ndarray(array.ptr());
  if (!a) throw nb::type_error("an ndarray is needed");
  return a->size();
}

random::Target target_of(nb::handle out, nb::handle dtype, int threads = 1) {
  const std::size_t size = size_of(out);
  return {dense(out, size), dtype_of(dtype), size, threads};
}

// Draws with the generator locked; many numbers, without the interpreter's lock.
template <class Draw>
void drawing(random::Generator& generator, std::size_t size, const Draw& draw) {
  constexpr std::size_t kMany = 1 << 14;
  if (size < kMany) {
    const auto lock = lock_politely(generator.mutex);
    draw();
  } else {
    BlockingRegion region;
    const std::lock_guard lock(generator.mutex);
    draw();
  }
}

// function(T{}) for the type that `wide` chooses.
template <class Function>
void as_floats(bool wide, const Function& function) {
  wide ? function(double{}) : function(float{});
}

}  // namespace

void bind_random(nb::module_& m) {
  using random::Generator;
  nb::class_<Generator>(m, "CpuGenerator", "PyTorch's generator of the CPU and what it draws.")
      .def(nb::init<std::uint64_t>(), "seed"_a)
      .def_prop_ro("seed", [](Generator& g) { return g.engine.seed; })
      .def(
          "manual_seed",
          [](Generator& g, std::uint64_t seed) { drawing(g, 1, [&] { g.manual_seed(seed); }); },
          "seed"_a)
      .def("get_state",
           [](Generator& g) {
             char bytes[Generator::kStateBytes];
             drawing(g, 1, [&] { g.get_state(bytes); });
             return nb::bytes(bytes, sizeof bytes);
           })
      .def(
          "set_state",
          [](Generator& g, nb::bytes state) {
            if (state.size() != Generator::kStateBytes)
              throw std::invalid_argument("Expected a CPUGeneratorImplState of size " +
                                          std::to_string(Generator::kStateBytes) +
                                          " but found the input RNG state size to be " +
                                          std::to_string(state.size()));
            drawing(g, 1, [&] { g.set_state(state.c_str()); });
          },
          "state"_a)
      .def(
          "draw",
          [](Generator& g, nb::str name, nb::handle out, nb::handle dtype, double p, double q,
             int threads) {
            const random::Target target = target_of(out, dtype, threads);
            const char* which = name.c_str();
            drawing(g, target.size, [&] { random::draw(g, which, target, p, q); });
          },
          "name"_a, "out"_a, "dtype"_a, "p"_a = 0.0, "q"_a = 0.0, "threads"_a = 1)
      .def(
          "draw_integers",
          [](Generator& g, nb::handle out, nb::handle dtype, std::uint64_t range,
             std::uint64_t base, bool wide) {
            const random::Target target = target_of(out, dtype);
            drawing(g, target.size, [&] { random::draw_integers(g, target, range, base, wide); });
          },
          "out"_a, "dtype"_a, "range"_a, "base"_a, "wide"_a)
      .def(
          "draw_permutation",
          [](Generator& g, nb::handle out, nb::handle dtype) {
            const random::Target target = target_of(out, dtype);
            drawing(g, target.size, [&] { random::draw_permutation(g, target); });
          },
          "out"_a, "dtype"_a)
      .def(
          "draw_bernoulli",
          [](Generator& g, nb::handle out, nb::handle dtype, nb::handle chances, bool wide) {
            const random::Target target = target_of(out, dtype);
            as_floats(wide, [&]<class T>(T) {
              const T* given = dense<T>(chances, target.size);
              drawing(g, target.size, [&] { random::draw_bernoulli(g, target, given); });
            });
          },
          "out"_a, "dtype"_a, "chances"_a, "wide"_a)
      .def(
          "draw_slopes",
          [](Generator& g, nb::handle out, nb::handle x, bool wide, double low, double high) {
            const std::size_t n = size_of(x);
            as_floats(wide, [&]<class T>(T) {
              T* to = dense<T>(out, n);
              const T* given = dense<T>(x, n);
              drawing(g, n, [&] { random::draw_slopes(g, given, to, n, low, high); });
            });
          },
          "out"_a, "x"_a, "wide"_a, "low"_a, "high"_a)
      .def(
          "draw_by_weight",
          [](Generator& g, nb::handle out, nb::handle weights, bool wide, std::size_t rows) {
            const std::size_t drawn = size_of(out), given = size_of(weights);
            std::int64_t* to = dense<std::int64_t>(out, drawn);
            as_floats(wide, [&]<class T>(T) {
              const T* from = dense<T>(weights, given);
              drawing(g, drawn + given, [&] {
                random::draw_by_weight(g, from, rows, given / rows, to, drawn / rows);
              });
            });
          },
          "out"_a, "weights"_a, "wide"_a, "rows"_a)
      .def(
          "draw_poisson",
          [](Generator& g, nb::handle out, nb::handle rates) {
            const std::size_t n = size_of(rates);
            double* to = dense<double>(out, n);
            const double* given = dense<double>(rates, n);
            drawing(g, n, [&] { random::draw_poisson(g, given, to, n); });
          },
          "out"_a, "rates"_a)
      .def(
          "draw_gamma",
          [](Generator& g, nb::handle out, nb::handle shapes, bool wide) {
            const std::size_t n = size_of(shapes);
            as_floats(wide, [&]<class T>(T) {
              T* to = dense<T>(out, n);
              const T* given = dense<T>(shapes, n);
              drawing(g, n, [&] { random::draw_gamma(g, given, to, n); });
            });
          },
          "out"_a, "shapes"_a, "wide"_a)
      .def(
          "draw_binomial",
          [](Generator& g, nb::handle out, nb::handle counts, nb::handle chances, bool wide) {
            const std::size_t n = size_of(counts);
            as_floats(wide, [&]<class T>(T) {
              T* to = dense<T>(out, n);
              const T *trials = dense<T>(counts, n), *given = dense<T>(chances, n);
              drawing(g, n, [&] { random::draw_binomial(g, trials, given, to, n); });
            });
          },
          "out"_a, "counts"_a, "chances"_a, "wide"_a);
  m.def(
      "largest",
      [](nb::handle out, nb::handle values, bool wide, std::size_t rows) {
        const std::size_t chosen = size_of(out), given = size_of(values);
        std::int64_t* to = dense<std::int64_t>(out, chosen);
        as_floats(wide, [&]<class T>(T) {
          const T* from = dense<T>(values, given);
          BlockingRegion region;
          random::largest(from, rows, given / rows, to, chosen / rows);
        });
      },
      "out"_a, "values"_a, "wide"_a, "rows"_a,
      "The places of the largest numbers of each row, the largest first.");
}

}  // namespace tritorch
