#include "following/replay.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "array/copies.h"
#include "driver/context.h"
#include "driver/fork.h"
#include "interpreter.h"

namespace tritorch {
namespace {

constexpr int kMostTries = 4;        // recordings, one after the other, of which no two agree
constexpr int kMostMisfits = 2;      // runs in a row that do not fit, until it is recorded anew
constexpr int kMostRecordings = 16;  // altogether
constexpr std::size_t kMostReplays = 16;  // of a program, for different sizes
constexpr std::uint64_t kAlignment = 16;  // what kernels are compiled for, and functions ask for
constexpr std::size_t kGranularity = 512;

struct Counts {
  long long recorded = 0, built = 0, replayed = 0, changed = 0, one_by_one = 0, plain = 0;
} counts;

// An array among the inputs: where it lies from its memory's anchor.
struct Given {
  int value;
  std::uint32_t input;
  std::int64_t delta;
  bool operator==(const Given&) const = default;
};

struct GivenNumber {
  int value;
  std::uint32_t number;
  bool operator==(const GivenNumber&) const = default;
};

// What has to be asked of Python in each run: a generator for numbers, or a call that launches
// nothing and gives what is no array.
struct Asked {
  Ref generator;
  long long count = 0;
  std::uint32_t number = 0;  // the first of two
  int call = -1;
  bool operator==(const Asked& other) const {
    return generator.get() == other.generator.get() && count == other.count &&
           number == other.number && call == other.call;
  }
};

// What a run gives: an array in an input's memory, in memory of its own, or elsewhere; another
// value; a number.
struct Result {
  enum Kind : std::uint8_t { array, same, number, constant } kind;
  int value;
  int other = 0;  // the value, or the number
  Origin origin;
  DType dtype = DType::float32;
  Layout layout;
  Ref object;

  bool operator==(const Result& b) const {
    return kind == b.kind && value == b.value && other == b.other && origin == b.origin &&
           dtype == b.dtype && std::ranges::equal(layout.shape(), b.layout.shape()) &&
           std::ranges::equal(layout.strides(), b.layout.strides()) &&
           object.get() == b.object.get();
  }
};

thread_local std::vector<Asked>* asking = nullptr;  // where the thread that records notes draws

// Memory of graphs, one a stream; a larger one takes its place when that is needed.
struct Arena {
  StorageRef storage;
  ForkMutex launching;  // what one launch writes there, the next must not before it is through
};

std::shared_ptr<Arena> arena_of(int device, cu::CUstream stream, std::size_t bytes) {
  static auto* const arenas = new std::map<std::pair<int, cu::CUstream>, std::weak_ptr<Arena>>;
  std::weak_ptr<Arena>& known = (*arenas)[{device, stream}];
  std::shared_ptr<Arena> arena = known.lock();
  if (!arena || arena->storage->bytes < bytes) {
    arena = std::make_shared<Arena>();
    arena->storage = StorageRef(Storage::allocate(device, bytes, stream));
    known = arena;
  }
  return arena;
}

std::size_t rounded(std::size_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

// Places for what is used from one node to another, such that what is used at one time lies apart:
// the largest first, each at the lowest place that is free.  Returns the bytes of all.
std::size_t plan_memory(const std::vector<Allocation>& allocations,
                        const std::vector<std::uint32_t>& planned,
                        std::vector<std::size_t>& places) {
  std::vector<std::uint32_t> order = planned, placed;
  std::ranges::stable_sort(order, std::greater{}, [&](auto i) { return allocations[i].bytes; });
  places.assign(allocations.size(), 0);
  std::size_t end = 0;
  for (const std::uint32_t i : order) {
    const Allocation& mine = allocations[i];
    std::size_t place = 0;
    for (const std::uint32_t other : placed) {  // in the order of their places
      const Allocation& known = allocations[other];
      if (known.last < mine.first || mine.last < known.first) continue;
      if (place + rounded(mine.bytes) <= places[other]) break;
      place = std::max(place, places[other] + rounded(known.bytes));
    }
    places[i] = place;
    placed.insert(std::ranges::upper_bound(placed, place, {}, [&](auto j) { return places[j]; }),
                  i);
    end = std::max(end, place + rounded(mine.bytes));
  }
  return end;
}

bool is_capturing(cu::CUstream stream) {
  cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
  cu::cuuint64_t id;
  BlockingRegion region;
  const cu::CUresult result =
      driver().cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
  return result != cu::CUDA_SUCCESS || status != cu::CU_STREAM_CAPTURE_STATUS_NONE;
}

template <class T>
class Set {  // sets something for a scope
 public:
  Set(T& what, T value) : what_(what), before_(std::exchange(what, value)) {}
  ~Set() { what_ = before_; }
  Set(const Set&) = delete;

 private:
  T& what_;
  T before_;
};

}  // namespace

struct Replay::Run {
  Record record;
  std::vector<Given> given;
  std::vector<std::uint64_t> anchors;  // of the inputs' memory
  std::vector<GivenNumber> given_numbers;
  std::vector<Asked> asked;
  std::vector<Result> results;
  std::uint32_t n_numbers = 0;
};

// Sources are numbered: inputs, allocations, numbers.
struct Replay::Built {
  std::unique_ptr<Run> run;
  int device;
  cu::CUstream stream;
  std::unique_ptr<NodeGraph> graph;  // null: its nodes are launched one by one
  std::shared_ptr<Arena> arena;
  StorageRef constants;
  std::vector<const Storage*> lay_in;                          // where inputs lay before
  std::vector<std::pair<std::uint32_t, StorageRef>> escaping;  // allocations that results lie in
  std::vector<std::uint64_t> values;                           // of sources, as nodes have them
  std::vector<std::uint64_t> now;                              // as they are to be
  std::vector<std::vector<Use>> uses;                          // of each source
  std::vector<bool> is_stale;  // of each node, whether the graph's has other bytes
  std::vector<std::uint32_t> stale;
  std::vector<long long> changed_in;  // of each node, the last run that changed it
  long long runs = 0;
  std::size_t changed = 0;  // nodes, in this run

