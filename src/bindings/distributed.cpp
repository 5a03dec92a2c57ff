// tritorch._C.distributed: stores, and the groups of the gloo backend.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdlib>
#include <memory>

#include "bindings/convert.h"
#include "distributed/board_engine.h"
#include "distributed/group.h"
#include "distributed/meeting.h"
#include "distributed/mesh_engine.h"
#include "distributed/sha256.h"
#include "distributed/store_server.h"
#include "distributed/stores.h"
#include "driver/blocking.h"
#include "interpreter.h"
#include "ref.h"

namespace tritorch {
namespace {

using namespace distributed;
using std::chrono::milliseconds;

PyObject* errors[static_cast<int>(Trouble::empty) + 1];

// Without Python's lock, and open to Ctrl-C.
class Released {
 public:
  Released() { may_be_interrupted = true; }
  ~Released() { may_be_interrupted = false; }

 private:
  BlockingRegion released_;
};

// Objects of Python that threads without its lock have done with: the next call lets them go.
struct Dropped {
  ForkMutex mutex;
  std::vector<PyObject*> objects;

  void add(void* object) {
    const std::lock_guard lock(mutex);
    objects.push_back(static_cast<PyObject*>(object));
  }
  void release() {
    std::vector<PyObject*> all;
    {
      const std::lock_guard lock(mutex);
      all.swap(objects);
    }
    for (PyObject* each : all) Py_DECREF(each);
  }
};
Dropped& dropped() {
  static auto* objects = new Dropped;  // outlives what runs at exit
  return *objects;
}

std::shared_ptr<void> hold(nb::handle object) {
  dropped().release();
  return {object.inc_ref().ptr(), [](void* held) { dropped().add(held); }};
}

// A group as Python has it: who lets it go does not wait for its threads.
struct Member {
  std::shared_ptr<Group> group;
  explicit Member(std::shared_ptr<Group> made) : group(std::move(made)) { register_group(group); }
  Member(const Member&) = delete;
  ~Member() { group->leave(); }
};

bool look_at_signals() {
  return outlasting([] {
    Acquired interpreter;
    return PyErr_CheckSignals() != 0;  // the error stays set, in this thread
  });
}

void add_errors(nb::module_& m) {
  const auto add = [&](const char* name, const char* doc, PyObject* base) {
    const std::string qualified = std::string("tritorch.distributed.") + name;
    PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, base, nullptr);
    if (!type) throw nb::python_error();
    m.attr(name) = nb::borrow(type);
    return type;
  };
  PyObject* any = add("DistError", "Something failed between processes.", PyExc_RuntimeError);
  PyObject* backend = add("DistBackendError", "A collective or a message failed.", any);
  PyObject* network = add("DistNetworkError", "There is no connection.", any);
  PyObject* store = add("DistStoreError", "A store refused, or did not answer in time.", any);
  PyObject* empty = add("QueueEmptyError", "A queue of a store has nothing.", store);
  for (const Trouble kind : {Trouble::backend, Trouble::mismatch, Trouble::timeout, Trouble::lost})
    errors[static_cast<int>(kind)] = backend;
  errors[static_cast<int>(Trouble::network)] = network;
  errors[static_cast<int>(Trouble::store)] = store;
  errors[static_cast<int>(Trouble::empty)] = empty;
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Error& error) {
      PyErr_SetString(errors[static_cast<int>(error.kind)], error.what());
    } catch (const Interrupted&) {
    }
  });
}

template <class T>
std::vector<std::string> texts(const T& list) {
  std::vector<std::string> out;
  for (nb::handle each : list) {
    char* data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(each.ptr(), &data, &size)) throw nb::python_error();
    out.emplace_back(data, static_cast<std::size_t>(size));
  }
  return out;
}

nb::list bytes_of(const std::vector<std::string>& strings) {
  nb::list out;
  for (const std::string& each : strings) out.append(nb::bytes(each.data(), each.size()));
  return out;
}

