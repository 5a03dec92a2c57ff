// Threads that compute parts of one piece of work side by side: Note [Workers] in workers.cpp.
#pragma once

#include <atomic>
#include <cstddef>

namespace tritorch {

// How many threads share work, the caller's among them.
void set_workers(int count);
int workers();

// The parts of a piece of work, which its threads take one by one.
class Parts {
 public:
  // The number of one that nobody has taken; -1 if all are.
  std::ptrdiff_t take() {
    const std::ptrdiff_t i = next_.fetch_add(1);
    return i < count_ ? i : -1;
  }
  void reset(std::ptrdiff_t count) {
    count_ = count;
    next_.store(0);
  }

 private:
  std::atomic<std::ptrdiff_t> next_{0};
  std::ptrdiff_t count_ = 0;
};

// work(argument, parts) on the caller's thread and on those that come to help, each of which takes
// parts until there are none; returns when all `count` of them are done.  Work throws nothing and
// knows nothing of Python.
void share(std::ptrdiff_t count, void (*work)(void*, Parts&), void* argument);

template <class Work>
void share(std::ptrdiff_t count, const Work& work) {
  share(
      count, [](void* given, Parts& parts) { (*static_cast<const Work*>(given))(parts); },
      const_cast<Work*>(&work));
}

}  // namespace tritorch