  std::size_t allocation(std::size_t i) const { return run->anchors.size() + i; }
  std::size_t number(std::size_t i) const { return allocation(run->record.allocations.size()) + i; }
  void set(std::size_t source, std::uint64_t value);
  bool fits(std::size_t source, PyObject* number);
};

// Writes what a source is now to all places where it stands.
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

// Notes what a number is to be; false where it is wider than its kernels take it.
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
  try {
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
  } catch (const PythonError&) {
  } catch (...) {
    set_python_error(std::current_exception());
  }
  return false;
}

// ---- recording ----------------------------------------------------------------------------------

void Replay::describe_inputs(std::vector<Ref>& values, Run& run, Recording& recording) {
  std::vector<const Storage*> known;
  std::vector<cu::CUdeviceptr> anchors;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Array* array = values[i] ? as_array(values[i].get()) : nullptr;
    if (!array) continue;
    const auto found = std::ranges::find(known, array->storage.get());
    const auto input = static_cast<std::uint32_t>(found - known.begin());
    if (found == known.end()) {
      known.push_back(array->storage.get());
      anchors.push_back(array->data());
      recording.add_input(array->storage, array->data());
      run.anchors.push_back(array->data());
    }
    run.given.push_back(
        {static_cast<int>(i), input, static_cast<std::int64_t>(array->data() - anchors[input])});
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i] || as_array(values[i].get()) || is_computed(i)) continue;
    run.given_numbers.push_back({static_cast<int>(i), recording.number_count()});
    values[i] = Ref(recording.number(values[i].get(), false));
    if (!values[i]) throw PythonError{};
  }
}

bool Replay::make_recorded_calls(std::vector<Ref>& values, const Numbers& numbers, Run& run,
                                 Recording& recording) {
  std::vector<PyObject*> args(of_.most);
  std::vector<bool> ready(values.size());  // values that are there without a launch
  for (std::size_t i = 0; i < values.size(); ++i) ready[i] = static_cast<bool>(values[i]);
  Set told(recorder, static_cast<Recorder*>(&recording));
  Set asked(asking, &run.asked);
  for (std::size_t i = 0; i < of_.calls.size(); ++i) {
    const Call& call = of_.calls[i];
    const Record& record = recording.record;
    const std::size_t before = record.nodes.size() + record.allocations.size() + run.asked.size();
    const bool is_ready = std::ranges::all_of(
        call.values, [&](int v) { return v < 0 || ready[static_cast<std::size_t>(v)]; });
    if (!make_call(call, values, numbers, args.data())) return false;
    bool gives_arrays = true;  // or it is a check of values, which has looked at none
    for (int result : call.results)
      if (result >= 0 && values[static_cast<std::size_t>(result)])
        gives_arrays &= as_array(values[static_cast<std::size_t>(result)].get()) != nullptr;
    let_go(call, values);
    const bool works = before != record.nodes.size() + record.allocations.size() + run.asked.size();
    if (gives_arrays || works) continue;
    if (!is_ready) recording.unfit("a function looks at what is computed");
    run.asked.push_back({Ref(), 0, 0, static_cast<int>(i)});
    for (int result : call.results)
      if (result >= 0) ready[static_cast<std::size_t>(result)] = true;
  }
  return true;
}

