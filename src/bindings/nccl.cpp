// tritorch._C.nccl: communicators of NCCL, real or simulated.
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "bindings/convert.h"
#include "driver/blocking.h"
#include "driver/context.h"
#include "driver/fork.h"
#include "nccl/table.h"

namespace tritorch {
namespace {

using namespace nccl;

nccl::Library real;
const nccl::Library* loaded = nullptr;

// Loads the library; "" or what is wrong.
std::string load(const std::string& path) {
  if (loaded) return "";
  if (simulation_requested()) {
    loaded = &simulated_library();
    return "";
  }
  std::string problem;
  if (!load_real_library(path, real, problem)) return problem;
  loaded = &real;
  return "";
}

const nccl::Library& library() {
  if (!loaded) throw std::runtime_error("NCCL is not loaded");
  return *loaded;
}

void check(Result result, const char* what, Comm comm = nullptr) {
  if (result == kSuccess || result == kInProgress) return;
  std::string text = std::string(what) + " failed: " + library().ncclGetErrorString(result);
  if (library().ncclGetLastError)
    if (const char* more = library().ncclGetLastError(comm); more && *more)
      text += std::string(" (") + more + ")";
  throw std::runtime_error(text);
}

// A communicator, whose memory is NCCL's until it is destroyed or aborted.
class Handle {
 public:
  Handle(int size, const UniqueId& id, int rank, int device) : device_(device) {
    const DeviceScope scope(device);
    // Before the first call that uses the device: the context is there.
    const BlockingRegion released;
    Result result;
    if (library().ncclCommInitRankConfig) {
      Config config = settings();
      result = library().ncclCommInitRankConfig(&comm_, size, id, rank, &config);
    } else {
      result = library().ncclCommInitRank(&comm_, size, id, rank);
    }
    made(result, "ncclCommInitRank");
  }
  Handle(Handle& parent, int color, int key) : device_(parent.device_) {
    if (!library().ncclCommSplit) throw std::runtime_error("this NCCL splits no communicators");
    const DeviceScope scope(device_);
    const BlockingRegion released;
    Config config = settings();
    made(library().ncclCommSplit(parent.comm_, color, key, &comm_, &config), "ncclCommSplit");
  }
  ~Handle() = default;  // an end that waits for others is for the program to choose
  Handle(const Handle&) = delete;

  // Success, in progress, or an error, as a number and in words.
  std::pair<int, std::string> state() {
    const BlockingRegion released;  // first: who has the lock never waits for Python's
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!comm_) return {kSuccess, "ended"};
    Result error = kSuccess;
    check(library().ncclCommGetAsyncError(comm_, &error), "ncclCommGetAsyncError");
    return {error, library().ncclGetErrorString(error)};
  }
  void end(bool abort) {
    Comm comm;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      comm = std::exchange(comm_, nullptr);
    }
    if (!comm) return;
    const DeviceScope scope(device_);
    const BlockingRegion released;
    if (!abort && library().ncclCommFinalize) {
      library().ncclCommFinalize(comm);
      Result state = kInProgress;
      while (library().ncclCommGetAsyncError(comm, &state) == kSuccess && state == kInProgress) {
      }
    }
    abort ? library().ncclCommAbort(comm) : library().ncclCommDestroy(comm);
  }
  template <class Call>
  void call(const char* what, Call&& call) {
    if (!comm_) throw std::runtime_error("the communicator was ended");
    const DeviceScope scope(device_);
    Result result;
    {
      const BlockingRegion released;
      result = call(comm_);
    }
    check(result, what, comm_);
  }

 private:
  static Config settings() {
    Config config{};
    config.blocking = 0;
    config.cgaClusterSize = config.minCTAs = config.maxCTAs = config.splitShare = kUndefined;
    return config;
  }
  void made(Result result, const char* what) {
    if (result == kSuccess || result == kInProgress) return;
    throw std::runtime_error(std::string(what) +
                             " failed: " + library().ncclGetErrorString(result));
  }
  ForkMutex mutex_;
  Comm comm_ = nullptr;
  int device_;
};

