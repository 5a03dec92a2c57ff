// Python's functions as events, while a profile asks for them.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

namespace tritorch::profiling {

// Functions of files that start with `hidden` have no events, but for those that start with one of
// `shown`; nor have those that start with one of `helping` where hidden functions call them.
void set_own_files(std::string hidden, std::vector<std::string> shown,
                   std::vector<std::string> helping);

// From now on each call of a Python function is an event, in the threads that are there by now and
// have no other profiler.  False with a Python error set on failure.
bool watch_functions();
void leave_functions();

// Whether the innermost function of this thread has an event, so that what it calls has one, too.
bool calls_are_shown();

// No function that is called in this thread has an event while it is in scope: they are a public
// function's own.  A debugger or a profiler of the program's goes on.
class Unseen {
 public:
  Unseen();
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen();

 private:
  PyThreadState* state_;
};

// The line at which the innermost function is that has events; 0: there is none.
int line_of_now();

}  // namespace tritorch::profiling