nb::tuple call_store(StoreEngine& engine, int op, nb::list keys, nb::list values,
                     std::int64_t number, std::uint32_t timeout) {
  StoreRequest request{static_cast<StoreOp>(op), number, timeout, texts(keys), texts(values)};
  StoreReply reply;
  {
    const Released released;
    reply = engine.call(request);
  }
  return nb::make_tuple(static_cast<int>(reply.status), reply.number, bytes_of(reply.values));
}

std::string text(nb::bytes bytes) { return {bytes.c_str(), bytes.size()}; }

void bind_stores(nb::module_& m) {
  nb::dict operations;
#define TRITORCH_ENTRY(name) operations[#name] = static_cast<int>(StoreOp::name);
  TRITORCH_STORE_OPS(TRITORCH_ENTRY)
#undef TRITORCH_ENTRY
  m.attr("store_operations") = operations;
  nb::class_<StoreEngine>(m, "StoreEngine")
      .def("call", &call_store, "op"_a, "keys"_a, "values"_a, "number"_a, "timeout"_a);
  nb::class_<HashEngine, StoreEngine>(m, "HashEngine").def(nb::init<>());
  nb::class_<FileEngine, StoreEngine>(m, "FileEngine").def(nb::init<std::string>(), "path"_a);
  nb::class_<ClientEngine, StoreEngine>(m, "ClientEngine")
      .def(
          "__init__",
          [](ClientEngine* self, std::string host, int port, nb::bytes secret,
             std::int64_t timeout) {
            const std::string known = text(secret);
            const Released released;
            new (self) ClientEngine(host, port, known, Deadline::in(milliseconds(timeout)));
          },
          "host"_a, "port"_a, "secret"_a, "timeout"_a);
  nb::class_<StoreServer>(m, "StoreServer")
      .def(
          "__init__",
          [](StoreServer* self, const std::string& host, int port, nb::bytes secret, int listener) {
            new (self) StoreServer(host, port, text(secret), listener);
          },
          "host"_a, "port"_a, "secret"_a, "listener"_a = -1)
      .def_prop_ro("address",
                   [](StoreServer& self) {
                     const Address address = self.address();
                     return nb::make_tuple(address.host, address.port);
                   })
      .def("stop", &StoreServer::stop, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "sha256",
      [](nb::bytes message) {
        const std::string out = sha256(text(message));
        return nb::bytes(out.data(), out.size());
      },
      "message"_a);
  m.def(
      "hmac",
      [](nb::bytes secret, nb::bytes message) {
        const std::string out = hmac(text(secret), text(message));
        return nb::bytes(out.data(), out.size());
      },
      "secret"_a, "message"_a);
}

std::vector<Piece> pieces(nb::list list) {
  std::vector<Piece> out;
  for (nb::handle each : list) {
    const auto [address, size] = nb::cast<std::pair<std::uintptr_t, std::size_t>>(each);
    out.push_back({reinterpret_cast<char*>(address), size});
  }
  return out;
}

// What every kind of operation has in its lists, so that no wrong call reads a list's end.
void check(const Operation& operation, int rank, int size) {
  const auto n = static_cast<std::size_t>(size);
  const bool root = rank == operation.root;
  std::size_t in = 1, out = 1;
  switch (operation.kind) {
    case Kind::broadcast:
    case Kind::barrier:
      in = 0;
      out = operation.kind == Kind::broadcast;
      break;
    case Kind::all_gather:
      out = n;
      break;
    case Kind::gather:
      out = root ? n : 0;
      break;
    case Kind::scatter:
      in = root ? n : 0;
      break;
    case Kind::reduce_scatter:
      in = n;
      break;
    case Kind::all_to_all:
      in = out = n;
      break;
    default:
      break;
  }
  if (operation.in.size() != in || operation.out.size() != out || operation.root < 0 ||
      operation.root >= size)
    throw Error(Trouble::backend, "a collective has the wrong number of buffers");
  if (operation.kind == Kind::all_to_all) return;
  for (const auto* list : {&operation.in, &operation.out})
    for (const Piece& piece : *list)
      if (piece.size != operation.common())
        throw Error(Trouble::backend, "the buffers of a collective differ in size");
}

