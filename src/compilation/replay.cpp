// Runs of a program: recorded, replayed, or made by its functions.
#include <algorithm>
#include <cstring>

#include "compilation/replay_run.h"
#include "driver/context.h"

namespace tritorch {

ReplayCounts replaying::counts;

namespace {

constexpr int kMostMisfits = 2;  // runs in a row that do not fit, until it is recorded anew

bool is_capturing(cu::CUstream stream) {
  cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
  cu::cuuint64_t id;
  BlockingRegion region;
  const cu::CUresult result =
      driver().cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
  return result != cu::CUDA_SUCCESS || status != cu::CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace

// Writes the present value of a source to all nodes that have it.
void Replay::Built::set(std::size_t source, std::uint64_t value) {
  if (values[source] == value) return;
  for (const Use& use : uses[source]) {
    unsigned char* place = run->record.nodes[use.node].bytes() + use.place;
    if (use.map >= 0) {
      TensorMapRequest request = run->record.maps[static_cast<std::size_t>(use.map)];
      request.address = value + static_cast<std::uint64_t>(use.delta);
      const cu::CUtensorMap map = tensor_map(request);
      std::memcpy(place, &map, sizeof map);
    } else {
      const std::uint64_t bits = value + static_cast<std::uint64_t>(use.delta);
      std::memcpy(place, &bits, use.size);
    }
    if (std::exchange(changed_in[use.node], runs) != runs) ++changed;
    if (!is_stale[use.node]) {
      is_stale[use.node] = true;
      stale.push_back(use.node);
    }
  }
  values[source] = value;
}

// Notes the next value of a number; false where it is wider than its kernels take it.
bool Replay::Built::fits(std::size_t source, PyObject* number) {
  const std::uint64_t bits = PyLong_AsUnsignedLongLongMask(number);
  for (const Use& use : uses[source]) {
    const int spare = 64 - 8 * static_cast<int>(use.size);
    const auto kept = static_cast<std::int64_t>(bits << spare) >> spare;
    if (static_cast<std::uint64_t>(kept) != bits) return false;
  }
  now[source] = bits;
  return true;
}

Replay::Replay(const Replayed& of) : of_(of) {}

Replay::~Replay() = default;

bool Replay::is_computed(std::size_t value) const {
  return std::ranges::count(of_.computed, static_cast<int>(value)) != 0;
}

bool Replay::make_calls(std::vector<Ref>& values, const Numbers& numbers) {
  ++plain_;
  ++counts.plain;
  std::vector<PyObject*> args(of_.most);
  for (const Call& call : of_.calls) {
    if (!make_call(call, values, numbers, args.data())) return false;
    let_go(call, values);
  }
  return true;
}

void Replay::told(const char* what, const std::string& text) {
  Ref done(PyObject_CallFunction(of_.tell.get(), "ss", what, text.c_str()));
  if (!done) PyErr_WriteUnraisable(of_.tell.get());
}

void Replay::give_up(const std::string& why) {
  gave_up_ = why;
  taken_.reset();
  built_.reset();
  told("none", why);
}

bool Replay::compute(std::vector<Ref>& values, const Numbers& numbers) {
  if (!gave_up_.empty() || busy_ || recorder || !driver_loaded())
    return make_calls(values, numbers);
  Set busy(busy_, true);
  int device = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    if (const Array* array = as_array(values[i].get())) {
      if (device < 0) device = array->device();
    } else if (!PyLong_CheckExact(values[i].get()) && !is_computed(i)) {
      give_up("not all inputs are on a GPU");
      return make_calls(values, numbers);
    }
  }
  if (device < 0) device = current_device();
  return guarded([&] {
    bind(device);
    const cu::CUstream stream = current_stream(device);
    if (is_capturing(stream)) return make_calls(values, numbers);
    if (built_) {
      const Outcome outcome = device == built_->device && stream == built_->stream
                                  ? replay(values, numbers)
                                  : Outcome::misfit;
      if (outcome != Outcome::misfit) {
        misfits_ = 0;
        return outcome == Outcome::done;
      }
      if (gave_up_.empty() && ++misfits_ >= kMostMisfits) {
        built_.reset();
        misfits_ = tries_ = 0;
      }
      return make_calls(values, numbers);
    }
    return record(values, numbers, device, stream);
  });
}

// ---- replaying ----------------------------------------------------------------------------------

// Asks generators, and makes the calls that give no arrays.
Replay::Outcome Replay::ask(std::vector<Ref>& values, const Numbers& numbers,
                            std::vector<std::pair<Ref, long long>>& drawn) {
  Built& b = *built_;
  std::vector<PyObject*> args(of_.most);
  for (const Asked& each : b.run->asked) {
    if (each.call >= 0) {
      const Call& call = of_.calls[static_cast<std::size_t>(each.call)];
      if (!make_call(call, values, numbers, args.data())) return Outcome::error;
      continue;
    }
    Ref pair(PyObject_CallMethod(each.generator.get(), "draw", "L", each.count));
    if (!pair) return Outcome::error;
    PyObject *seed, *offset;
    if (!PyArg_ParseTuple(pair.get(), "OO", &seed, &offset)) return Outcome::error;
    drawn.emplace_back(each.generator, PyLong_AsLongLong(offset));
    if (!b.fits(b.number(each.number), seed) || !b.fits(b.number(each.number + 1), offset))
      return Outcome::misfit;
  }
  return Outcome::done;
}

Replay::Outcome Replay::replay(std::vector<Ref>& values, const Numbers& numbers) {
  Built& b = *built_;
  const Run& run = *b.run;
  const std::size_t n_inputs = run.anchors.size();
  // Inputs: as they lay, but for where.
  std::vector<StorageRef> inputs(n_inputs);
  bool moved = b.lay_in.size() != n_inputs;
  for (const Given& each : run.given) {
    const Ref& value = values[static_cast<std::size_t>(each.value)];
    const Array* array = value ? as_array(value.get()) : nullptr;
    if (!array || array->device() != b.device) return Outcome::misfit;
    StorageRef& storage = inputs[each.input];
    if (!storage.get()) {
      if (array->data() % kAlignment != run.anchors[each.input] % kAlignment)
        return Outcome::misfit;
      storage = array->storage;
      b.now[each.input] = array->data();
      moved = moved || b.lay_in[each.input] != storage.get();
    } else if (storage.get() != array->storage.get() ||
               array->data() - b.now[each.input] != static_cast<std::uint64_t>(each.delta)) {
      return Outcome::misfit;
    }
  }
  if (moved) {  // those that did not share memory still must not
    b.lay_in.clear();
    for (const StorageRef& each : inputs) b.lay_in.push_back(each.get());
    std::vector<const Storage*> sorted = b.lay_in;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) {
      b.lay_in.clear();
      return Outcome::misfit;
    }
  }
  for (const GivenNumber& each : run.given_numbers) {
    PyObject* value = values[static_cast<std::size_t>(each.value)].get();
    if (!value || !PyLong_Check(value) || !b.fits(b.number(each.number), value))
      return Outcome::misfit;
  }
  for (const Result& each : run.results)
    if (each.origin.kind == Origin::input && each.kind == Result::array) {
      const std::uint64_t at =
          b.now[each.origin.index] + static_cast<std::uint64_t>(each.origin.delta);
      if ((at - inputs[each.origin.index]->address) % item_size(each.dtype)) return Outcome::misfit;
    }

