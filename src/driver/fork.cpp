#include "driver/fork.h"

#include <pthread.h>

namespace tritorch {
namespace {

// Entries are never freed: the list can be read at any moment, also in a child whose parent was
// about to change it.
struct Entry {
  void (*function)(void*);
  std::atomic<void*> argument;
  Entry* next;
};
std::atomic<Entry*> entries{nullptr};

void in_child() {
  for (Entry* entry = entries.load(); entry; entry = entry->next)
    if (void* argument = entry->argument.load()) entry->function(argument);
}

}  // namespace

void in_forked_child(void (*function)(void*), void* argument) {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  for (Entry* entry = entries.load(); entry; entry = entry->next) {  // one that was given back
    void* none = nullptr;
    if (entry->function == function && entry->argument.compare_exchange_strong(none, argument))
      return;
  }
  auto* entry = new Entry{function, argument, entries.load()};
  while (!entries.compare_exchange_weak(entry->next, entry)) {
  }
}

void forget_forked_child(void (*function)(void*), void* argument) noexcept {
  for (Entry* entry = entries.load(); entry; entry = entry->next) {
    void* expected = argument;
    if (entry->function == function && entry->argument.compare_exchange_strong(expected, nullptr))
      return;
  }
}

}  // namespace tritorch
