// Replays of a program by its numbers, and the functions by which Python tells of a recording.
#include <algorithm>

#include "compilation/replay.h"
#include "plans/trace.h"

namespace tritorch {
namespace {

constexpr std::size_t kMostReplays = 16;  // of a program, for different sizes

}  // namespace

Replay* Replays::find(const std::vector<Number>& numbers) {
  for (const Known& known : known_)
    if (!of_.dynamic || std::ranges::equal(known.numbers, numbers, same_number))
      return known.replay.get();
  if (known_.size() < kMostReplays) {
    known_.push_back({numbers, std::make_unique<Replay>(of_)});
    return known_.back().replay.get();
  }
  if (!std::exchange(told_, true)) {
    Ref done(PyObject_CallFunction(of_.tell.get(), "ss", "none",
                                   "its sizes and numbers were too many different ones"));
    if (!done) PyErr_WriteUnraisable(of_.tell.get());
  }
  return nullptr;
}

PyObject* Replays::describe() const {
  Ref list(PyList_New(0));
  for (const Known& known : known_) {
    Ref described(known.replay->describe());
    if (!list || !described || PyList_Append(list.get(), described.get()) < 0) return nullptr;
  }
  return list.release();
}

// ---- what Python is asked to tell ---------------------------------------------------------------

namespace {

PyObject* is_recording(PyObject*, PyObject*) { return PyBool_FromLong(recorder != nullptr); }

PyObject* recorded_draw(PyObject*, PyObject* args) {
  PyObject *generator, *seed, *offset;
  long long count;
  if (!PyArg_ParseTuple(args, "OLOO", &generator, &count, &seed, &offset)) return nullptr;
  Recording* recording = current_recording();
  if (!recording || !recording->asked) return Py_BuildValue("(OO)", seed, offset);
  recording->asked(generator, count, recording->number_count());
  Ref first(recording->number(seed)), second(recording->number(offset));
  return first && second ? PyTuple_Pack(2, first.get(), second.get()) : nullptr;
}

PyObject* recorded_number(PyObject*, PyObject* args) {
  PyObject *value, *keep;
  if (!PyArg_ParseTuple(args, "OO", &value, &keep)) return nullptr;
  Recording* recording = current_recording();
  if (!recording) return Py_NewRef(value);
  return recording->free_number(value, keep);
}

PyObject* unrecordable(PyObject*, PyObject* why) {
  const char* text = PyUnicode_AsUTF8(why);
  if (!text) return nullptr;
  if (Recording* recording = current_recording()) recording->unfit(text);
  plans::told_unfit(text);
  Py_RETURN_NONE;
}

PyObject* replay_counts(PyObject*, PyObject*) { return Replay::all_counts(); }

PyMethodDef functions[] = {{"is_recording", is_recording, METH_NOARGS, nullptr},
                           {"recorded_draw", recorded_draw, METH_VARARGS, nullptr},
                           {"recorded_number", recorded_number, METH_VARARGS, nullptr},
                           {"unrecordable", unrecordable, METH_O, nullptr},
                           {"replay_counts", replay_counts, METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool add_replay_functions(PyObject* module) {
  return PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace tritorch
