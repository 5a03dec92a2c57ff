#define PY_SSIZE_T_CLEAN
#include "profiling/python.h"

#include <cstring>
#include <string>

#include "profiling/device.h"
#include "profiling/functions.h"
#include "ref.h"
#include "tensor/fields.h"
#include "traces.h"

namespace tritorch::profiling {
namespace {

PyObject* numbers = nullptr;             // {name: its number}
PyObject* known_names = nullptr;         // by number
PyObject* name_handler = nullptr;        // (gate) -> what a profile calls it, or None
PyObject* record_handler = nullptr;      // (record) -> the same
PyObject* modules = nullptr;             // {address: the module}: of this profile's calls
PyObject* path_handler = nullptr;        // ([module, outermost first]) -> what it is called there
PyObject* parameters_handler = nullptr;  // (module) -> ((name, parameter, gradient), ...)

// ---- starting and reading -----------------------------------------------------------------------

// start(shapes, stacks, memory, modules, device, functions)
PyObject* start_profile(PyObject*, PyObject* args) {
  int shapes, stacks, memory, with_modules, device, calls = 0;
  if (!PyArg_ParseTuple(args, "ppppp|p", &shapes, &stacks, &memory, &with_modules, &device, &calls))
    return nullptr;
  PyDict_Clear(modules);
  if (memory && !watch_host_memory()) return nullptr;
  start({.shapes = shapes != 0,
         .stacks = stacks != 0,
         .memory = memory != 0,
         .modules = with_modules != 0,
         .device = device != 0,
         .functions = calls != 0});
  if (calls && !watch_functions()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* stop_profile(PyObject*, PyObject*) {
  stop();
  leave_functions();
  if (!leave_host_memory()) return nullptr;
  Py_RETURN_NONE;
}

PyObject* pause_profile(PyObject*, PyObject* paused) {
  const int truth = PyObject_IsTrue(paused);
  if (truth < 0) return nullptr;
  enabled = !truth;
  Py_RETURN_NONE;
}

PyObject* is_profiling(PyObject*, PyObject*) { return PyBool_FromLong(enabled); }
PyObject* shows_functions(PyObject*, PyObject*) {
  return PyBool_FromLong(enabled && options.functions);
}
PyObject* time_now(PyObject*, PyObject*) { return PyLong_FromLongLong(now()); }
PyObject* which_profile(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(generation); }

PyObject* bytes_of(Thread& thread) {
  const auto size = static_cast<Py_ssize_t>(thread.count * sizeof(Event));
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, size);
  if (!bytes) return nullptr;
  char* to = PyBytes_AS_STRING(bytes);
  for (std::size_t i = 0; i < thread.count; i += Thread::kChunk) {
    const std::size_t n = std::min(Thread::kChunk, thread.count - i) * sizeof(Event);
    std::memcpy(to, thread.chunks[i / Thread::kChunk].get(), n);
    to += n;
  }
  return bytes;
}

// read() -> [(thread, is the main one, events, words)], names, {address: module}
PyObject* read_profile(PyObject*, PyObject*) {
  PyObject* found = PyList_New(0);
  for (const auto& thread : threads()) {
    const Ref each(
        found
            ? Py_BuildValue(
                  "(KiNy#)", thread->id, int{thread->is_main}, bytes_of(*thread),
                  thread->words.empty() ? "" : reinterpret_cast<const char*>(thread->words.data()),
                  static_cast<Py_ssize_t>(thread->words.size() * 8))
            : nullptr);
    if (!each || PyList_Append(found, each.get()) < 0) Py_CLEAR(found);
  }
  if (!found) return nullptr;
  return Py_BuildValue("(NNN)", found,
                       PyList_GetSlice(known_names, 0, PyList_GET_SIZE(known_names)),
                       PyDict_Copy(modules));
}

// The list with another item, which is given up; null, and no list, on failure.
PyObject* with(PyObject* list, PyObject* owned) {
  const Ref item(owned);
  if (!list || !item || PyList_Append(list, item.get()) < 0) Py_CLEAR(list);
  return list;
}

// read_device() -> [(name, device, stream, thread, the launch's place there, begin, end, what CUPTI
// calls it, node, bytes, grid, block, registers, shared)]
PyObject* read_device_events(PyObject*, PyObject*) {
  std::vector<Span> spans;
  Py_BEGIN_ALLOW_THREADS;
  spans = read_device();
  Py_END_ALLOW_THREADS;
  PyObject* found = PyList_New(0);
  for (const Span& span : spans) {
    const Activity& a = span.activity;
    found =
        with(found, found ? Py_BuildValue("(IIKKKLLsKK(iii)(iii)Ii)", span.name, a.device, a.stream,
                                          span.thread, span.launch, a.begin, a.end, a.name.c_str(),
                                          a.node, a.bytes, a.grid[0], a.grid[1], a.grid[2],
                                          a.block[0], a.block[1], a.block[2], a.registers, a.shared)
                          : nullptr);
  }
  return found;
}

PyObject* row_of(const NodeNote& note) {
  return Py_BuildValue("(IIII)", note.name, note.op, note.module, note.stack);
}

// read_graphs() -> {number: [(name, op, module, stack)]}
PyObject* read_graph_notes(PyObject*, PyObject*) {
  Ref found(PyDict_New());
  if (!found) return nullptr;
  for (const auto& [number, nodes] : read_graphs()) {
    PyObject* list = PyList_New(0);
    for (const NodeNote& note : nodes) list = with(list, list ? row_of(note) : nullptr);
    const Ref rows(list), key(PyLong_FromUnsignedLong(number));
    if (!rows || !key || PyDict_SetItem(found.get(), key.get(), rows.get()) < 0) return nullptr;
  }
  return found.release();
}

// What the modules are called that are open at a place of a thread; 0: none is, or nobody says.
std::uint32_t path_of(const Thread& thread, std::uint32_t place) {
  if (!path_handler) return 0;
  Ref open(PyList_New(0));
  for (; place && open; place = thread.at(place - 1).parent) {
    const Event& event = thread.at(place - 1);
    if (event.kind != Kind::module) continue;
    const Ref address(PyLong_FromLongLong(event.sequence));
    PyObject* module = address ? PyDict_GetItemWithError(modules, address.get()) : nullptr;
    if (module && PyList_Append(open.get(), module) < 0) open = Ref();
  }
  std::uint32_t number = 0;
  if (open && PyList_GET_SIZE(open.get()) && PyList_Reverse(open.get()) == 0) {
    const Ref path(PyObject_CallOneArg(path_handler, open.get()));
    if (path && PyUnicode_Check(path.get())) number = number_of(path.get());
  }
  PyErr_Clear();  // an event is not worth an error
  return number == kUnnamed ? 0 : number;
}

// What is open at a place of a thread.
NodeNote note_at(const Thread& thread, std::uint32_t place) {
  NodeNote note;
  note.module = path_of(thread, place);
  for (; place; place = thread.at(place - 1).parent) {
    const Event& event = thread.at(place - 1);
    const bool names =
        event.kind == Kind::op || event.kind == Kind::node || event.kind == Kind::annotation;
    if (!note.op && names) note.op = event.name;
    if (!note.stack) note.stack = event.stack;
  }
  return note;
}

// captured(id) -> [(name, op, module, stack)] of what was launched into a capture
PyObject* read_captured(PyObject*, PyObject* id) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(id);
  if (PyErr_Occurred()) return nullptr;
  PyObject* found = PyList_New(0);
  for (const auto& [thread, event] : captured_launches(number)) {
    NodeNote note = note_at(*thread, event->parent);
    note.name = event->extra;
    if (event->stack) note.stack = event->stack;
    found = with(found, found ? row_of(note) : nullptr);
  }
  return found;
}

PyObject* limit_events(PyObject*, PyObject* most) {
  const std::size_t number = PyLong_AsSize_t(most);
  if (PyErr_Occurred()) return nullptr;
  options.most = number;
  Py_RETURN_NONE;
}

PyObject* watch_captures(PyObject*, PyObject*) {
  options.captures = true;
  Py_RETURN_NONE;
}

// mark(address, role): what memory is for, from now on.
PyObject* mark_memory(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "mark(address, role)");
  const unsigned long long address = PyLong_AsUnsignedLongLong(args[0]);
  const long role = PyLong_AsLong(args[1]);
  if (PyErr_Occurred()) return nullptr;
  if (enabled && options.memory) {
    Event* event = begin(here(), Kind::role, 0);
    event->end = event->begin;
    event->detail = static_cast<std::int64_t>(address);
    event->sequence = role;
  }
  Py_RETURN_NONE;
}

PyObject* use_activities(PyObject*, PyObject* paths) {
  std::vector<std::string> wanted;
  const Py_ssize_t n = PySequence_Size(paths);
  for (Py_ssize_t i = 0; i < n; ++i) {
    const Ref path(PySequence_GetItem(paths, i));
    const char* text = path ? PyUnicode_AsUTF8(path.get()) : nullptr;
    if (text) wanted.emplace_back(text);
  }
  if (PyErr_Occurred()) return nullptr;
  set_activity_libraries(std::move(wanted));
  Py_RETURN_NONE;
}

PyObject* why_no_activities(PyObject*, PyObject*) {
  return PyUnicode_FromString(activity_problem().c_str());
}

// stack(number) -> [(file, line, function)], innermost first
PyObject* stack_of(PyObject*, PyObject* number) {
  const unsigned long id = PyLong_AsUnsignedLong(number);
  if (PyErr_Occurred()) return nullptr;
  PyObject* found = PyList_New(0);
  for (const TraceFrame& frame : trace_frames(static_cast<memory::TraceId>(id))) {
    const Ref each(
        found ? Py_BuildValue("(sis)", frame.filename.c_str(), frame.line, frame.function.c_str())
              : nullptr);
    if (!each || PyList_Append(found, each.get()) < 0) Py_CLEAR(found);
  }
  return found;
}

// ---- events that Python opens -------------------------------------------------------------------

constexpr const char* kOpenEvent = "tritorch.profiling.Event";

struct Open {
  Event* event;
  std::uint64_t generation;
};

// Ends an event, if it has not ended and its profile goes on; whether it did.
bool end_now(const Open& open) {
  if (open.generation != generation || open.event->end) return false;
  open.event->end = now();
  here().close(open.event);
  return true;
}

// begin(kind, name, sequence=-1, arguments=()) -> an open event, or None
PyObject* begin_event(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2 || (n > 3 && !PyTuple_Check(args[3])))
    return PyErr_Format(PyExc_TypeError, "begin(kind, name, sequence, arguments)");
  if (!enabled) Py_RETURN_NONE;
  const long kind = PyLong_AsLong(args[0]);
  const long long sequence = n > 2 ? PyLong_AsLongLong(args[2]) : -1;
  const std::uint32_t name = number_of(args[1]);
  if (name == kUnnamed || PyErr_Occurred()) return nullptr;
  Thread& thread = here();
  Event* event = begin(thread, static_cast<Kind>(kind), name);
  thread.open = static_cast<std::uint32_t>(thread.count);
  event->sequence = sequence;
  if (n > 3 && event->kind == Kind::state) {
    write_call(event, PySequence_Fast_ITEMS(args[3]), PyTuple_GET_SIZE(args[3]), nullptr, true);
  } else if (n > 3) {
    describe_call(event, PySequence_Fast_ITEMS(args[3]), PyTuple_GET_SIZE(args[3]), nullptr);
  } else if (options.stacks) {
    event->stack = static_cast<std::uint32_t>(capture_trace());
  }
  auto* open = new Open{event, generation};
  // One that a Ctrl-C kept from being ended ends where it is dropped.
  return PyCapsule_New(open, kOpenEvent, [](PyObject* self) {
    auto* dropped = static_cast<Open*>(PyCapsule_GetPointer(self, kOpenEvent));
    end_now(*dropped);
    delete dropped;
  });
}