void Replay::describe_outputs(const std::vector<Ref>& before, std::vector<Ref>& values, Run& run,
                              Recording& recording) {
  std::vector<int> asked;  // values that are asked for
  for (const Asked& each : run.asked)
    if (each.call >= 0)
      for (int result : of_.calls[static_cast<std::size_t>(each.call)].results)
        asked.push_back(result);
  std::map<PyObject*, int> known;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i]) known.emplace(before[i].get(), static_cast<int>(i));
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyObject* object = values[i].get();
    const int value = static_cast<int>(i);
    if (!object || object == before[i].get() || std::ranges::count(asked, value)) continue;
    const auto [first, is_new] = known.emplace(object, value);
    const int number = recording.number_of(object);
    if (number >= 0) {
      run.results.push_back({Result::number, value, number, {}, {}, {}, {}});
      values[i] = Ref(PyNumber_Long(object));
      if (!values[i]) throw PythonError{};
    } else if (!is_new) {
      run.results.push_back({Result::same, value, first->second, {}, {}, {}, {}});
    } else if (const Array* array = as_array(object)) {
      const Origin origin = recording.origin_of(*array);
      const bool constant = origin.kind == Origin::elsewhere;
      if (origin.kind == Origin::allocation && origin.delta % item_size(array->dtype))
        recording.unfit("a result lies between elements");
      run.results.push_back({constant ? Result::constant : Result::array, value, 0, origin,
                             array->dtype, array->layout, constant ? values[i] : Ref()});
    } else {
      recording.unfit("a function gives what is no array");
    }
  }
  for (std::uint32_t n = 0; n < recording.number_count(); ++n)
    if (!recording.is_used(n)) recording.unfit("a number that was drawn is used by no kernel");
}

bool Replay::record(std::vector<Ref>& values, const Numbers& numbers, int device,
                    cu::CUstream stream) {
  auto run = std::make_unique<Run>();
  Recording recording(device, stream);
  const std::vector<Ref> given = values;
  describe_inputs(values, *run, recording);
  const std::vector<Ref> before = values;
  if (!make_recorded_calls(values, numbers, *run, recording)) return false;
  describe_outputs(before, values, *run, recording);
  for (const GivenNumber& each : run->given_numbers) {
    Ref& value = values[static_cast<std::size_t>(each.value)];
    if (value) value = given[static_cast<std::size_t>(each.value)];
  }
  ++plain_;
  ++counts.plain;
  ++counts.recorded;
  run->n_numbers = recording.number_count();
  run->record = std::move(recording.record);
  if (run->record.nodes.empty()) recording.unfit("it launches nothing");
  std::string why = recording.unfit_because;
  if (why.empty() && taken_) {
    why = difference(taken_->record, run->record);
    const bool aligned = std::ranges::equal(taken_->anchors, run->anchors, [](auto x, auto y) {
      return x % kAlignment == y % kAlignment;
    });
    if (why.empty() && !(taken_->given == run->given && aligned))
      why = "inputs lie otherwise from call to call";
    if (why.empty() && !(taken_->results == run->results && taken_->asked == run->asked))
      why = "results differ from call to call";
    if (why.empty()) {
      taken_.reset();
      tries_ = 0;
      build(std::move(run), device, stream);
      return true;
    }
  }
  if (!why.empty() && (++tries_ >= kMostTries || !recording.unfit_because.empty()))
    give_up(why);
  else
    taken_ = std::move(run);
  return true;
}

// ---- building -----------------------------------------------------------------------------------