  std::vector<std::pair<Ref, long long>> drawn;
  Outcome outcome = ask(values, numbers, drawn);
  bool queued = false;
  if (outcome == Outcome::done) try {
      ++b.runs;
      b.changed = 0;
      for (auto& [i, storage] : b.escaping) {
        if (!storage.get() || !storage->alone())
          storage =
              StorageRef(Storage::allocate(b.device, run.record.allocations[i].bytes, b.stream));
        b.now[b.allocation(i)] = storage->address;
        b.set(b.allocation(i), storage->address);
      }
      for (std::size_t i = 0; i < n_inputs; ++i) b.set(i, b.now[i]);
      for (std::size_t i = b.number(0); i < b.values.size(); ++i) b.set(i, b.now[i]);
      const std::size_t worth = std::max<std::size_t>(
          4, static_cast<std::size_t>(of_.most_changed *
                                      static_cast<double>(run.record.nodes.size())));
      std::unique_lock launching = lock_politely(b.arena->launching);
      if (b.graph && b.changed <= worth) {
        changed_ += static_cast<long long>(b.stale.size());
        counts.changed += static_cast<long long>(b.stale.size());
        b.graph->launch(run.record.nodes, b.stale, b.stream);
        queued = true;
        b.stale.clear();
        b.is_stale.assign(b.is_stale.size(), false);
      } else {
        queued = true;  // what fails now has begun
        ++one_by_one_;
        ++counts.one_by_one;
        launch_one_by_one(run.record.nodes, b.stream);
      }
      launching.unlock();
      ++replays_;
      ++counts.replayed;
      give_results(inputs, values);
      return PyErr_Occurred() ? Outcome::error : Outcome::done;
    } catch (const OutOfMemoryError&) {
      built_.reset();  // the program may do with less
      outcome = Outcome::misfit;
    } catch (const std::exception& error) {
      if (queued) throw;
      give_up(error.what());
      outcome = Outcome::misfit;
    }
  // The program draws again.
  for (auto each = drawn.rbegin(); outcome == Outcome::misfit && each != drawn.rend(); ++each) {
    Ref done(PyObject_CallMethod(each->first.get(), "_rewind", "L", each->second));
    if (!done) return Outcome::error;
  }
  return outcome;
}

void Replay::give_results(const std::vector<StorageRef>& inputs, std::vector<Ref>& values) {
  const Built& b = *built_;
  for (const Result& each : b.run->results) {
    Ref& value = values[static_cast<std::size_t>(each.value)];
    if (each.kind == Result::same) {
      value = values[static_cast<std::size_t>(each.other)];
    } else if (each.kind == Result::constant) {
      value = each.object;
    } else if (each.kind == Result::number) {
      value =
          Ref(PyLong_FromUnsignedLongLong(b.now[b.number(static_cast<std::size_t>(each.other))]));
    } else {
      Array array;
      std::uint64_t base;
      if (each.origin.kind == Origin::input) {
        array.storage = inputs[each.origin.index];
        base = b.now[each.origin.index];
      } else {
        array.storage = std::ranges::find(b.escaping, each.origin.index, [](const auto& pair) {
                          return pair.first;
                        })->second;
        base = array.storage->address;
      }
      const std::uint64_t at = base + static_cast<std::uint64_t>(each.origin.delta);
      array.offset = static_cast<std::int64_t>(at - array.storage->address) /
                     static_cast<std::int64_t>(item_size(each.dtype));
      array.dtype = each.dtype;
      array.layout = each.layout;
      value = Ref(array_object(std::move(array)));
    }
    if (!value) return;
  }
}

PyObject* Replay::describe() const {
  const std::size_t nodes = built_ ? built_->run->record.nodes.size() : 0;
  const std::size_t arena = built_ && built_->arena ? built_->arena->storage->bytes : 0;
  return Py_BuildValue("{s:n,s:n,s:L,s:L,s:L,s:L,s:s}", "nodes", static_cast<Py_ssize_t>(nodes),
                       "arena", static_cast<Py_ssize_t>(arena), "replays", replays_, "changed",
                       changed_, "one_by_one", one_by_one_, "plain", plain_, "gave_up",
                       gave_up_.c_str());
}

PyObject* Replay::all_counts() {
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}", "recorded", counts.recorded, "built",
                       counts.built, "replayed", counts.replayed, "changed", counts.changed,
                       "one_by_one", counts.one_by_one, "plain", counts.plain);
}

}  // namespace tritorch
