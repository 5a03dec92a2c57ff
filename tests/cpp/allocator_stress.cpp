// Four threads allocate, mark, verify, hand over and free, with record_stream and pinned memory;
// nothing may be lost at the end.  For ThreadSanitizer and AddressSanitizer.
//   allocator_stress [millions of operations, default 1]
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "driver/error.h"
#include "memory/allocator.h"
#include "memory/pinned.h"
#include "simulator/simulator.h"

using namespace tritorch;
using namespace tritorch::memory;

namespace {

constexpr int kThreads = 4;

struct Item {
  Block* block = nullptr;
  std::uint64_t mark = 0;
};

// Blocks on their way from one thread to another.
struct Mailbox {
  std::mutex mutex;
  std::vector<Item> items;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "allocator_stress: %s\n", what);
  std::exit(1);
}

// Simulated device memory is host memory: the marks are written by this thread, as a kernel that
// runs at once would.
void write_mark(const Item& item) {
  const BlockView view = DeviceAllocator::view(item.block);
  auto* bytes = reinterpret_cast<char*>(view.address);
  std::memcpy(bytes, &item.mark, 8);
  std::memcpy(bytes + view.requested - 8, &item.mark, 8);
}
void verify(const Item& item) {
  const BlockView view = DeviceAllocator::view(item.block);
  const auto* bytes = reinterpret_cast<const char*>(view.address);
  if (std::memcmp(bytes, &item.mark, 8) || std::memcmp(bytes + view.requested - 8, &item.mark, 8))
    die("a block was overwritten: two owners had it at once");
}

struct Stress {
  const cu::Driver& driver = cu::simulated_driver();
  cu::CUcontext context = nullptr;
  std::array<cu::CUstream, kThreads + 1> streams;  // one of each thread, and a shared one
  std::unique_ptr<DeviceAllocator> allocator;
  std::unique_ptr<PinnedAllocator> pinned;
  std::array<Mailbox, kThreads> mail;
  std::atomic<std::uint64_t> handed_over{0}, out_of_memory{0};

  void work(int self, std::uint64_t operations) {
    CHECK_CU(driver.cuCtxSetCurrent(context));
    std::mt19937_64 random(std::uint64_t(self) + 1);
    std::vector<Item> mine;
    std::vector<std::pair<char*, std::size_t>> host;
    const auto drop = [&](std::size_t i) {
      verify(mine[i]);
      allocator->free(mine[i].block);
      mine[i] = mine.back();
      mine.pop_back();
    };
    for (std::uint64_t i = 0; i < operations; ++i) {
      const std::uint64_t dice = random() % 1000;
      if (dice < 440) {
        const std::size_t size = 16 + random() % (dice < 400   ? 8192
                                                  : dice < 437 ? 700000
                                                               : 6000000);
        try {
          // Mostly on the thread's own stream, at times on the one that all share.
          Item item{allocator->allocate(size, streams[random() % 8 ? std::size_t(self) : kThreads]),
                    random()};
          write_mark(item);
          mine.push_back(item);
        } catch (const OutOfMemoryError&) {
          ++out_of_memory;
          while (mine.size() > 10) drop(mine.size() - 1);
        }
        if (mine.size() > 200) drop(random() % mine.size());
      } else if (dice < 800) {
        if (!mine.empty()) drop(random() % mine.size());
      } else if (dice < 850) {
        if (mine.empty()) continue;
        Mailbox& box = mail[random() % kThreads];
        std::lock_guard held(box.mutex);
        box.items.push_back(mine.back());
        mine.pop_back();
        ++handed_over;
      } else if (dice < 900) {
        std::lock_guard held(mail[std::size_t(self)].mutex);
        auto& items = mail[std::size_t(self)].items;
        mine.insert(mine.end(), items.begin(), items.end());
        items.clear();
      } else if (dice < 910) {
        if (!mine.empty())
          allocator->record_stream(mine[random() % mine.size()].block,
                                   streams[random() % (kThreads + 1)]);
      } else if (dice < 950) {
        const std::size_t size = 1 + random() % 20000;
        auto* bytes = static_cast<char*>(pinned->allocate(size));
        bytes[0] = bytes[size - 1] = char(self);
        host.push_back({bytes, size});
        if (dice == 949) pinned->record_stream(bytes, streams[std::size_t(self)]);
      } else if (dice < 995) {
        if (host.empty()) continue;
        const auto [bytes, size] = host.back();
        if (bytes[0] != char(self) || bytes[size - 1] != char(self))
          die("a pinned block was overwritten");
        pinned->free(bytes);
        host.pop_back();
      } else if (dice < 999) {
        if (allocator->statistics().allocation.all.current < std::int64_t(mine.size()))
          die("the statistics miss live blocks");
      } else if (random() % 20 == 0) {
        allocator->empty_cache();
        (void)allocator->snapshot();
      }
    }
    while (!mine.empty()) drop(mine.size() - 1);
    for (const auto& [bytes, size] : host) pinned->free(bytes);
  }

  void run(bool expandable, std::uint64_t operations) {
    cu::SimulatorOptions options;
    options.memory = std::size_t{256} << 20;  // less than they would use: the ladder runs too
    options.poison = false;                   // the marks are written without a stream's knowledge
    cu::simulator::reset(options);
    CHECK_CU(driver.cuInit(0));
    CHECK_CU(driver.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_CU(driver.cuCtxSetCurrent(context));
    for (auto& stream : streams)
      CHECK_CU(driver.cuStreamCreateWithPriority(&stream, cu::CU_STREAM_NON_BLOCKING, 0));
    Settings settings;
    settings.expandable_segments = expandable;
    allocator = std::make_unique<DeviceAllocator>(driver, 0, settings);
    pinned = std::make_unique<PinnedAllocator>(driver);

    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([this, i, operations] { work(i, operations / kThreads); });
    for (auto& thread : threads) thread.join();
    for (Mailbox& box : mail) {
      for (const Item& item : box.items) {
        verify(item);
        allocator->free(item.block);
      }
      box.items.clear();
    }
    CHECK_CU(driver.cuCtxSynchronize());
    allocator->empty_cache();
    pinned->empty_cache();
    const Statistics s = allocator->statistics();
    for (const StatBySize* stat :
         {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
          &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
      for (const Stat* each : {&stat->all, &stat->small_pool, &stat->large_pool})
        if (each->current != 0 || each->allocated != each->freed)
          die("the device statistics are not back to zero");
    const HostStatistics h = pinned->statistics();
    if (h.active_bytes.current || h.active_requests.current || h.allocated_bytes.current ||
        h.allocations.current || h.num_host_alloc != h.num_host_free)
      die("the pinned statistics are not back to zero");
    if (cu::simulator::counters(0).live_bytes) die("device memory leaked");
    std::printf("%s: %lld allocations, %llu handed over, %llu out of memory, peak %lld MiB\n",
                expandable ? "expandable" : "plain",
                static_cast<long long>(s.allocation.all.allocated),
                static_cast<unsigned long long>(handed_over.exchange(0)),
                static_cast<unsigned long long>(out_of_memory.exchange(0)),
                static_cast<long long>(s.reserved_bytes.all.peak >> 20));
    allocator.reset();
    pinned.reset();
  }
};

}  // namespace

int main(int argc, char** argv) {
  const double millions = argc > 1 ? std::atof(argv[1]) : 1;
  Stress stress;
  for (const bool expandable : {true, false})
    stress.run(expandable, std::uint64_t(millions * 500000));
}
