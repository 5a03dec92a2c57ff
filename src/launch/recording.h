// Launch records: what a program asks of a device in one run, so that it can be asked again with
// other addresses.
//
// While a recording is on, its thread's launches, fills and copies are noted, and made as ever.  Of
// each address that they get it is known what it leads to: into the memory of one of the inputs,
// into memory that was allocated since the recording began, or elsewhere, where it stays.  So a
// record says what is to be written at which place of which node when something has moved.
//
// Anything else that is asked of the driver makes a recording unfit, by name: it might wait for
// values, or belong to another stream.
#pragma once

#include <Python.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "array/array.h"
#include "driver/recorder.h"
#include "launch/pack.h"
#include "memory/nodes.h"
#include "ref.h"

namespace tritorch {

// A place in a node's bytes at which something stands that may be another the next time.
struct Use {
  enum Source : std::uint8_t { input, allocation, number, any } source;  // any: nobody cares
  std::uint32_t index;                                                   // of the source
  std::uint32_t node, place, size;
  std::int64_t delta = 0;  // from the source's address
  std::int32_t map = -1;   // the tensor map that is encoded there
  bool operator==(const Use&) const = default;
};

// Memory that was allocated meanwhile, and the nodes that use it.
struct Allocation {
  explicit Allocation(std::size_t n) : bytes(n) {}
  std::size_t bytes = 0;
  std::uint32_t first = UINT32_MAX, last = 0;
  std::vector<std::byte> content;  // of memory that a copy from the host was noted as
};

// Where an array lies: `index` of an input or an allocation.
struct Origin {
  enum Kind : std::uint8_t { input, allocation, elsewhere } kind = elsewhere;
  std::uint32_t index = 0;
  std::int64_t delta = 0;
  bool operator==(const Origin&) const = default;
};

struct Record {
  std::vector<GraphNode> nodes;
  std::vector<Use> uses;
  std::vector<Allocation> allocations;
  std::vector<TensorMapRequest> maps;
  std::vector<StorageRef> elsewhere;  // memory that nodes use all the time
  std::vector<Ref> kept;              // the kernels' owners
  std::vector<Ref> marks;             // who says again what numbers that are `any` are now
};

// What two runs of one program differ in, beside what is known to move; "" if they agree.
std::string difference(const Record& a, const Record& b);

class Recording final : public Recorder {
 public:
  Recording(int device, cu::CUstream stream) : device_(device), stream_(stream) {}

  // Before it begins: memory that an input lies in; addresses are told from `anchor`.
  void add_input(const StorageRef& storage, cu::CUdeviceptr anchor);
  Origin origin_of(const Array& array) const;

  // A number that differs from run to run: an integer that is told from all others while it is
  // passed on as it is.
  PyObject* number(PyObject* value);
  // The same of one whose value does not matter; mark: who gives another.
  PyObject* free_number(PyObject* value, PyObject* mark);
  // Is told when a generator is asked for numbers (generator, count, the number of the first), if
  // they may be others in the next run.
  std::function<void(PyObject*, long long, std::uint32_t)> asked;
  std::uint32_t number_count() const { return n_numbers_; }
  bool is_used(std::uint32_t number) const;
  int number_of(PyObject* value) const;  // negative: it is none

  void kernel(const cu::CUlaunchConfig& config, cu::CUfunction function, const PackedArgs& packed,
              const std::vector<std::uint32_t>& sizes, const std::vector<Mark>& marks, int device,
              PyObject* owner, const profiling::NodeNote& note);
  void allocated(cu::CUdeviceptr address, std::size_t bytes, const void* storage) override;
  void filled(cu::CUdeviceptr to, unsigned value, unsigned width, std::size_t count,
              cu::CUstream stream) override;
  void copied(cu::CUdeviceptr to, cu::CUdeviceptr from, std::size_t bytes,
              cu::CUstream stream) override;
  void uploaded(cu::CUdeviceptr to, std::span<const std::byte> bytes, cu::CUstream stream) override;
  void drove(const char* call) noexcept override;
  void unfit(const std::string& why);

  std::string unfit_because;
  Record record;

 private:
  struct Input {
    StorageRef storage;
    cu::CUdeviceptr anchor;
  };
  struct Live {
    cu::CUdeviceptr end;
    std::uint32_t allocation;
  };
  void check_stream(cu::CUstream stream);
  Origin find(cu::CUdeviceptr address) const;
  void use(const Origin& origin, std::uint32_t node, std::size_t place, int map = -1);
  void use_address(cu::CUdeviceptr address, std::uint32_t node, std::size_t place);

  int device_;
  cu::CUstream stream_;
  std::vector<Input> inputs_;
  std::map<cu::CUdeviceptr, Live> live_;  // an allocation lives until another begins in its place
  struct Owned {
    std::uint32_t allocation;
    cu::CUdeviceptr address;
  };
  std::unordered_map<const void*, Owned> by_storage_;
  std::unordered_set<const void*> seen_elsewhere_;
  std::uint32_t n_numbers_ = 0;
  std::unordered_map<PyObject*, std::uint32_t> numbers_;
  std::unordered_map<PyObject*, Ref> free_numbers_;  // with their marks
  std::vector<Ref> kept_numbers_;
};

// The recording of this thread, or null.
inline Recording* current_recording() { return static_cast<Recording*>(recorder); }

}  // namespace tritorch
