// Host time of a cached allocation and its free, in ns per pair: one JSON line.
//   allocator_bench [batches]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "driver/error.h"
#include "memory/allocator.h"
#include "memory/pinned.h"
#include "simulator/simulator.h"

using namespace tritorch;

// The median over batches; `pair(i)` allocates and frees once.
template <class Pair>
double median_ns(int batches, int pairs, Pair pair) {
  std::vector<double> times;
  for (int batch = -batches / 10 - 1; batch < batches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < pairs; ++i) pair(i);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    if (batch >= 0) times.push_back(spent.count() / pairs);
  }
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

int main(int argc, char** argv) {
  const int batches = argc > 1 ? std::max(1, std::atoi(argv[1])) : 300, pairs = 1000;
  // The C library's locks are cheaper in a process that has never had a second thread: no user's
  // is.
  std::thread([] {}).detach();
  cu::SimulatorOptions options;
  options.poison = false;
  cu::simulator::reset(options);
  const cu::Driver& driver = cu::simulated_driver();
  CHECK_CU(driver.cuInit(0));
  cu::CUcontext context = nullptr;
  CHECK_CU(driver.cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_CU(driver.cuCtxSetCurrent(context));
  cu::CUstream streams[4];
  for (auto& stream : streams)
    CHECK_CU(driver.cuStreamCreateWithPriority(&stream, cu::CU_STREAM_NON_BLOCKING, 0));

  std::printf("{\"benchmark\": \"allocator\", \"unit\": \"ns per cached allocate+free\"");
  for (const bool expandable : {true, false}) {
    memory::Settings settings;
    settings.expandable_segments = expandable;
    memory::DeviceAllocator allocator(driver, 0, settings);
    const char* kind = expandable ? "" : "plain_";
    const auto one_size = [&](const char* name, std::size_t bytes) {
      const double ns = median_ns(
          batches, pairs, [&](int) { allocator.free(allocator.allocate(bytes, streams[0])); });
      std::printf(", \"%s%s\": %.1f", kind, name, ns);
    };
    one_size("512B", 512);
    one_size("64KiB", 64 << 10);
    one_size("4MiB", 4 << 20);
    const double alternating = median_ns(
        batches, pairs, [&](int i) { allocator.free(allocator.allocate(4096, streams[i % 4])); });
    std::printf(", \"%s4_streams\": %.1f", kind, alternating);

    // 1000 live blocks of 512 B to 4 MiB; each pair frees one and allocates another size.
    std::mt19937_64 random(1);
    std::vector<std::size_t> sizes(4096), victims(4096);
    for (auto& size : sizes) size = std::size_t{512} << (random() % 14);
    for (auto& size : sizes) size += random() % size;
    for (auto& victim : victims) victim = random() % 1000;
    std::vector<memory::Block*> live;
    for (int i = 0; i < 1000; ++i)
      live.push_back(allocator.allocate(sizes[std::size_t(i)], streams[0]));
    std::size_t step = 0;
    const double mixed = median_ns(batches, pairs, [&](int) {
      memory::Block*& block = live[victims[step % 4096]];
      allocator.free(block);
      block = allocator.allocate(sizes[(step * 7 + 3) % 4096], streams[0]);
      ++step;
    });
    std::printf(", \"%smixed_1000_blocks\": %.1f", kind, mixed);
    for (auto* block : live) allocator.free(block);
  }
  memory::PinnedAllocator pinned(driver);
  for (const auto& [name, bytes] : {std::pair{"pinned_4KiB", 4096}, {"pinned_4MiB", 4 << 20}}) {
    const double ns = median_ns(batches, pairs, [&, size = std::size_t(bytes)](int) {
      pinned.free(pinned.allocate(size));
    });
    std::printf(", \"%s\": %.1f", name, ns);
  }
  std::printf("}\n");
}