// end(open, result=None)
PyObject* end_event(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) return PyErr_Format(PyExc_TypeError, "end(open, result)");
  if (args[0] == Py_None) Py_RETURN_NONE;
  auto* found = static_cast<Open*>(PyCapsule_GetPointer(args[0], kOpenEvent));
  if (!found) return nullptr;
  if (end_now(*found) && n > 1) describe_result(found->event, args[1]);
  Py_RETURN_NONE;
}

PyObject* set_name_handler(PyObject*, PyObject* handler) {
  Py_XSETREF(name_handler, Py_NewRef(handler));
  Py_RETURN_NONE;
}

PyObject* set_record_handler(PyObject*, PyObject* handler) {
  Py_XSETREF(record_handler, Py_NewRef(handler));
  Py_RETURN_NONE;
}

// rename(open, name): what an open event is called, which was not known when it began.
PyObject* rename_event(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 2) return PyErr_Format(PyExc_TypeError, "rename(open, name)");
  if (args[0] == Py_None) Py_RETURN_NONE;
  auto* found = static_cast<Open*>(PyCapsule_GetPointer(args[0], kOpenEvent));
  const std::uint32_t name = found ? number_of(args[1]) : kUnnamed;
  if (name == kUnnamed) return nullptr;
  if (found->generation == generation) found->event->name = name;
  Py_RETURN_NONE;
}