std::shared_ptr<Task> submit(Member& self, int kind, int op, int dtype, int root, nb::list in,
                             nb::list out, nb::list held, std::int64_t timeout,
                             std::uint64_t sequence, std::uint64_t call, bool wait) {
  Operation operation{static_cast<Kind>(kind),
                      static_cast<ReduceOp>(op),
                      static_cast<DType>(dtype),
                      root,
                      pieces(in),
                      pieces(out),
                      milliseconds(timeout),
                      call,
                      hold(held)};
  check(operation, self.group->rank(), self.group->size());
  const Released released;
  return self.group->submit(std::move(operation), sequence, wait);
}

nb::object failure_of(const std::optional<Failure>& failure) {
  if (!failure) return nb::none();
  static const char* names[] = {"backend", "mismatch", "timeout", "lost", "network", "store", ""};
  return nb::make_tuple(names[static_cast<int>(failure->kind)], failure->message, failure->absent);
}

void bind_tasks(nb::module_& m) {
  nb::class_<Task>(m, "Task")
      .def_prop_ro("done", &Task::done)
      .def_prop_ro("failure", [](Task& self) { return failure_of(self.failure()); })
      .def_ro("source", &Task::source)
      .def(
          "wait",
          [](Task& self, std::int64_t timeout) {
            const Released released;
            const bool over = self.wait(Deadline::in(milliseconds(timeout)));
            // A daemon has nobody to tell that its wait has failed as Python ends.
            while (over && self.failure() && distributed::is_left_behind()) pause();
            return over;
          },
          "timeout"_a)
      .def(
          "then",
          [](Task& self, nb::object function) {
            PyObject* held = function.release().ptr();
            const BlockingRegion released;
            self.then([held] {
              outlasting([held] {
                Acquired interpreter;
                const Ref called(held), result(PyObject_CallNoArgs(held));
                if (!result) PyErr_WriteUnraisable(held);
              });
            });
          },
          "function"_a);
}

struct Listener {
  Descriptor fd;
};

// Closes a board's file once all have mapped it.
struct BoardFile {
  Descriptor fd;
};

