// What Python decided about a call, so that the next one with an equal key needs no Python.
//
// Launches with the places of addresses in their parameters, sizes of the memory between them and
// of results, and the tensors and nodes that follow.  A run allocates, writes addresses, launches,
// and makes the tensors by the same native functions as a record's call.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/recording.h"
#include "plans/host.h"
#include "plans/key.h"
#include "plans/trace.h"
#include "ref.h"

namespace tritorch::plans {

class Plan {
 public:
  // A plan of a call that was watched, which gave `result`.  Null where there can be none, with
  // why.
  static std::unique_ptr<Plan> of(const Key& key, Trace& trace, PyObject* result, std::string& why);
  ~Plan();
  Plan(const Plan&) = delete;

  // Whether another call with an equal key did the same; else why not.
  bool agrees(const Plan& other, std::string& why) const;
  void prepare();  // once it is believed
  // Whether the functions of a plan on the CPU give, for copies of the arguments' arrays as they
  // were before the call that was watched, what that call gave; else why not.
  bool confirms(const Key& key, const Trace& trace, const std::vector<Ref>& copies,
                std::string& why) const;

  bool has_answers() const { return host_.has_answers(); }  // by which a run may be given up

  // The result of a call with an equal key.  Null without an error: the call has to be made by its
  // function, and nothing has been done.
  PyObject* run(const Key& key) const;

 private:
  // A tensor that is there when it is needed: an argument, or what the plan has made before.
  struct Place {
    enum Kind : std::uint8_t { none, argument, made, object } kind = none;
    int index = 0, output = 0;
    Ref value;  // of an object: a number
    bool operator==(const Place& other) const;
  };
  struct Laid {  // an array: where it lies
    bool exists = false;
    Origin origin;
    DType dtype = DType::float32;
    Layout layout;
    Value host;  // on the CPU
    bool operator==(const Laid& other) const;
  };
  struct Make {
    Made::Kind kind;
    Ref op, params, computed;
    std::vector<std::pair<int, std::uint32_t>> drawn;  // params that are numbers of a generator
    std::vector<Place> inputs;
    std::vector<Laid> results;
    unsigned long mask = 0;
    Ref node_type;
    bool named = false;
    Place node_call;  // Python's, in which tensors are places
    bool recorded = false;
    bool operator==(const Make& other) const;
  };
  struct Result {
    enum Kind : std::uint8_t { tensor, none, several } kind;
    Place tensor_place;
    Ref type;
    std::vector<Result> items;
    bool operator==(const Result& other) const;
  };
  struct Patch {
    std::uint32_t source, place, size;
    std::int64_t delta;
    int map;
  };
  struct Step {
    std::vector<Patch> patches;
  };
  struct Builder;
  struct Run;

  Plan() = default;
  bool allocate(Run& run) const;
  bool ask(Run& run) const;
  bool fits(std::uint32_t source, std::uint64_t bits) const;
  void launch(Run& run) const;
  PyObject* make_results(Run& run) const;
  bool views_memory(const Make& make, PyObject* view, std::span<PyObject* const> arrays,
                    const Refs& results) const;
  Ref array_at(const Run& run, const Laid& laid) const;
  PyObject* give(const Run& run, const Result& result) const;
  bool name(const Run& run, const Make& make, const Ref* tensors) const;
  Ref params_of(const Run& run, const Make& make) const;
  PyObject* value_at(const Run& run, const Place& place) const;

  bool on_host_ = false;
  HostProgram host_;
  Record record_;
  std::vector<int>
      anchors_;  // of each memory among the arguments, the tensor that lies in it first
  std::vector<Make> makes_;
  std::vector<Place> written_;
  std::vector<Draw> draws_;
  Result result_;

  std::vector<Step> steps_;  // one a node
  std::vector<std::uint32_t> escaping_, between_;
  std::vector<std::size_t> places_;  // of what lies between, in one piece of memory
  std::size_t between_bytes_ = 0;
};

}  // namespace tritorch::plans