PyObject* set_path_handler(PyObject*, PyObject* handler) {
  Py_XSETREF(path_handler, Py_NewRef(handler));
  Py_RETURN_NONE;
}

PyObject* set_parameters_handler(PyObject*, PyObject* handler) {
  Py_XSETREF(parameters_handler, Py_NewRef(handler));
  Py_RETURN_NONE;
}

// The items of a tuple of texts; false with a Python error set if there is another item.
bool read_texts(PyObject* tuple, std::vector<std::string>& texts) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i));
    if (!text) return false;
    texts.emplace_back(text);
  }
  return true;
}

PyObject* hide_files(PyObject*, PyObject* args) {
  const char* hidden;
  PyObject *shown, *helping;
  if (!PyArg_ParseTuple(args, "sO!O!", &hidden, &PyTuple_Type, &shown, &PyTuple_Type, &helping))
    return nullptr;
  std::vector<std::string> shown_files, helping_files;
  if (!read_texts(shown, shown_files) || !read_texts(helping, helping_files)) return nullptr;
  set_own_files(hidden, std::move(shown_files), std::move(helping_files));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"start", start_profile, METH_VARARGS,
     "(shapes, stacks, memory, modules, device, functions=False)"},
    {"stop", stop_profile, METH_NOARGS, nullptr},
    {"pause", pause_profile, METH_O, "(paused): writes nothing for a while, or goes on."},
    {"enabled", is_profiling, METH_NOARGS, nullptr},
    {"shows_functions", shows_functions, METH_NOARGS, "Whether Python's functions are events now."},
    {"generation", which_profile, METH_NOARGS, "The number of the profile that started last."},
    {"now", time_now, METH_NOARGS, "Nanoseconds of the clock of events."},
    {"read", read_profile, METH_NOARGS,
     "([(thread, is_main, events, words)], names, {address: module}) of the last profile."},
    {"read_device", read_device_events, METH_NOARGS,
     "[(name, device, stream, thread, the launch's place there, begin, end, what CUPTI calls it, "
     "node, bytes, grid, block, registers, shared)]: waits for them."},
    {"read_graphs", read_graph_notes, METH_NOARGS, "{graph: [(name, op, module, stack)]}"},
    {"captured", read_captured, METH_O, "[(name, op, module, stack)] of a capture's launches."},
    {"watch_captures", watch_captures, METH_NOARGS, "Launches say which capture they are part of."},
    {"limit", limit_events, METH_O, "(events of a thread, after which nothing is written)"},
    {"mark", TRITORCH_FASTCALL(mark_memory), "(address, role): what memory is for from now on."},
    {"use_activities", use_activities, METH_O, "([path]): where CUPTI is; nothing: without it."},
    {"why_no_activities", why_no_activities, METH_NOARGS, "Why there is no CUPTI, if it is known."},
    {"stack", stack_of, METH_O, "[(file, line, function)] of a stack's number, innermost first."},
    {"begin", TRITORCH_FASTCALL(begin_event),
     "(kind, name, sequence=-1, arguments=()): an open event."},
    {"end", TRITORCH_FASTCALL(end_event), "(open, result=None): ends an open event."},
    {"rename", TRITORCH_FASTCALL(rename_event), "(open, name): what it turned out to be."},
    {"set_name_handler", set_name_handler, METH_O, "(gate) -> what a profile calls it, or None."},
    {"set_record_handler", set_record_handler, METH_O,
     "(record) -> what a profile calls it, or None."},
    {"set_path_handler", set_path_handler, METH_O,
     "([module, outermost first]) -> what the last one is called there."},
    {"set_parameters_handler", set_parameters_handler, METH_O,
     "(module) -> ((name, parameter, gradient), ...)"},
    {"hide_files", hide_files, METH_VARARGS,
     "(hidden, (shown, ...), (helping, ...)): functions of files that start so have no events, but "
     "for some; nor those of helping files that they call."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "tritorch._C._profiling",
                          nullptr,
                          -1,
                          functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

std::uint32_t number_of(PyObject* name) {
  if (PyObject* known = PyDict_GetItemWithError(numbers, name))
    return static_cast<std::uint32_t>(PyLong_AsUnsignedLong(known));
  if (PyErr_Occurred()) return kUnnamed;
  const Py_ssize_t next = PyList_GET_SIZE(known_names);
  const Ref number(PyLong_FromSsize_t(next));
  const bool good = number && PyDict_SetItem(numbers, name, number.get()) == 0 &&
                    PyList_Append(known_names, name) == 0;
  return good ? static_cast<std::uint32_t>(next) : kUnnamed;
}

namespace {

std::uint32_t ask_name(PyObject* handler, PyObject* what) {
  if (!handler) return kUnnamed;
  const Ref name(PyObject_CallOneArg(handler, what));
  const std::uint32_t found =
      name && name.get() != Py_None ? number_of(name.get()) : std::uint32_t{kUnnamed};
  PyErr_Clear();  // an event is not worth an error
  return found;
}

}  // namespace

std::uint32_t number_of_gate(PyObject* gate) { return ask_name(name_handler, gate); }
std::uint32_t number_of_record(PyObject* op) { return ask_name(record_handler, op); }

void note_record(std::uint32_t name) {
  Thread& thread = here();
  if (!thread.open) return;
  const Event& around = thread.at(thread.open - 1);
  if (around.kind != Kind::op || around.name == name) return;
  Event* event = begin(thread, Kind::record, name);
  event->end = event->begin;
}

NodeNote note_of_now(std::uint32_t name) {
  NodeNote note = enabled ? note_at(here(), here().open) : NodeNote{};
  note.name = name;
  if (!note.stack) note.stack = static_cast<std::uint32_t>(capture_trace());
  return note;
}

// The type's own name is the event's; a module that is called again keeps its address while the
// profile holds it.
ModuleScope::ModuleScope(PyObject* module)
    : scope(Kind::module, [&] {
        const Ref name(PyType_GetName(Py_TYPE(module)));
        const std::uint32_t number = name ? number_of(name.get()) : kUnnamed;
        PyErr_Clear();
        return number == kUnnamed ? 0 : number;
      }()) {
  scope.event->sequence = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(module));
  const Ref address(PyLong_FromVoidPtr(module));
  const bool first = address && !PyDict_Contains(modules, address.get());
  if (first) PyDict_SetItem(modules, address.get(), module);
  if (options.functions) scope.event->detail = line_of_now();
  if (first && options.functions && parameters_handler) {
    const Ref found(PyObject_CallOneArg(parameters_handler, module));
    if (found && PyTuple_Check(found.get()))
      write_call(scope.event, PySequence_Fast_ITEMS(found.get()), PyTuple_GET_SIZE(found.get()),
                 nullptr, true);
  }
  PyErr_Clear();  // an event is not worth an error
}

bool add_functions(PyObject* module) {
  trace_of_now = [] { return static_cast<std::uint32_t>(capture_trace()); };
  numbers = PyDict_New();
  known_names = PyList_New(0);
  modules = PyDict_New();
  if (!numbers || !known_names || !modules) return false;
  for (const char* name : kKnownNames) {
    const Ref text(PyUnicode_FromString(name));
    if (!text || number_of(text.get()) == kUnnamed) return false;
  }
  PyObject* own = PyModule_Create(&definition);
  return own && PyModule_AddObject(module, "_profiling", own) == 0;
}

}  // namespace tritorch::profiling