void bind_groups(nb::module_& m) {
  nb::class_<Listener>(m, "Listener")
      .def(
          "__init__",
          [](Listener* self, const std::string& host) { new (self) Listener{listen_on(host, 0)}; },
          "host"_a)
      .def_prop_ro("address", [](Listener& self) {
        const Address address = bound_address(self.fd.get());
        return nb::make_tuple(address.host, address.port);
      });
  nb::class_<BoardFile>(m, "BoardFile")
      .def(
          "__init__",
          [](BoardFile* self, int size, nb::bytes token) {
            new (self) BoardFile{Board::create(size, text(token))};
          },
          "size"_a, "token"_a)
      .def_prop_ro("number", [](BoardFile& self) { return self.fd.get(); });
  nb::class_<Engine>(m, "Engine");
  m.def(
      "board_engine",
      [](int owner, int file, int rank, int size, nb::bytes token) -> std::unique_ptr<Engine> {
        return std::make_unique<BoardEngine>(owner, file, rank, size, text(token));
      },
      "owner"_a, "file"_a, "rank"_a, "size"_a, "token"_a);
  nb::class_<Member>(m, "Group")
      // engine: of shared memory; none: over sockets.
      .def(
          "__init__",
          [](Member* self, int rank, int size, std::optional<std::unique_ptr<Engine>> engine,
             Listener& listener, const std::vector<std::pair<std::string, int>>& places,
             nb::bytes secret, std::int64_t timeout, nb::object board) {
            std::vector<Address> addresses;
            for (const auto& [host, port] : places) addresses.push_back({host, port});
            const std::string token = text(secret);
            auto held = hold(board);
            std::unique_ptr<Engine> chosen = engine ? std::move(*engine) : nullptr;
            const Released released;
            Sockets sockets = meet(listener.fd.get(), addresses, rank, token, !chosen,
                                   Deadline::in(milliseconds(timeout)));
            if (!chosen)
              chosen = std::make_unique<MeshEngine>(std::move(sockets.collectives), rank);
            new (self) Member(std::make_shared<Group>(
                rank, size, std::move(chosen),
                std::make_shared<Messages>(std::move(sockets.messages)), std::move(held)));
          },
          "rank"_a, "size"_a, "engine"_a.none(), "listener"_a, "addresses"_a, "token"_a,
          "timeout"_a, "board"_a.none())
      .def_static(
          "alone",
          [] { return std::make_unique<Member>(std::make_shared<Group>(0, 1, nullptr, nullptr)); })
      .def("submit", &submit, "kind"_a, "op"_a, "dtype"_a, "root"_a, "inputs"_a, "outputs"_a,
           "held"_a, "timeout"_a, "sequence"_a, "call"_a, "wait"_a)
      .def(
          "send",
          [](Member& self, int peer, std::uint64_t tag, std::uintptr_t address, std::size_t size,
             nb::list held, std::int64_t timeout) {
            auto owner = hold(held);
            const Released released;
            return self.group->messages().send(peer, tag, {reinterpret_cast<char*>(address), size},
                                               milliseconds(timeout), std::move(owner));
          },
          "peer"_a, "tag"_a, "address"_a, "size"_a, "held"_a, "timeout"_a)
      .def(
          "receive",
          [](Member& self, int peer, std::uint64_t tag, std::uintptr_t address, std::size_t size,
             nb::list held, std::int64_t timeout) {
            auto owner = hold(held);
            const Released released;
            return self.group->messages().receive(peer, tag,
                                                  {reinterpret_cast<char*>(address), size},
                                                  milliseconds(timeout), std::move(owner));
          },
          "peer"_a, "tag"_a, "address"_a, "size"_a, "held"_a, "timeout"_a)
      .def(
          "give_up",
          [](Member& self, const std::string& reason) {
            const Released released;
            self.group->give_up(reason);
          },
          "reason"_a)
      .def("stop",
           [](Member& self) {
             const Released released;
             self.group->stop();
           })
      .def_prop_ro("failure", [](Member& self) { return failure_of(self.group->failure()); });
  m.def(
      "leave_groups",
      [](std::int64_t patience) {
        const Released released;
        leave_groups(Deadline::in(milliseconds(patience)));
      },
      "patience"_a);
  m.def("end_waiting", [] { distributed::ending = true; });
  nb::dict kinds, ops;
#define TRITORCH_ENTRY(name) kinds[#name] = static_cast<int>(Kind::name);
  TRITORCH_COLLECTIVES(TRITORCH_ENTRY)
#undef TRITORCH_ENTRY
#define TRITORCH_ENTRY(name) ops[#name] = static_cast<int>(distributed::ReduceOp::name);
  TRITORCH_REDUCE_OPS(TRITORCH_ENTRY)
#undef TRITORCH_ENTRY
  m.attr("kinds") = kinds;
  m.attr("reduce_ops") = ops;
  m.def(
      "refuses",
      [](int op, int dtype) {
        return refuses(static_cast<distributed::ReduceOp>(op), static_cast<DType>(dtype));
      },
      "op"_a, "dtype"_a);
  // Sums, and the like, of buffers in one process.
  m.def(
      "reduce",
      [](int op, int dtype, std::uintptr_t out, const std::vector<std::uintptr_t>& inputs,
         std::size_t count) {
        std::vector<const void*> addresses;
        for (const std::uintptr_t each : inputs)
          addresses.push_back(reinterpret_cast<const void*>(each));
        const int n = static_cast<int>(addresses.size());
        const BlockingRegion released;
        reduce(static_cast<distributed::ReduceOp>(op), static_cast<DType>(dtype),
               reinterpret_cast<void*>(out), addresses.data(), n, count, n);
      },
      "op"_a, "dtype"_a, "out"_a, "inputs"_a, "count"_a);
  m.def("interface_towards", &interface_towards, "host"_a, "port"_a,
        nb::call_guard<nb::gil_scoped_release>());
  m.def("address_of_interface", &address_of_interface, "name"_a);
}

}  // namespace

void bind_distributed(nb::module_& m) {
  nb::module_ sub = m.def_submodule("distributed", "Stores, and groups of processes.");
  distributed::interrupted = look_at_signals;
  add_errors(sub);
  bind_stores(sub);
  bind_tasks(sub);
  bind_groups(sub);
}

}  // namespace tritorch
