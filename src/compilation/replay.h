// A program as a CUDA graph.
//
// Two runs of a program are recorded (launch/recording.h).  If they agree in all but what is known
// to move, a graph is built of the second, whose memory is planned: what is allocated and gone by
// the end lies at fixed places of one arena, which all graphs of a stream share, as they run one
// after the other.  From then on a run asks generators for their numbers, gives results memory,
// writes the addresses that are others now into the nodes that get them, and launches the graph.
// Where more nodes have changed than is worth while, the nodes are launched one by one.
//
// The memory of a result is used again as soon as nobody but the replay holds it: then nothing has
// to be changed, and nobody can see it being written.
//
// A run that does not fit (an input aligned otherwise, a number of another width) runs the program;
// so does what can be no graph, for good, and says why.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compilation/pattern.h"
#include "compilation/program.h"
#include "launch/recording.h"
#include "memory/nodes.h"

namespace tritorch {

struct Replayed {  // a program, and how it is to be replayed
  const std::vector<Call>& calls;
  std::size_t most;           // arguments of a call
  std::vector<int> computed;  // values that are computed of a region's numbers
  bool dynamic;               // whether numbers matter at all
  Ref tell;                   // tell(what, text): is told what becomes of it
  double most_changed;        // the part of the nodes of which more are launched one by one
};

class Replay {
 public:
  explicit Replay(const Replayed& of);
  ~Replay();

  // Computes values from those that are there: what a program's calls do.
  bool compute(std::vector<Ref>& values, const std::vector<Number>& numbers);
  PyObject* describe() const;

  static PyObject* all_counts();  // of all replays

 private:
  struct Run;    // a run that was recorded, beside its launches
  struct Built;  // a run that can be replayed
  enum class Outcome { done, misfit, error };

  using Numbers = std::vector<Number>;

  bool is_computed(std::size_t value) const;
  bool make_calls(std::vector<Ref>& values, const Numbers& numbers);
  bool record(std::vector<Ref>& values, const Numbers& numbers, int device, cu::CUstream stream);
  bool make_recorded_calls(std::vector<Ref>& values, const Numbers& numbers, Run& run,
                           Recording& recording);
  void describe_inputs(std::vector<Ref>& values, Run& run, Recording& recording);
  void describe_outputs(const std::vector<Ref>& before, std::vector<Ref>& values, Run& run,
                        Recording& recording);
  void build(std::unique_ptr<Run> run, int device, cu::CUstream stream);
  Outcome replay(std::vector<Ref>& values, const Numbers& numbers);
  Outcome ask(std::vector<Ref>& values, const Numbers& numbers,
              std::vector<std::pair<Ref, long long>>& drawn);
  void give_results(const std::vector<StorageRef>& inputs, std::vector<Ref>& values);
  void give_up(const std::string& why);
  void told(const char* what, const std::string& text);

  const Replayed& of_;
  bool busy_ = false;
  std::string gave_up_;
  int tries_ = 0, misfits_ = 0, recordings_ = 0;
  std::unique_ptr<Run> taken_;
  std::unique_ptr<Built> built_;
  long long replays_ = 0, changed_ = 0, one_by_one_ = 0, plain_ = 0;
};

// The replays of a program, one for each set of numbers that it was run with.
class Replays {
 public:
  template <class... Args>
  explicit Replays(Args&&... args) : of_{std::forward<Args>(args)...} {}
  // Null where there are too many.
  Replay* find(const std::vector<Number>& numbers);
  PyObject* describe() const;

 private:
  struct Known {
    std::vector<Number> numbers;
    std::unique_ptr<Replay> replay;
  };
  Replayed of_;
  std::vector<Known> known_;
  bool told_ = false;
};

// The functions by which Python tells of a recording; both give their numbers back where
// none is.
//   recorded_draw(generator, count, seed, offset) -> (seed, offset), which a replay draws anew
//   recorded_number(number, keep) -> a number that may be any in a replay, which keeps `keep`
//   is_recording() -> bool, unrecordable(why), replay_counts() -> dict
bool add_replay_functions(PyObject* module);

}  // namespace tritorch
