// Recording a program's runs, and building a graph of two that agree.
#include <algorithm>
#include <cstring>

#include "array/copies.h"
#include "compilation/replay_run.h"
#include "driver/context.h"

namespace tritorch {
namespace {

constexpr int kMostTries = 4;        // recordings, one after the other, of which no two agree
constexpr int kMostRecordings = 16;  // altogether

}  // namespace

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
    values[i] = Ref(recording.number(values[i].get()));
    if (!values[i]) throw PythonError{};
  }
}

bool Replay::make_recorded_calls(std::vector<Ref>& values, const Numbers& numbers, Run& run,
                                 Recording& recording) {
  std::vector<PyObject*> args(of_.most);
  std::vector<bool> ready(values.size());  // values that are there without a launch
  for (std::size_t i = 0; i < values.size(); ++i) ready[i] = static_cast<bool>(values[i]);
  Set told(recorder, static_cast<Recorder*>(&recording));
  recording.asked = [&run](PyObject* generator, long long count, std::uint32_t number) {
    run.asked.push_back({Ref::to(generator), count, number, -1});
  };
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
  std::vector<std::size_t> content_offsets(record.allocations.size());
  for (std::uint32_t i = 0; i < record.allocations.size(); ++i) {
    const Allocation& each = record.allocations[i];
    if (escapes[i]) {
      built->escaping.emplace_back(i, StorageRef());
    } else if (!each.content.empty()) {
      content_offsets[i] = content.size();
      content.insert(content.end(), each.content.begin(), each.content.end());
      content.resize(rounded(content.size()));
    } else if (each.first <= each.last) {
      planned.push_back(i);
    }
  }
  std::vector<std::size_t> offsets;
  const std::size_t bytes = plan_memory(record.allocations, planned, offsets);
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
      built->set(built->allocation(i), built->arena->storage->address + offsets[i]);
    if (!content.empty()) {
      Array constants = Array::empty(std::array{static_cast<std::int64_t>(content.size())},
                                     DType::uint8, device, stream);
      copy_from_host(constants, content, stream, false);
      built->constants = constants.storage;
      for (std::uint32_t i = 0; i < record.allocations.size(); ++i)
        if (std::vector<std::byte>& kept = record.allocations[i].content; !kept.empty()) {
          built->set(built->allocation(i), constants.data() + content_offsets[i]);
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

}  // namespace tritorch
