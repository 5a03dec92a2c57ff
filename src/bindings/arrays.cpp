// Device arrays: their fields, views and copies.
#include <utility>

#include "array/copies.h"
#include "array/dlpack.h"
#include "array/order.h"
#include "bindings/convert.h"
#include "interpreter.h"
#include "launch/pack.h"

namespace tritorch {
namespace {

PyTypeObject* array_type = nullptr;

int device_or_current(std::optional<int> device) { return device ? *device : current_device(); }

// A buffer of bytes, held for the length of a call.
class BufferView {
 public:
  BufferView(nb::handle object, bool writable) {
    int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~BufferView() {
    if (may_use_python()) PyBuffer_Release(&view_);
  }
  BufferView(const BufferView&) = delete;
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

Pick pick_of(nb::handle item) {
  if (item.ptr() == Py_Ellipsis) return {Pick::rest};
  if (item.is_none()) return {Pick::added};
  if (PySlice_Check(item.ptr())) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(item.ptr(), &start, &stop, &step) < 0) throw nb::python_error();
    if (step <= 0) throw nb::value_error("step must be greater than zero");
    return {Pick::part, start, stop, step};
  }
  if (!PyIndex_Check(item.ptr()) || PyBool_Check(item.ptr()))
    throw nb::type_error(("an array is indexed by integers, slices, None and ..., not " +
                          std::string(Py_TYPE(item.ptr())->tp_name))
                             .c_str());
  const Py_ssize_t position = PyNumber_AsSsize_t(item.ptr(), PyExc_IndexError);
  if (position == -1 && PyErr_Occurred()) throw nb::python_error();
  return {Pick::one, position};
}

Array part_of(const Array& array, nb::handle key) {
  if (!PyTuple_Check(key.ptr())) return array.pick({{pick_of(key)}});
  const auto items = nb::borrow<nb::tuple>(key);
  std::vector<Pick> picks;
  picks.reserve(items.size());
  for (nb::handle item : items) picks.push_back(pick_of(item));
  return array.pick(picks);
}

}  // namespace

nb::object wrap(Array&& array) {
  nb::object object = nb::inst_alloc(nb::handle(reinterpret_cast<PyObject*>(array_type)));
  new (nb::inst_ptr<Array>(object)) Array(std::move(array));
  nb::inst_mark_ready(object);
  return object;
}

PyObject* array_object(Array&& array) { return wrap(std::move(array)).release().ptr(); }

const Array* as_array(PyObject* object) noexcept {
  return Py_TYPE(object) == array_type ? nb::inst_ptr<Array>(nb::handle(object)) : nullptr;
}

void bind_arrays(nb::module_& m) {
  auto array = nb::class_<Array>(m, "Array");
  array_type = reinterpret_cast<PyTypeObject*>(array.ptr());
  array.def_prop_ro("shape", [](const Array& a) { return tuple_of(a.layout.shape()); })
      .def_prop_ro("strides", [](const Array& a) { return tuple_of(a.layout.strides()); })
      .def_prop_ro("ndim", [](const Array& a) { return a.layout.ndim(); })
      .def_prop_ro("dtype", [](const Array& a) { return dtype_object(a.dtype); })
      .def_prop_ro("device_index", &Array::device)
      .def_prop_ro("nbytes", &Array::nbytes)
      .def_prop_ro("itemsize", [](const Array& a) { return item_size(a.dtype); })
      .def_prop_ro("storage_nbytes", [](const Array& a) { return a.storage->bytes; })
      .def("data_ptr", &Array::data)
      .def("element_size", [](const Array& a) { return item_size(a.dtype); })
      .def("storage_offset", [](const Array& a) { return a.offset; })
      .def("numel", [](const Array& a) { return a.layout.numel(); })
      .def("is_contiguous", [](const Array& a) { return a.layout.is_contiguous(); })
      .def(
          "stride",
          [](const Array& a, std::optional<std::int64_t> dim) -> nb::object {
            if (!dim) return tuple_of(a.layout.strides());
            return nb::int_(a.layout.strides()[wrap_dim(*dim, a.layout.ndim())]);
          },
          "dim"_a = nb::none())
      .def(
          "size",
          [](const Array& a, std::optional<std::int64_t> dim) -> nb::object {
            if (!dim) return tuple_of(a.layout.shape());
            return nb::int_(a.layout.shape()[wrap_dim(*dim, a.layout.ndim())]);
          },
          "dim"_a = nb::none())
      .def(
          "shares_storage",
          [](const Array& a, const Array& b) { return a.storage.get() == b.storage.get(); },
          "other"_a)
      .def(
          "_record_stream",
          [](const Array& a, std::uint64_t stream) { a.storage->record_stream(stream_of(stream)); },
          "stream"_a)
      .def(
          "as_strided",
          [](const Array& a, nb::handle shape, nb::handle strides,
             std::optional<std::int64_t> offset) {
            return wrap(a.as_strided(ints(shape), ints(strides), offset.value_or(a.offset)));
          },
          "size"_a, "stride"_a, "storage_offset"_a = nb::none())
      .def(
          "permute",
          [](const Array& a, nb::args dims) {
            return wrap(a.permute(ints(
                dims.size() == 1 && !PyLong_Check(dims[0].ptr()) ? dims[0] : nb::object(dims))));
          },
          "dims"_a)
      .def(
          "transpose",
          [](const Array& a, std::int64_t dim0, std::int64_t dim1) {
            int ndim = a.layout.ndim(), first = wrap_dim(dim0, ndim), second = wrap_dim(dim1, ndim);
            return wrap(ndim == 0 ? Array(a) : a.transpose(first, second));
          },
          "dim0"_a, "dim1"_a)
      .def(
          "expand",
          [](const Array& a, nb::args shape) {
            return wrap(a.expand(ints(shape.size() == 1 && !PyLong_Check(shape[0].ptr())
                                          ? shape[0]
                                          : nb::object(shape))));
          },
          "shape"_a)
      .def(
          "unsqueeze",
          [](const Array& a, std::int64_t dim) {
            return wrap(a.unsqueeze(wrap_dim(dim, a.layout.ndim() + 1)));
          },
          "dim"_a)
      .def(
          "select",
          [](const Array& a, std::int64_t dim, std::int64_t position) {
            if (a.layout.ndim() == 0)
              throw nb::index_error("select() cannot be applied to a 0-dim tensor.");
            return wrap(a.select(wrap_dim(dim, a.layout.ndim()), position));
          },
          "dim"_a, "index"_a)
      .def(
          "reshape_view",
          [](const Array& a, nb::handle shape) -> nb::object {
            std::optional<Array> view = a.reshape_view(ints(shape));
            return view ? wrap(std::move(*view)) : nb::none();
          },
          "shape"_a,
          nb::sig("def reshape_view(self, shape: collections.abc.Sequence[int]) -> Array | None"))
      .def(
          "view_dtype",
          [](const Array& a, nb::handle dtype) { return wrap(a.view_dtype(dtype_of(dtype))); },
          "dtype"_a)
      .def(
          "__getitem__", [](const Array& a, nb::handle key) { return wrap(part_of(a, key)); },
          "key"_a)
      .def("__len__", [](const Array& a) {
        if (a.layout.ndim() == 0) throw nb::type_error("len() of a 0-d tensor");
        return a.layout.shape()[0];
      });
  m.def(
      "empty",
      [](nb::handle shape, nb::handle dtype, std::optional<int> device) {
        int ordinal = device_or_current(device);
        return wrap(Array::empty(ints(shape), dtype_of(dtype), ordinal, current_stream(ordinal)));
      },
      "shape"_a, "dtype"_a, "device"_a = nb::none());
  m.def(
      "empty_strided",
      [](nb::handle shape, nb::handle strides, nb::handle dtype, std::optional<int> device) {
        int ordinal = device_or_current(device);
        return wrap(Array::empty_strided(ints(shape), ints(strides), dtype_of(dtype), ordinal,
                                         current_stream(ordinal)));
      },
      "shape"_a, "strides"_a, "dtype"_a, "device"_a = nb::none());
  m.def(
      "allocate_bytes",
      [](std::size_t bytes, int device, std::uint64_t stream) {
        std::int64_t shape[1] = {static_cast<std::int64_t>(bytes)};
        return wrap(Array::empty(shape, DType::uint8, device, stream_of(stream)));
      },
      "nbytes"_a, "device"_a, "stream"_a, "Uninitialised bytes that belong to a stream.");
  m.def(
      "collapse",
      [](nb::handle shape, std::vector<std::vector<std::int64_t>> strides) {
        std::vector<Sizes> spans(strides.begin(), strides.end());
        std::vector<std::int64_t> sizes = ints(shape);
        Collapsed out = collapse(sizes, spans);
        nb::list lists;
        for (const auto& list : out.strides) lists.append(tuple_of(list));
        return nb::make_tuple(tuple_of(out.shape), nb::tuple(lists));
      },
      "shape"_a, "strides"_a);
  m.def(
      "result_strides",
      [](nb::handle shape, const std::vector<std::pair<nb::handle, nb::handle>>& operands,
         bool numbers) {
        std::vector<std::vector<std::int64_t>> lists;
        std::vector<Lie> lies;
        lists.reserve(2 * operands.size());
        for (const auto& [sizes, strides] : operands) {
          const auto& own = lists.emplace_back(ints(sizes));
          const auto& steps = lists.emplace_back(ints(strides));
          lies.push_back({own, steps});
        }
        return tuple_of(result_strides(ints(shape), lies, numbers));
      },
      "shape"_a, "operands"_a, "numbers"_a,
      "The strides of what an elementwise operator makes of operands (shape, strides).");
  m.def(
      "copy_strides",
      [](nb::handle shape, nb::handle strides) {
        const std::vector<std::int64_t> sizes = ints(shape), steps = ints(strides);
        return tuple_of(copy_strides({sizes, steps}));
      },
      "shape"_a, "strides"_a, "The strides of a copy that keeps the memory order.");
  m.def(
      "copy_from_host",
      [](const Array& array, nb::handle buffer, std::uint64_t stream, bool non_blocking) {
        const BufferView view(buffer, false);
        copy_from_host(array, view.bytes(), stream_of(stream), non_blocking);
      },
      "array"_a, "buffer"_a, "stream"_a, "non_blocking"_a);
  m.def(
      "copy_to_host",
      [](const Array& array, nb::handle buffer, std::uint64_t stream, bool non_blocking) {
        const BufferView view(buffer, true);
        copy_to_host(array, view.bytes(), stream_of(stream), non_blocking);
      },
      "array"_a, "buffer"_a, "stream"_a, "non_blocking"_a);
  m.def(
      "copy_dense",
      [](const Array& to, const Array& source, std::uint64_t stream) {
        copy_dense(to, source, stream_of(stream));
      },
      "to"_a, "source"_a, "stream"_a);
  m.def(
      "fill_dense",
      [](const Array& array, nb::bytes pattern, std::uint64_t stream) {
        fill_dense(array, {pattern.c_str(), pattern.size()}, stream_of(stream));
      },
      "array"_a, "pattern"_a, "stream"_a);
  m.def(
      "to_dlpack",
      [](const Array& a, bool versioned) { return nb::steal(to_dlpack(a, versioned)); }, "array"_a,
      "versioned"_a);
  m.def(
      "from_dlpack", [](nb::handle capsule) { return wrap(from_dlpack(capsule.ptr())); },
      "capsule"_a);
  m.def(
      "adopt",
      [](nb::handle owner, std::uint64_t address, nb::handle shape, nb::handle strides,
         nb::handle dtype, int device) {
        // An array over memory that `owner` keeps alive.
        Array array;
        array.dtype = dtype_of(dtype);
        array.layout = strides.is_none() ? Layout::contiguous(ints(shape))
                                         : Layout(ints(shape), ints(strides));
        std::size_t bytes = array.layout.numel() == 0
                                ? 0
                                : (array.layout.extent().second + 1) * item_size(array.dtype);
        array.storage = StorageRef(
            Storage::adopt(device, address, bytes, owner.inc_ref().ptr(), [](void* object) {
              outlasting([&] {
                Acquired interpreter;
                Py_DECREF(static_cast<PyObject*>(object));
              });
            }));
        return wrap(std::move(array));
      },
      "owner"_a.none(), "address"_a, "shape"_a, "strides"_a.none(), "dtype"_a, "device"_a);
}

}  // namespace tritorch
