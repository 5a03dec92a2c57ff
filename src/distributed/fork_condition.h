// A condition that a forked child makes anew, as Note [Locks and forks] (driver/fork.h) says of
// locks: those who wait for it in the parent are not there, and destroying it would wait for them.
#pragma once

#include <condition_variable>

#include "driver/fork.h"

namespace tritorch::distributed {

class ForkCondition {
 public:
  ForkCondition() : made_(new std::condition_variable) { in_forked_child(renew, this); }
  ~ForkCondition() {
    forget_forked_child(renew, this);
    delete made_;
  }
  ForkCondition(const ForkCondition&) = delete;
  std::condition_variable* operator->() { return made_; }

 private:
  static void renew(void* self) {
    static_cast<ForkCondition*>(self)->made_ = new std::condition_variable;
  }
  std::condition_variable* made_;
};

}  // namespace tritorch::distributed