void Replay::build(std::unique_ptr<Run> run, int device, cu::CUstream stream) {
  if (++recordings_ > kMostRecordings) {
    give_up("it was recorded " + std::to_string(kMostRecordings) + " times, and never fitted long");
    return;
  }
  auto built = std::make_unique<Built>();
  Record& record = run->record;
  std::vector<std::uint32_t> planned;
  std::vector<bool> escapes(record.allocations.size());
  for (const Result& each : run->results)
    if (each.kind == Result::array && each.origin.kind == Origin::allocation)
      escapes[each.origin.index] = true;
  std::vector<std::byte> content;
  std::vector<std::size_t> content_places(record.allocations.size());
  for (std::uint32_t i = 0; i < record.allocations.size(); ++i) {
    const Allocation& each = record.allocations[i];
    if (escapes[i]) {
      built->escaping.emplace_back(i, StorageRef());
    } else if (!each.content.empty()) {
      content_places[i] = content.size();
      content.insert(content.end(), each.content.begin(), each.content.end());
      content.resize(rounded(content.size()));
    } else if (each.first <= each.last) {
      planned.push_back(i);
    }
  }
  std::vector<std::size_t> places;
  const std::size_t bytes = plan_memory(record.allocations, planned, places);
  built->run = std::move(run);
  built->device = device;
  built->stream = stream;
  const std::size_t n_sources = built->number(built->run->n_numbers);
  built->uses.resize(n_sources);
  built->values.assign(n_sources, ~std::uint64_t{0});  // written when they are known
  built->now.resize(n_sources);
  built->is_stale.resize(record.nodes.size());
  built->changed_in.assign(record.nodes.size(), -1);
  std::ranges::copy(built->run->anchors, built->values.begin());  // as they stand in the nodes
  for (const Use& use : record.uses)
    if (use.source == Use::input)
      built->uses[use.index].push_back(use);
    else if (use.source != Use::any)
      built
          ->uses[use.source == Use::allocation ? built->allocation(use.index)
                                               : built->number(use.index)]
          .push_back(use);
  try {
    built->arena = arena_of(device, stream, bytes);
    for (const std::uint32_t i : planned)
      built->set(built->allocation(i), built->arena->storage->address + places[i]);
    if (!content.empty()) {
      Array constants = Array::empty(std::array{static_cast<std::int64_t>(content.size())},
                                     DType::uint8, device, stream);
      copy_from_host(constants, content, stream, false);
      built->constants = constants.storage;
      for (std::uint32_t i = 0; i < record.allocations.size(); ++i)
        if (std::vector<std::byte>& kept = record.allocations[i].content; !kept.empty()) {
          built->set(built->allocation(i), constants.data() + content_places[i]);
          std::vector<std::byte>().swap(kept);
        }
    }
  } catch (const std::exception& error) {
    give_up(error.what());
    return;
  }
  std::string shown = std::to_string(record.nodes.size()) + " nodes";
  try {
    built->graph = std::make_unique<NodeGraph>(record.nodes, device);
    // Nodes got what moves as it was in the run that was recorded; it is written before a launch.
    built->stale.clear();
    built->is_stale.assign(record.nodes.size(), false);
  } catch (const CudaError& error) {
    if (error.code != cu::CUDA_ERROR_NOT_SUPPORTED) {
      give_up(error.what());
      return;
    }
    shown += ", launched one by one: " + std::string(error.what());
  }
  shown += "; " + std::to_string(bytes) + " bytes between them, " +
           std::to_string(built->escaping.size()) + " results";
  ++counts.built;
  built_ = std::move(built);
  told("graph", shown);
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

// ---- one for each set of numbers ----------------------------------------------------------------

Replay* Replays::find(const std::vector<Number>& numbers) {
  for (const Known& known : known_)
    if (!of_.open || std::ranges::equal(known.numbers, numbers, same_number))
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
  PyObject* list = PyList_New(0);
  for (const Known& known : known_) {
    Ref described(known.replay->describe());
    if (!list || !described || PyList_Append(list, described.get()) < 0) {
      Py_XDECREF(list);
      return nullptr;
    }
  }
  return list;
}

// ---- what Python is asked to tell ---------------------------------------------------------------

namespace {

PyObject* is_recording(PyObject*, PyObject*) { return PyBool_FromLong(recorder != nullptr); }

PyObject* recorded_draw(PyObject*, PyObject* args) {
  PyObject *generator, *seed, *offset;
  long long count;
  if (!PyArg_ParseTuple(args, "OLOO", &generator, &count, &seed, &offset)) return nullptr;
  Recording* recording = current_recording();
  if (!recording || !asking) return Py_BuildValue("(OO)", seed, offset);
  asking->push_back({Ref::to(generator), count, recording->number_count(), -1});
  Ref first(recording->number(seed, false)), second(recording->number(offset, false));
  return first && second ? PyTuple_Pack(2, first.get(), second.get()) : nullptr;
}

PyObject* recorded_number(PyObject*, PyObject* args) {
  PyObject *value, *keep;
  if (!PyArg_ParseTuple(args, "OO", &value, &keep)) return nullptr;
  Recording* recording = current_recording();
  if (!recording) return Py_NewRef(value);
  recording->record.kept.emplace_back(Py_NewRef(keep));
  return recording->number(value, true);
}

PyObject* unrecordable(PyObject*, PyObject* why) {
  const char* text = PyUnicode_AsUTF8(why);
  if (!text) return nullptr;
  if (Recording* recording = current_recording()) recording->unfit(text);
  Py_RETURN_NONE;
}

PyObject* replay_counts(PyObject*, PyObject*) {
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}", "recorded", counts.recorded, "built",
                       counts.built, "replayed", counts.replayed, "changed", counts.changed,
                       "one_by_one", counts.one_by_one, "plain", counts.plain);
}

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
