// Shared by replay.cpp and recorded.cpp: a recorded run, and one that can be replayed.
#pragma once

#include <algorithm>
#include <utility>

#include "compilation/replay.h"
#include "launch/arena.h"

namespace tritorch {
namespace replaying {

constexpr std::uint64_t kAlignment = 16;  // what kernels are compiled for, and functions ask for

struct ReplayCounts {
  long long recorded = 0, built = 0, replayed = 0, changed = 0, one_by_one = 0, plain = 0;
};
extern ReplayCounts counts;  // of all replays

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

// A question to Python in each run: a generator for numbers, or a call that launches
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

// A result of a run: an array in an input's memory, in memory of its own, or elsewhere; another
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

}  // namespace replaying
using namespace replaying;  // two files include this

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

}  // namespace tritorch
