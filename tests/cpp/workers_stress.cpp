// Several threads share work while the number of workers changes: each part is computed once, and
// all of it is done when `share` returns.
//
//   workers_stress [rounds of a thread, default 20000]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "workers.h"

namespace {

constexpr int kThreads = 3;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "workers_stress: %s\n", what);
  std::exit(1);
}

void run(unsigned seed, int rounds) {
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    if (random() % 16 == 0) tritorch::set_workers(1 + static_cast<int>(random() % 5));
    if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    const auto count = static_cast<std::ptrdiff_t>(random() % 40);
    // No atomics: each is written by whoever takes the part, and read here afterwards.
    std::vector<int> taken(static_cast<std::size_t>(count));
    const auto work = [&](tritorch::Parts& parts) {
      for (std::ptrdiff_t i; (i = parts.take()) >= 0;) ++taken[static_cast<std::size_t>(i)];
    };
    tritorch::share(count, work);
    for (const int times : taken)
      if (times != 1) die("a part was computed twice, or not yet");
  }
}

// Parts that wait for one another need as many threads: helpers do come.
void meet(int count) {
  tritorch::set_workers(count);
  std::atomic<int> here{0};
  tritorch::share(count, [&](tritorch::Parts& parts) {
    while (parts.take() >= 0) {
      ++here;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (here.load() < count) {
        if (std::chrono::steady_clock::now() > until) die("nobody came to help");
        std::this_thread::yield();
      }
    }
  });
}

// One worker is the caller.
void alone() {
  tritorch::set_workers(1);
  const auto self = std::this_thread::get_id();
  tritorch::share(100, [&](tritorch::Parts& parts) {
    while (parts.take() >= 0)
      if (std::this_thread::get_id() != self) die("a thread that is not wanted took a part");
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20000;
  for (int i = 0; i < 20; ++i)
    for (const int count : {2, 5, 3, 4}) {
      meet(count);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until all of them sleep
    }
  alone();
  tritorch::set_workers(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(run, i, rounds);
  for (std::thread& thread : threads) thread.join();
  std::printf("%d threads, %d rounds each\n", kThreads, rounds);
}