template <class T = void>
T* pointer(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

void bind_nccl(nb::module_& m) {
  nb::module_ sub = m.def_submodule("nccl", "Communicators of NCCL.");
  sub.def("load", &load, "path"_a);
  sub.def("loaded", [] { return loaded != nullptr; });
  sub.def("version", [] {
    int version = 0;
    check(library().ncclGetVersion(&version), "ncclGetVersion");
    return version;
  });
  sub.def("unique_id", [] {
    UniqueId id;
    Result result;
    {
      const BlockingRegion released;
      result = library().ncclGetUniqueId(&id);
    }
    check(result, "ncclGetUniqueId");
    return nb::bytes(id.internal, sizeof(id.internal));
  });
  sub.def("group_start", [] { check(library().ncclGroupStart(), "ncclGroupStart"); });
  sub.def("group_end", [] {
    Result result;
    {
      const BlockingRegion released;
      result = library().ncclGroupEnd();
    }
    check(result, "ncclGroupEnd");
  });
  nb::class_<Handle>(sub, "Communicator")
      .def(
          "__init__",
          [](Handle* self, int size, nb::bytes id, int rank, int device) {
            UniqueId given{};
            if (id.size() != sizeof(given.internal))
              throw std::invalid_argument("a unique id has 128 bytes");
            std::memcpy(given.internal, id.c_str(), id.size());
            new (self) Handle(size, given, rank, device);
          },
          "size"_a, "id"_a, "rank"_a, "device"_a)
      .def(
          "split",
          [](Handle& self, int color, int key) {
            return std::make_unique<Handle>(self, color, key);
          },
          "color"_a, "key"_a)
      .def_prop_ro("state", &Handle::state)
      .def("destroy", [](Handle& self) { self.end(false); })
      .def("abort", [](Handle& self) { self.end(true); })
      .def(
          "all_reduce",
          [](Handle& self, std::uintptr_t in, std::uintptr_t out, std::size_t count, int type,
             int op, std::uintptr_t stream) {
            self.call("ncclAllReduce", [&](Comm comm) {
              return library().ncclAllReduce(pointer(in), pointer(out), count,
                                             static_cast<DataType>(type), static_cast<ReduceOp>(op),
                                             comm, stream_of(stream));
            });
          },
          "input"_a, "output"_a, "count"_a, "dtype"_a, "op"_a, "stream"_a)
      .def(
          "reduce",
          [](Handle& self, std::uintptr_t in, std::uintptr_t out, std::size_t count, int type,
             int op, int root, std::uintptr_t stream) {
            self.call("ncclReduce", [&](Comm comm) {
              return library().ncclReduce(pointer(in), pointer(out), count,
                                          static_cast<DataType>(type), static_cast<ReduceOp>(op),
                                          root, comm, stream_of(stream));
            });
          },
          "input"_a, "output"_a, "count"_a, "dtype"_a, "op"_a, "root"_a, "stream"_a)
      .def(
          "broadcast",
          [](Handle& self, std::uintptr_t data, std::size_t count, int type, int root,
             std::uintptr_t stream) {
            self.call("ncclBroadcast", [&](Comm comm) {
              return library().ncclBroadcast(pointer(data), pointer(data), count,
                                             static_cast<DataType>(type), root, comm,
                                             stream_of(stream));
            });
          },
          "data"_a, "count"_a, "dtype"_a, "root"_a, "stream"_a)
      .def(
          "all_gather",
          [](Handle& self, std::uintptr_t in, std::uintptr_t out, std::size_t count, int type,
             std::uintptr_t stream) {
            self.call("ncclAllGather", [&](Comm comm) {
              return library().ncclAllGather(pointer(in), pointer(out), count,
                                             static_cast<DataType>(type), comm, stream_of(stream));
            });
          },
          "input"_a, "output"_a, "count"_a, "dtype"_a, "stream"_a)
      .def(
          "reduce_scatter",
          [](Handle& self, std::uintptr_t in, std::uintptr_t out, std::size_t count, int type,
             int op, std::uintptr_t stream) {
            self.call("ncclReduceScatter", [&](Comm comm) {
              return library().ncclReduceScatter(
                  pointer(in), pointer(out), count, static_cast<DataType>(type),
                  static_cast<ReduceOp>(op), comm, stream_of(stream));
            });
          },
          "input"_a, "output"_a, "count"_a, "dtype"_a, "op"_a, "stream"_a)
      .def(
          "send",
          [](Handle& self, std::uintptr_t data, std::size_t count, int type, int peer,
             std::uintptr_t stream) {
            self.call("ncclSend", [&](Comm comm) {
              return library().ncclSend(pointer(data), count, static_cast<DataType>(type), peer,
                                        comm, stream_of(stream));
            });
          },
          "data"_a, "count"_a, "dtype"_a, "peer"_a, "stream"_a)
      .def(
          "receive",
          [](Handle& self, std::uintptr_t data, std::size_t count, int type, int peer,
             std::uintptr_t stream) {
            self.call("ncclRecv", [&](Comm comm) {
              return library().ncclRecv(pointer(data), count, static_cast<DataType>(type), peer,
                                        comm, stream_of(stream));
            });
          },
          "data"_a, "count"_a, "dtype"_a, "peer"_a, "stream"_a);
}

}  // namespace tritorch
