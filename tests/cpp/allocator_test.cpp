// The device allocator's rules, one by one, on the simulated device, each with the branch that must
// have run; then a randomised comparison with a model, with injected failures.
#include "memory/allocator.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "driver/error.h"
#include "memory/free_index.h"
#include "memory/pinned.h"
#include "simulator/simulator.h"
#include "tests/cpp/check.h"

using namespace tritorch;
using namespace tritorch::memory;
using cu::CUstream;
using cu::simulator::Call;

namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

Settings plain(Settings settings = {}) {
  settings.expandable_segments = false;
  return settings;
}

// A fresh simulated device, an allocator on it, and streams.  Checks at the end that nothing
// leaked.
struct Fixture {
  explicit Fixture(Settings settings = {}, Hooks hooks = {}, std::size_t memory = GiB,
                   std::uint64_t seed = 0)
      : Fixture(options_for(memory, seed), settings, hooks) {}
  Fixture(const cu::SimulatorOptions& options, Settings settings, Hooks hooks) {
    cu::simulator::reset(options);
    CHECK_CU(driver.cuInit(0));
    CHECK_CU(driver.cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_CU(driver.cuCtxSetCurrent(context));
    for (CUstream& stream : streams)
      CHECK_CU(driver.cuStreamCreateWithPriority(&stream, cu::CU_STREAM_NON_BLOCKING, 0));
    allocator = std::make_unique<DeviceAllocator>(driver, 0, settings, hooks);
  }
  static cu::SimulatorOptions options_for(std::size_t memory, std::uint64_t seed) {
    cu::SimulatorOptions options;
    options.memory = memory;
    options.seed = seed;
    return options;
  }

  Block* get(std::size_t bytes, int stream = 0) {
    return allocator->allocate(bytes, streams[stream]);
  }
  void put(Block* block) { allocator->free(block); }
  static cu::CUdeviceptr at(const Block* block) { return DeviceAllocator::view(block).address; }
  static std::size_t size(const Block* block) { return DeviceAllocator::view(block).size; }
  Statistics stats() { return allocator->statistics(); }
  std::int64_t reserved() { return stats().reserved_bytes.all.current; }
  std::size_t device_bytes() { return cu::simulator::counters(0).live_bytes; }
  void fill(const Block* block, unsigned char value, int stream = 0) {
    CHECK_CU(driver.cuMemsetD8Async(at(block), value, DeviceAllocator::view(block).requested,
                                    streams[stream]));
  }
  std::vector<unsigned char> read(cu::CUdeviceptr address, std::size_t bytes, int stream = 0) {
    std::vector<unsigned char> host(bytes);
    CHECK_CU(driver.cuMemcpyDtoHAsync(host.data(), address, bytes, streams[stream]));
    CHECK_CU(driver.cuStreamSynchronize(streams[stream]));
    return host;
  }
  // More work than polling gets through.
  void keep_busy(int stream, cu::CUdeviceptr address) {
    for (int i = 0; i < 300; ++i) CHECK_CU(driver.cuMemsetD8Async(address, 1, 1, streams[stream]));
  }
  void sync() { CHECK_CU(driver.cuCtxSynchronize()); }

  // Everything is free: nothing is counted, and the driver has it all back.
  void check_empty() {
    sync();
    allocator->empty_cache();
    const Statistics s = stats();
    for (const StatBySize* stat :
         {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
          &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
      for (const Stat* each : {&stat->all, &stat->small_pool, &stat->large_pool}) {
        CHECK_EQ(each->current, 0);
        CHECK_EQ(each->allocated, each->freed);
      }
    CHECK_EQ(s.oversize_allocations.current, 0);
    CHECK_EQ(s.oversize_segments.current, 0);
    CHECK(allocator->snapshot().empty());
    CHECK_EQ(device_bytes(), 0);
  }

  const cu::Driver& driver = cu::simulated_driver();
  cu::CUcontext context = nullptr;
  CUstream streams[4];
  std::unique_ptr<DeviceAllocator> allocator;
};

// What an out-of-memory error says.
template <class Act>
std::string oom_message(Act act) {
  try {
    act();
  } catch (const OutOfMemoryError& error) {
    return error.what();
  }
  return "";
}

#define CHECK_CONTAINS(text, part)                                                     \
  do {                                                                                 \
    const std::string check_text = (text);                                             \
    if (check_text.find(part) == std::string::npos)                                    \
      ::tritorch::testing::fail(__FILE__, __LINE__,                                    \
                                "no \"" + std::string(part) + "\" in: " + check_text); \
  } while (0)

}  // namespace

// ---- Sizes and segments

TEST(sizes_are_rounded_and_nothing_is_a_block) {
  Fixture f;
  Block* a = f.get(1);
  CHECK_EQ(f.size(a), 512);
  CHECK_EQ(DeviceAllocator::view(a).requested, 1);
  Block* b = f.get(513);
  CHECK_EQ(f.size(b), 1024);
  Block* none = f.get(0);
  CHECK(none != nullptr);
  CHECK_EQ(f.at(none), 0);
  f.allocator->record_stream(none, f.streams[1]);
  CHECK_EQ(f.stats().allocation.all.current, 2);
  CHECK_EQ(f.stats().requested_bytes.all.current, 514);
  CHECK(f.allocator->find(f.at(b)) == b);
  CHECK(f.allocator->find(f.at(b) + 512) == nullptr);
  for (Block* block : {none, a, b}) f.put(block);
  CHECK(f.allocator->find(0) == nullptr);
  f.check_empty();
}

TEST(power_of_two_divisions) {
  Settings settings;
  settings.roundup_power2_divisions = 4;
  Fixture f(settings);
  const std::pair<std::size_t, std::size_t> cases[] = {
      {1200, 1536},       {2048, 2048},           {2049, 2560},
      {5 * KiB, 5 * KiB}, {5 * KiB + 1, 6 * KiB}, {7 * KiB + 5, 8 * KiB}};
  for (auto [bytes, rounded] : cases) {
    Block* block = f.get(bytes);
    CHECK_EQ(f.size(block), rounded);
    f.put(block);
  }
}

TEST(plain_segment_sizes) {
  Fixture f(plain());
  const std::pair<std::size_t, std::size_t> cases[] = {
      {512, 2 * MiB},       {MiB, 2 * MiB},
      {MiB + 1, 20 * MiB},  {10 * MiB - 512, 20 * MiB},
      {10 * MiB, 10 * MiB}, {21 * MiB + 1, 22 * MiB}};
  for (auto [bytes, segment] : cases) {
    Block* block = f.get(bytes);
    CHECK_EQ(f.reserved(), std::int64_t(segment));
    CHECK_EQ(f.stats().segment.all.current, 1);
    f.put(block);
    f.allocator->empty_cache();
  }
  f.check_empty();
}

TEST(plain_split_and_coalesce) {
  Fixture f(plain());
  Block* a = f.get(512);
  Block* b = f.get(1024);
  Block* c = f.get(512);
  CHECK_EQ(f.at(b), f.at(a) + 512);
  CHECK_EQ(f.at(c), f.at(b) + 1024);
  CHECK_EQ(f.stats().inactive_split.all.current, 1);
  CHECK_EQ(f.stats().inactive_split_bytes.small_pool.current, std::int64_t(2 * MiB - 2048));
  f.put(b);
  CHECK_EQ(f.stats().inactive_split.all.current, 2);
  f.put(a);
  CHECK_EQ(f.stats().inactive_split.all.current, 2);
  f.put(c);
  CHECK_EQ(f.stats().inactive_split.all.current, 0);
  CHECK_EQ(f.stats().inactive_split_bytes.all.current, 0);
  Block* whole = f.get(MiB);
  CHECK_EQ(f.at(whole), f.at(a));
  f.put(whole);

  // A large block is split only if more than 1 MiB would remain.
  Block* large = f.get(19 * MiB);
  CHECK_EQ(f.size(large), 20 * MiB);
  f.put(large);
  f.check_empty();
  large = f.get(2 * MiB);
  CHECK_EQ(f.size(large), 2 * MiB);
  Block* rest = f.get(17 * MiB);  // of the 18 left, exactly 1 MiB would remain
  CHECK_EQ(f.size(rest), 18 * MiB);
  CHECK_EQ(f.reserved(), std::int64_t(20 * MiB));
  f.put(rest);
  f.put(large);
  f.check_empty();
}

TEST(best_fit_prefers_small_then_low) {
  Fixture f;
  std::vector<Block*> blocks;
  for (std::size_t bytes : {4096, 512, 2048, 512, 2048, 512, 3072, 512})
    blocks.push_back(f.get(bytes));
  const auto low = f.at(blocks[2]), high = f.at(blocks[4]), larger = f.at(blocks[6]);
  for (std::size_t i = 0; i < blocks.size(); i += 2) f.put(blocks[i]);
  Block* a = f.get(2048);
  Block* b = f.get(2048);
  Block* c = f.get(2048);
  CHECK_EQ(f.at(a), low);
  CHECK_EQ(f.at(b), high);
  CHECK_EQ(f.at(c), larger);
  for (Block* block : {a, b, c}) f.put(block);
  for (std::size_t i = 1; i < blocks.size(); i += 2) f.put(blocks[i]);
  f.check_empty();
}

TEST(the_index_never_misses_a_block) {
  struct Node {
    cu::CUdeviceptr address;
    std::size_t size;
    Node *list_prev, *list_next;
  };
  const auto any = [](const Node*) { return true; };
  // 30 blocks in one bin (a 32nd of a power of two): only the one looked at last will do.
  FreeIndex<Node> index;
  std::vector<Node> nodes(30, {0, 512 * KiB, nullptr, nullptr});
  nodes[0].size = 520 * KiB;
  for (Node& node : nodes) index.insert(&node);
  CHECK(index.best_fit(516 * KiB, any) == &nodes[0]);
  CHECK(index.best_fit(521 * KiB, any) == nullptr);
  CHECK(index.best_fit(512 * KiB, [](const Node* node) { return node->size > 512 * KiB; }) ==
        &nodes[0]);
  for (Node& node : nodes) index.remove(&node);
  CHECK(index.best_fit(512, any) == nullptr);

  // Sizes over the whole range: what is found is sufficient, and in the lowest bin that has any.
  std::mt19937_64 random(3);
  std::vector<Node> many(300);
  std::set<Node*> in;
  for (int step = 0; step < 20000; ++step) {
    Node* node = &many[random() % many.size()];
    if (in.erase(node)) {
      index.remove(node);
    } else {
      *node = {random(), 512 * (1 + (random() >> (28 + random() % 36))), nullptr, nullptr};
      index.insert(node);
      in.insert(node);
    }
    const std::size_t size = 512 * (1 + (random() >> (28 + random() % 36)));
    std::size_t smallest = SIZE_MAX;
    for (const Node* each : in)
      if (each->size >= size) smallest = std::min(smallest, each->size);
    const Node* found = index.best_fit(size, any);
    CHECK_EQ(found != nullptr, smallest != SIZE_MAX);
    CHECK(!found || (found->size >= size && found->size - smallest <= smallest / 16));
    std::size_t visited = 0;
    index.for_each([&](const Node*) { ++visited; });
    CHECK_EQ(visited, in.size());
  }
}

TEST(streams_and_kinds_do_not_share) {
  Fixture f(plain());
  Block* a = f.get(1024, 0);
  const auto address = f.at(a);
  f.put(a);
  Block* b = f.get(1024, 1);
  CHECK(f.at(b) != address);
  Block* c = f.get(1024, 0);
  CHECK_EQ(f.at(c), address);
  Block* d = f.get(2 * MiB, 0);
  CHECK_EQ(f.stats().segment.small_pool.current, 2);
  CHECK_EQ(f.stats().segment.large_pool.current, 1);
  for (Block* block : {b, c, d}) f.put(block);
  f.check_empty();
}

TEST(max_split_size_of_plain_segments) {
  Settings settings = plain();
  settings.max_split_size = 32 * MiB;
  Fixture f(settings);
  CHECK_EQ(f.stats().max_split_size, std::int64_t(32 * MiB));
  Block* big = f.get(64 * MiB);
  CHECK_EQ(f.stats().oversize_allocations.current, 1);
  CHECK_EQ(f.stats().oversize_segments.current, 1);
  const auto address = f.at(big);
  f.put(big);
  CHECK_EQ(f.stats().oversize_allocations.current, 0);
  Block* small = f.get(30 * MiB);  // does not get a piece of the big one
  CHECK(f.at(small) != address);
  Block* near = f.get(50 * MiB);  // nearly fills it: whole
  CHECK_EQ(f.at(near), address);
  CHECK_EQ(f.size(near), 64 * MiB);
  f.put(near);
  Block* far = f.get(40 * MiB);  // would waste more than 20 MiB
  CHECK(f.at(far) != address);
  f.put(far);
  f.put(small);
  f.check_empty();
}

TEST(max_split_size_does_not_bind_expandable_segments) {
  Settings settings;
  settings.max_split_size = 32 * MiB;
  Fixture f(settings);
  f.put(f.get(100 * MiB));
  const auto before = f.reserved();
  Block* a = f.get(30 * MiB);
  Block* b = f.get(40 * MiB);
  CHECK_EQ(f.reserved(), before);
  CHECK_EQ(f.size(a), 30 * MiB);
  CHECK_EQ(f.size(b), 40 * MiB);
  f.put(a);
  f.put(b);
  f.check_empty();
}

TEST(parse_settings_says_what_is_wrong) {
  const Settings s = parse_settings(
      "expandable_segments:False, max_split_size_mb:512,garbage_collection_threshold:0.8,"
      "roundup_power2_divisions:8,sanitize:True,poison_on_free:1,backend:native,");
  CHECK(!s.expandable_segments && s.sanitize && s.poison_on_free);
  CHECK_EQ(s.max_split_size, 512 * MiB);
  CHECK_EQ(s.garbage_collection_threshold, 0.8);
  CHECK_EQ(s.roundup_power2_divisions, 8);
  CHECK(parse_settings("").expandable_segments);
  CHECK_THROWS_WITH(parse_settings("expandible:True"), std::invalid_argument, "expandible");
  CHECK_THROWS_WITH(parse_settings("max_split_size_mb:20"), std::invalid_argument, "above 20");
  CHECK_THROWS_WITH(parse_settings("roundup_power2_divisions:3"), std::invalid_argument, "power");
  CHECK_THROWS_WITH(parse_settings("garbage_collection_threshold:1.5"), std::invalid_argument,
                    "between 0 and 1");
  CHECK_THROWS_WITH(parse_settings("sanitize"), std::invalid_argument, "name:value");
}

// ---- Expandable segments

TEST(expandable_grows_in_place) {
  Fixture f;
  Block* a = f.get(3 * MiB);
  CHECK_EQ(f.reserved(), std::int64_t(20 * MiB));
  Block* b = f.get(30 * MiB);  // 17 free MiB at the tail and one chunk more
  CHECK_EQ(f.at(b), f.at(a) + 3 * MiB);
  CHECK_EQ(f.reserved(), std::int64_t(40 * MiB));
  CHECK_EQ(f.device_bytes(), 40 * MiB);
  CHECK_EQ(f.stats().segment.all.current, 0);  // PyTorch counts plain segments only
  Block* c = f.get(6 * MiB + 512);             // any remainder may be split off
  CHECK_EQ(f.size(c), 6 * MiB + 512);
  Block* small = f.get(2048);
  CHECK_EQ(f.reserved(), std::int64_t(42 * MiB));
  CHECK_EQ(f.allocator->snapshot().size(), 2);
  CHECK_EQ(f.stats().inactive_split.all.current, 0);
  for (Block* block : {a, b, c, small}) f.put(block);
  f.check_empty();
}

TEST(empty_cache_unmaps_whole_chunks_and_holes_are_refilled) {
  Fixture f;
  std::vector<Block*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(f.get(20 * MiB));
  const auto base = f.at(blocks[0]);
  Block* tail = f.get(20 * MiB);
  f.put(blocks[1]);
  f.put(blocks[2]);
  f.put(blocks[4]);
  f.fill(tail, 7);
  f.allocator->empty_cache();
  CHECK_EQ(f.reserved(), std::int64_t(80 * MiB));
  CHECK_EQ(f.device_bytes(), 80 * MiB);
  CHECK_EQ(f.allocator->snapshot().size(), 3);
  // 35 MiB need two chunks in the first hole or at the end; the hole is lower.
  Block* wide = f.get(35 * MiB);
  CHECK_EQ(f.at(wide), base + 20 * MiB);
  CHECK_EQ(f.reserved(), std::int64_t(120 * MiB));
  Block* again = f.get(18 * MiB);
  CHECK_EQ(f.at(again), base + 80 * MiB);
  for (unsigned char byte : f.read(f.at(tail), 20 * MiB)) CHECK_EQ(int(byte), 7);
  // A hole between free blocks is bridged.
  f.put(again);
  f.allocator->empty_cache();
  f.put(blocks[3]);
  f.put(blocks[5]);
  Block* bridge = f.get(60 * MiB);
  CHECK_EQ(f.at(bridge), base + 55 * MiB);
  CHECK_EQ(f.reserved(), std::int64_t(140 * MiB));
  for (Block* block : {blocks[0], wide, tail, bridge}) f.put(block);
  f.check_empty();
}

TEST(partial_chunks_stay) {
  Fixture f;
  Block* a = f.get(10 * MiB);
  Block* b = f.get(45 * MiB);
  Block* c = f.get(5 * MiB);
  CHECK_EQ(f.reserved(), std::int64_t(60 * MiB));
  f.put(b);  // [10, 55): the chunk [20, 40) lies in it whole
  f.allocator->empty_cache();
  CHECK_EQ(f.reserved(), std::int64_t(40 * MiB));
  Block* left = f.get(10 * MiB);
  Block* right = f.get(15 * MiB);
  CHECK_EQ(f.reserved(), std::int64_t(40 * MiB));
  CHECK_EQ(f.at(left), f.at(a) + 10 * MiB);
  CHECK_EQ(f.at(right), f.at(a) + 40 * MiB);
  for (Block* block : {a, c, left, right}) f.put(block);
  f.check_empty();
}

TEST(no_virtual_memory_means_plain) {
  cu::SimulatorOptions options = Fixture::options_for(GiB, 0);
  options.virtual_memory = false;
  Fixture f(options, {}, {});
  Block* a = f.get(512);
  CHECK_EQ(f.stats().segment.all.current, 1);
  f.put(a);
  f.check_empty();
}

TEST(sizes_that_change_reserve_what_they_need) {
  Fixture f;  // pt#193400: every step a little larger
  for (std::size_t mb = 10; mb < 200; mb += 7) f.put(f.get(mb * MiB));
  CHECK(f.reserved() <= std::int64_t(220 * MiB));
  f.check_empty();
}

// ---- Other streams

TEST(recorded_streams_are_waited_for) {
  for (const Settings& settings : {Settings{}, plain()}) {
    Fixture f(settings);
    Block* a = f.get(4096);
    const auto address = f.at(a);
    f.fill(a, 1, 1);
    f.allocator->record_stream(a, f.streams[0]);  // its own: ignored
    f.allocator->record_stream(a, f.streams[1]);
    f.allocator->record_stream(a, f.streams[1]);
    f.put(a);
    CHECK_EQ(f.stats().allocation.all.current, 0);
    CHECK_EQ(f.stats().active.all.current, 1);
    CHECK_EQ(f.stats().requested_bytes.all.current, 4096);
    CHECK_EQ(cu::simulator::counters(0).live_events, 1);
    CHECK(f.allocator->snapshot()[0].blocks[0].state == BlockSnapshot::active_awaiting_free);
    f.sync();
    Block* b = f.get(4096);
    CHECK_EQ(f.at(b), address);
    CHECK_EQ(f.stats().active.all.current, 1);
    f.allocator->record_stream(b, f.streams[2]);
    f.allocator->record_stream(b, f.streams[3]);
    f.fill(b, 2, 2);
    f.put(b);
    CHECK_EQ(f.stats().active.all.current, 1);
    f.check_empty();
  }
}

TEST(a_missing_record_stream_shows) {
  Fixture f;
  Block* a = f.get(4096);
  f.fill(a, 1);
  f.sync();
  const auto address = f.at(a);
  f.put(a);  // nothing recorded: the poison is queued at once
  f.sync();
  CHECK_EQ(int(f.read(address, 1)[0]), 0xDB);
  Block* b = f.get(4096);
  f.fill(b, 1);
  f.sync();
  f.allocator->record_stream(b, f.streams[1]);
  std::vector<unsigned char> host(4096);
  CHECK_CU(f.driver.cuMemcpyDtoHAsync(host.data(), f.at(b), 4096, f.streams[1]));
  f.put(b);
  CHECK_CU(f.driver.cuStreamSynchronize(f.streams[0]));
  CHECK_CU(f.driver.cuStreamSynchronize(f.streams[1]));
  CHECK_EQ(int(host[0]), 1);  // recorded: what was queued there read the old contents
  f.check_empty();
}

TEST(a_destroyed_stream_is_survived) {
  Fixture f;
  CUstream gone = nullptr;
  CHECK_CU(f.driver.cuStreamCreateWithPriority(&gone, cu::CU_STREAM_NON_BLOCKING, 0));
  Block* a = f.allocator->allocate(512, gone);
  Block* b = f.get(512);
  f.allocator->record_stream(b, gone);
  CHECK_CU(f.driver.cuStreamDestroy(gone));
  f.put(b);
  f.put(a);
  f.put(f.get(512));
  f.check_empty();
}

// ---- Captures and private pools

TEST(captures_use_their_pool) {
  for (const Settings& settings : {Settings{}, plain()}) {
    Fixture f(settings);
    const PoolId pool = f.allocator->create_pool();
    Block* outside = f.get(4096);
    f.allocator->begin_capture_to_pool(pool, f.streams[0]);
    CHECK_CU(f.driver.cuStreamBeginCapture(f.streams[0], cu::CU_STREAM_CAPTURE_MODE_GLOBAL));
    cu::CUevent fork = nullptr;
    CHECK_CU(f.driver.cuEventCreate(&fork, cu::CU_EVENT_DISABLE_TIMING));
    CHECK_CU(f.driver.cuEventRecord(fork, f.streams[0]));
    CHECK_CU(f.driver.cuStreamWaitEvent(f.streams[1], fork, 0));
    Block* a = f.get(4096, 0);
    Block* b = f.get(3 * MiB, 1);  // a forked stream: part of the capture
    Block* c = f.get(4096, 2);     // not part of it
    std::map<cu::CUdeviceptr, PoolId> pools;
    for (const auto& segment : f.allocator->snapshot())
      for (const auto& block : segment.blocks) pools[block.address] = segment.pool;
    CHECK_EQ(pools.at(f.at(a)), pool);
    CHECK_EQ(pools.at(f.at(b)), pool);
    CHECK_EQ(pools.at(f.at(c)), 0);
    // Events cannot be recorded now: the free waits for the capture's end.
    f.allocator->record_stream(outside, f.streams[2]);
    f.put(outside);
    CHECK_EQ(cu::simulator::counters(0).live_events, 1);
    CHECK_EQ(f.stats().active.all.current, 4);
    const auto inner = f.at(a);
    f.put(a);
    Block* d = f.get(4096, 0);  // within the capture memory is reused
    CHECK_EQ(f.at(d), inner);
    f.put(d);
    f.put(b);
    f.allocator->empty_cache();  // a capture underway, and its pool in use: neither is harmed
    CHECK_CU(f.driver.cuEventRecord(fork, f.streams[1]));
    CHECK_CU(f.driver.cuStreamWaitEvent(f.streams[0], fork, 0));
    cu::CUgraph graph = nullptr;
    CHECK_CU(f.driver.cuStreamEndCapture(f.streams[0], &graph));
    f.allocator->end_capture_to_pool(pool, f.streams[0]);
    CHECK(graph != nullptr);
    std::size_t nodes = 0;
    CHECK_CU(f.driver.cuGraphGetNodes(graph, nullptr, &nodes));
    CHECK_CU(f.driver.cuGraphDestroy(graph));

    const auto kept = f.reserved();
    f.put(c);
    Block* e = f.get(4096, 0);  // the ordinary pool again, and the deferred free is through
    CHECK(f.at(e) != inner);
    f.put(e);
    f.allocator->empty_cache();
    CHECK(f.reserved() < kept && f.reserved() > 0);  // the pool is still in use
    CHECK_EQ(f.allocator->pool_use_count(pool), 1);
    f.allocator->retain_pool(pool);
    f.allocator->release_pool(pool);
    f.allocator->empty_cache();
    CHECK(f.reserved() > 0);
    f.allocator->release_pool(pool);
    CHECK_EQ(f.allocator->pool_use_count(pool), 0);
    CHECK_THROWS(f.allocator->retain_pool(pool), std::invalid_argument);
    f.check_empty();
    CHECK_CU(f.driver.cuEventDestroy(fork));
  }
}

TEST(thread_pools) {
  Fixture f;
  const PoolId pool = f.allocator->create_pool(), other = f.allocator->create_pool();
  const auto pool_of = [&](Block* block) {
    for (const auto& segment : f.allocator->snapshot())
      for (const auto& each : segment.blocks)
        if (each.address == f.at(block)) return segment.pool;
    return ~PoolId{0};
  };
  f.allocator->begin_thread_to_pool(pool);
  Block* a = f.get(512);
  CHECK_EQ(pool_of(a), pool);
  f.allocator->begin_thread_to_pool(other);  // the inner one wins
  Block* b = f.get(512);
  CHECK_EQ(pool_of(b), other);
  Block* elsewhere = nullptr;
  std::thread([&] {
    (void)f.driver.cuCtxSetCurrent(f.context);
    elsewhere = f.get(512);
  }).join();
  CHECK_EQ(pool_of(elsewhere), 0);
  f.allocator->end_thread_to_pool(other);
  f.allocator->end_thread_to_pool(pool);
  CHECK_THROWS(f.allocator->end_thread_to_pool(pool), std::invalid_argument);
  f.allocator->release_pool(pool);
  f.allocator->release_pool(other);
  f.put(b);
  f.put(elsewhere);
  f.allocator->empty_cache();
  CHECK(f.reserved() > 0);  // `a` lives on in a released pool; freeing it frees the pool
  f.put(a);
  f.check_empty();
}

// ---- The ladder

TEST(ladder_waits_for_events) {
  for (const Settings& settings : {Settings{}, plain()}) {
    Fixture f(settings, {}, 100 * MiB);
    Block* a = f.get(80 * MiB);
    f.keep_busy(1, f.at(a));
    f.allocator->record_stream(a, f.streams[1]);
    const auto address = f.at(a);
    f.put(a);
    Block* b = f.get(80 * MiB);
    CHECK_EQ(f.at(b), address);
    CHECK_EQ(f.stats().num_sync_all_streams, 1);
    CHECK_EQ(f.stats().num_device_free, 0);
    f.put(b);
    f.check_empty();
  }
}

TEST(ladder_releases_what_is_big_enough_first) {
  Fixture f(plain(), {}, 200 * MiB);
  Block* a = f.get(40 * MiB, 1);
  Block* b = f.get(60 * MiB, 1);
  Block* c = f.get(90 * MiB, 2);
  for (Block* block : {a, b, c}) f.put(block);
  Block* d = f.get(50 * MiB, 0);  // the 60 are the smallest that do
  CHECK_EQ(f.stats().num_device_free, 1);
  CHECK_EQ(f.stats().num_alloc_retries, 0);
  CHECK_EQ(f.reserved(), std::int64_t(180 * MiB));
  Block* e = f.get(120 * MiB, 3);  // all that is cached together
  CHECK_EQ(f.stats().num_device_free, 3);
  CHECK_EQ(f.stats().num_alloc_retries, 0);
  f.put(d);
  f.put(e);
  f.check_empty();
}

TEST(ladder_releases_all) {
  Fixture f(plain(), {}, 100 * MiB);
  Block* a = f.get(2 * MiB, 1);  // 20
  Block* b = f.get(512, 1);      // 2
  f.put(a);
  f.put(b);
  Block* c = f.get(96 * MiB);
  CHECK_EQ(f.stats().num_alloc_retries, 1);
  CHECK_EQ(f.stats().num_device_free, 2);
  f.put(c);
  f.check_empty();
}

static bool collected_something = false;
static int collections = 0;
static Fixture* collecting = nullptr;
static Block* garbage = nullptr;
static bool collect() {
  ++collections;
  if (garbage) collecting->put(std::exchange(garbage, nullptr));  // the lock must be free
  return collected_something;
}

TEST(ladder_collects_garbage_once) {
  Hooks hooks;
  hooks.collect_garbage = collect;
  Fixture f({}, hooks, 100 * MiB);
  collecting = &f;
  collections = 0;
  collected_something = true;
  garbage = f.get(80 * MiB, 1);
  Block* a = f.get(60 * MiB);
  CHECK_EQ(collections, 1);
  CHECK_EQ(f.stats().num_ooms, 0);
  CHECK_THROWS(f.get(60 * MiB), OutOfMemoryError);
  CHECK_EQ(collections, 2);
  collected_something = false;
  const auto retries = f.stats().num_alloc_retries;
  CHECK_THROWS(f.get(60 * MiB), OutOfMemoryError);
  CHECK_EQ(f.stats().num_alloc_retries, retries + 1);
  CHECK_EQ(f.stats().num_ooms, 2);
  f.put(a);
  f.check_empty();
}

TEST(memory_fraction) {
  Fixture f({}, {}, GiB);
  f.allocator->set_memory_fraction(0.1);
  CHECK_EQ(f.allocator->memory_fraction(), 0.1);
  Block* a = f.get(60 * MiB);
  CHECK_CONTAINS(oom_message([&] { f.get(60 * MiB); }), "set_per_process_memory_fraction");
  f.allocator->set_memory_fraction(1);
  f.put(f.get(60 * MiB));
  CHECK_THROWS(f.allocator->set_memory_fraction(0), std::invalid_argument);
  CHECK_THROWS(f.allocator->set_memory_fraction(1.1), std::invalid_argument);
  f.put(a);
  f.check_empty();
}

TEST(garbage_collection_threshold_releases_the_oldest) {
  Settings settings = plain();
  settings.garbage_collection_threshold = 0.5;
  Fixture f(settings, {}, 400 * MiB);
  Block* a = f.get(100 * MiB);
  Block* b = f.get(120 * MiB);
  f.put(a);
  Block* c = f.get(2 * MiB);
  const auto old_reserved = f.reserved();
  CHECK(old_reserved >= std::int64_t(220 * MiB));
  f.put(c);
  f.put(b);
  Block* d = f.get(150 * MiB);  // 240 of 200: the oldest cached goes first
  CHECK_EQ(f.stats().num_device_free, 1);
  CHECK_EQ(f.stats().num_alloc_retries, 0);
  Block* e = f.get(120 * MiB);
  CHECK_EQ(f.stats().num_device_free, 1);
  f.put(d);
  f.put(e);
  f.check_empty();
}

// ---- Messages

static std::string stack_of(TraceId id) { return "  train.py:" + std::to_string(id); }
static TraceId next_trace = 1;

TEST(the_message_says_what_happened) {
  Hooks hooks;
  hooks.capture_trace = [] { return next_trace; };
  hooks.describe_trace = stack_of;
  Fixture f(plain(), hooks, 200 * MiB);
  std::string text = oom_message([&] { f.get(300 * MiB); });
  CHECK_CONTAINS(text,
                 "CUDA out of memory. Tried to allocate 300.00 MiB on GPU 0, which has 200.00 MiB");
  CHECK_CONTAINS(text, "No state of this device");
  CHECK_CONTAINS(text, "_record_memory_history()");
  CHECK_CONTAINS(oom_message([&] { f.get(SIZE_MAX - 5); }), "out of memory");
  f.allocator->record_history(true, 100);
  std::vector<Block*> blocks;
  for (int i = 0; i < 7; ++i) {
    next_trace = TraceId(100 + i);
    blocks.push_back(f.get(std::size_t(10 + i) * MiB));
  }
  next_trace = 1;
  Block* hole = f.get(60 * MiB, 1);  // in the end 91 + 60 of 200
  Block* piece = f.get(2 * MiB, 2);
  f.put(hole);
  Block* pin = f.get(50 * MiB, 1);  // 60 less 50: 10 stay free
  text = oom_message([&] { f.get(100 * MiB); });
  CHECK_CONTAINS(text, "holes, the largest of 18.00 MiB");
  CHECK_CONTAINS(text, "Who holds the most:");
  CHECK_CONTAINS(text, "train.py:106");
  CHECK_CONTAINS(text, "16.00 MiB in 1 block, allocated at:");
  CHECK_CONTAINS(text, "train.py:1");
  CHECK(text.find("train.py:102") == std::string::npos);  // five, not seven
  CHECK_CONTAINS(oom_message([&] { f.get(27 * MiB); }), "expandable_segments:True");
  CHECK(f.allocator->history().back().action == TraceEntry::oom);
  for (Block* block : blocks) f.put(block);
  f.put(pin);
  f.put(piece);
  f.check_empty();
}

TEST(history_is_a_ring) {
  Fixture f(plain());
  CHECK(f.allocator->history().empty());
  f.allocator->record_history(false, 4);
  f.put(f.get(512));
  auto entries = f.allocator->history();
  CHECK_EQ(entries.size(), 4);
  CHECK(entries[0].action == TraceEntry::segment_alloc);
  CHECK(entries[1].action == TraceEntry::alloc && entries[1].size == 512);
  CHECK(entries[2].action == TraceEntry::free_requested);
  CHECK(entries[3].action == TraceEntry::free_completed);
  f.allocator->empty_cache();
  f.allocator->snapshot();
  entries = f.allocator->history();
  CHECK_EQ(entries.size(), 4);
  CHECK(entries[2].action == TraceEntry::segment_free);
  CHECK(entries[3].action == TraceEntry::snapshot);
  CHECK(entries[0].time_us > 0 && entries[0].time_us <= entries[3].time_us);
  f.allocator->record_history(false, 0);
  CHECK(f.allocator->history().empty());
}

TEST(statistics_reset) {
  Fixture f;
  f.put(f.get(1024));
  CHECK_EQ(f.stats().allocated_bytes.all.peak, 1024);
  f.allocator->reset_peak_statistics();
  CHECK_EQ(f.stats().allocated_bytes.all.peak, 0);
  CHECK_EQ(f.stats().allocation.small_pool.allocated, 1);
  CHECK_EQ(f.stats().allocation.small_pool.freed, 1);
  f.allocator->reset_accumulated_statistics();
  CHECK_EQ(f.stats().allocation.small_pool.allocated, 0);
  CHECK_EQ(f.stats().reserved_bytes.all.current, std::int64_t(2 * MiB));
}

// ---- Failures

TEST(other_errors_are_thrown_and_leave_no_trace) {
  for (const Settings& settings : {Settings{}, plain()}) {
    Fixture f(settings);
    Block* a = f.get(25 * MiB);
    for (std::uint64_t nth = 1; nth <= 3; ++nth) {  // growing by 60 MiB takes three chunks
      cu::simulator::fail(Call::alloc, settings.expandable_segments ? nth : 1,
                          cu::CUDA_ERROR_ILLEGAL_STATE);
      const auto before = f.reserved();
      const auto device = f.device_bytes();
      CHECK_THROWS_WITH(f.get(70 * MiB), CudaError, "ILLEGAL_STATE");
      CHECK_EQ(f.reserved(), before);
      CHECK_EQ(f.device_bytes(), device);
      CHECK_EQ(f.stats().allocation.all.current, 1);
      CHECK_EQ(f.stats().num_ooms, 0);
    }
    f.put(f.get(70 * MiB));
    f.put(a);
    f.check_empty();
  }
}

TEST(out_of_memory_at_each_chunk_is_retried) {
  for (std::uint64_t nth = 1; nth <= 4; ++nth) {
    Fixture f;
    f.put(f.get(8 * MiB, 1));
    cu::simulator::fail(Call::alloc, nth, cu::CUDA_ERROR_OUT_OF_MEMORY);
    Block* a = f.get(70 * MiB);
    CHECK_EQ(f.stats().num_ooms, 0);
    CHECK_EQ(f.stats().num_alloc_retries, 1);  // what was cached would not have been enough
    CHECK_EQ(f.device_bytes(), std::size_t(f.reserved()));
    f.put(a);
    f.check_empty();
  }
}

static cu::Driver failing_table;
static int event_failures = 0;

TEST(a_failing_free_is_reported_by_the_next_allocation) {
  Fixture f;
  failing_table = cu::simulated_driver();
  failing_table.cuEventRecord = [](cu::CUevent event, CUstream stream) {
    if (event_failures-- > 0) return cu::CUDA_ERROR_UNKNOWN;
    return cu::simulated_driver().cuEventRecord(event, stream);
  };
  f.allocator = std::make_unique<DeviceAllocator>(failing_table, 0, Settings{});
  Block* a = f.get(512);
  f.allocator->record_stream(a, f.streams[1]);
  event_failures = 1;
  f.put(a);
  CHECK_EQ(f.stats().active.all.current, 1);
  CHECK_THROWS_WITH(f.get(512), CudaError, "cuEventRecord");
  f.put(f.get(512));  // the event is recorded now
  f.check_empty();
  // A driver that shuts down is nothing to report.
  failing_table.cuEventRecord = [](cu::CUevent, CUstream) { return cu::CUDA_ERROR_DEINITIALIZED; };
  a = f.get(512);
  f.allocator->record_stream(a, f.streams[1]);
  f.put(a);
  f.put(f.get(512));
  f.allocator.reset();
  f.allocator = std::make_unique<DeviceAllocator>(f.driver, 0, Settings{});
}

TEST(the_destructor_gives_everything_back) {
  for (const Settings& settings : {Settings{}, plain()}) {
    Fixture f(settings);
    const auto events = cu::simulator::counters(0).live_events;
    f.get(512);
    f.get(50 * MiB);
    Block* a = f.get(30 * MiB, 1);
    f.put(f.get(70 * MiB));
    f.allocator->record_stream(a, f.streams[2]);
    f.put(a);
    f.allocator.reset();
    CHECK_EQ(f.device_bytes(), 0);
    CHECK_EQ(cu::simulator::counters(0).live_events, events);
    f.allocator = std::make_unique<DeviceAllocator>(f.driver, 0, settings);
  }
}

// ---- The sanitizer

TEST(the_sanitizer_finds_what_is_overwritten) {
  Settings settings;
  settings.sanitize = true;
  Hooks hooks;
  hooks.capture_trace = [] { return next_trace++; };
  hooks.describe_trace = stack_of;
  for (bool expandable : {true, false}) {
    settings.expandable_segments = expandable;
    Fixture f(settings, hooks);
    next_trace = 1000;
    const auto poke = [&](cu::CUdeviceptr address, std::size_t bytes) {
      CHECK_CU(f.driver.cuMemsetD8Async(address, 1, bytes, f.streams[0]));
    };
    Block* good = f.get(1000);
    CHECK_EQ(f.size(good), 1000);
    CHECK(f.allocator->find(f.at(good)) == good);
    poke(f.at(good), 1000);
    CHECK(f.allocator->check_memory().empty());

    Block* past = f.get(1024);
    poke(f.at(past) + 1024, 1);
    auto reports = f.allocator->check_memory();
    CHECK_EQ(reports.size(), 1);
    CHECK_CONTAINS(reports[0], "write past the end of a 1024-byte allocation");
    CHECK_CONTAINS(reports[0], "offset 1024");
    CHECK_CONTAINS(reports[0], "train.py:1001");
    CHECK(f.allocator->check_memory().empty());  // once

    poke(f.at(good) - 3, 1);
    f.put(good);
    reports = f.allocator->check_memory();
    CHECK_EQ(reports.size(), 1);
    CHECK_CONTAINS(reports[0], "write before the start of a 1000-byte allocation");
    CHECK_CONTAINS(reports[0], "offset -3");
    CHECK_CONTAINS(reports[0], "freed at:\n  train.py:1002");

    const auto address = f.at(past);
    f.put(past);
    poke(address + 77, 2);
    Block* next = f.get(1024);  // its poison is verified before reuse
    reports = f.allocator->check_memory();
    CHECK_EQ(reports.size(), 1);
    CHECK_CONTAINS(reports[0], "write to freed memory, to a 1024-byte allocation");
    CHECK_CONTAINS(reports[0], "offset 77");
    CHECK_CONTAINS(reports[0], "train.py:1003");
    f.put(next);
    poke(address + 5, 1);
    reports = f.allocator->check_memory();  // and by the check
    CHECK_EQ(reports.size(), 1);
    CHECK(f.allocator->check_memory().empty());
    // What other streams still do legitimately is no finding.
    Block* shared = f.get(2048);
    f.allocator->record_stream(shared, f.streams[1]);
    f.fill(shared, 3, 1);
    f.put(shared);
    f.check_empty();
    CHECK(f.allocator->check_memory().empty());
  }
}

// ---- Frees from within a driver call

TEST(a_kernel_may_free_while_the_allocator_waits_for_it) {
  static Fixture* fixture;
  static Block* victim;
  Fixture f({}, {}, 100 * MiB);
  fixture = &f;
  victim = f.get(512);
  Block* a = f.get(60 * MiB);
  f.allocator->record_stream(a, f.streams[1]);
  f.keep_busy(1, f.at(a));
  const auto body = [](void*) { fixture->put(std::exchange(victim, nullptr)); };
  CHECK_CU(f.driver.cuLaunchHostFunc(f.streams[1], body, nullptr));
  f.put(a);
  Block* b = f.get(70 * MiB);  // waits for stream 1 with the lock held
  CHECK_EQ(f.stats().num_sync_all_streams, 1);
  CHECK(victim == nullptr);
  CHECK_EQ(f.stats().allocation.all.current, 1);
  f.put(b);
  f.check_empty();
}

// ---- Against a model

namespace {

struct Model {
  struct Live {
    Block* block;
    int stream;
    unsigned char pattern;
    std::vector<int> recorded;
  };

  void run(std::uint64_t seed, Settings settings, int steps) {
    Fixture f(settings, {}, 300 * MiB, seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](std::size_t n) { return std::size_t(random() % n); };
    std::vector<Live> live;
    std::int64_t bytes = 0, requested = 0, ooms = 0, allocations = 0;
    PoolId pool = 0;
    bool capturing = false;
    cu::CUgraph graph = nullptr;
    std::vector<std::pair<Block*, std::size_t>> captured;  // live blocks of the capture

    const auto release = [&](std::size_t i) {
      Live& each = live[i];
      // Contents must have survived, seen from the owning stream after what the others did.
      const BlockView view = DeviceAllocator::view(each.block);
      const std::size_t some = std::min<std::size_t>(view.requested, 3000);
      for (int stream : each.recorded) CHECK_CU(f.driver.cuStreamSynchronize(f.streams[stream]));
      for (std::size_t offset : {std::size_t{0}, view.requested - some})
        for (unsigned char byte : f.read(view.address + offset, some, each.stream))
          if (byte != each.pattern) CHECK_EQ(int(byte), int(each.pattern));
      if (draw(2))  // leave work queued on the other streams
        for (int stream : each.recorded)
          CHECK_CU(f.driver.cuMemsetD8Async(view.address, 0xEE, view.requested, f.streams[stream]));
      bytes -= std::int64_t(view.size);
      requested -= std::int64_t(view.requested);
      f.put(each.block);
      live[i] = live.back();
      live.pop_back();
    };

    for (int step = 0; step < steps; ++step) {
      const std::size_t action = draw(100);
      if (action < 55) {
        const int stream = int(draw(3));
        if (capturing && stream == 0) continue;
        const std::size_t kinds[] = {4 * KiB, 300 * KiB, 3 * MiB, 40 * MiB};
        const std::size_t size = 1 + draw(kinds[draw(20) == 0 ? 3 : draw(3)]);
        bool injected = false;
        if (draw(15) == 0) {
          cu::simulator::fail(Call::alloc, 1 + draw(3),
                              draw(2) ? cu::CUDA_ERROR_OUT_OF_MEMORY : cu::CUDA_ERROR_UNKNOWN);
          injected = true;
        }
        Block* block = nullptr;
        try {
          block = f.get(size, stream);
        } catch (const OutOfMemoryError&) {
          ++ooms;
        } catch (const CudaError& error) {
          if (!injected) throw;
          CHECK(error.code == cu::CUDA_ERROR_UNKNOWN);
        }
        cu::simulator::fail(Call::alloc, 0, cu::CUDA_SUCCESS);
        if (block) {
          ++allocations;
          const BlockView view = DeviceAllocator::view(block);
          CHECK(view.requested == size && view.size >= size);
          for (const Live& other : live) {
            const BlockView o = DeviceAllocator::view(other.block);
            CHECK(view.address + view.size <= o.address || o.address + o.size <= view.address);
          }
          live.push_back({block, stream, static_cast<unsigned char>(step), {}});
          f.fill(block, static_cast<unsigned char>(step), stream);
          bytes += std::int64_t(view.size);
          requested += std::int64_t(size);
        } else if (live.size() > 4) {
          for (int i = 0; i < 4; ++i) release(draw(live.size()));
        }
      } else if (action < 85) {
        if (!live.empty()) release(draw(live.size()));
      } else if (action < 93) {
        if (live.empty()) continue;
        Live& each = live[draw(live.size())];
        const int stream = int(1 + draw(3));
        f.allocator->record_stream(each.block, f.streams[stream]);
        if (stream != each.stream &&
            std::find(each.recorded.begin(), each.recorded.end(), stream) == each.recorded.end())
          each.recorded.push_back(stream);
      } else if (action < 95) {
        f.allocator->empty_cache();
      } else if (action < 97) {
        if (!capturing && std::none_of(live.begin(), live.end(),
                                       [](const Live& each) { return each.stream == 0; })) {
          pool = f.allocator->create_pool();
          f.allocator->begin_capture_to_pool(pool, f.streams[0]);
          CHECK_CU(f.driver.cuStreamBeginCapture(f.streams[0], cu::CU_STREAM_CAPTURE_MODE_RELAXED));
          capturing = true;
          for (int i = 0; i < 3; ++i) {
            const std::size_t size = 1 + draw(MiB);
            try {
              captured.push_back({f.get(size, 0), size});
            } catch (const OutOfMemoryError&) {
              ++ooms;
              continue;
            }
            ++allocations;
            bytes += std::int64_t(f.size(captured.back().first));
            requested += std::int64_t(size);
          }
        }
      } else if (capturing) {
        for (auto [block, size] : captured) {
          bytes -= std::int64_t(f.size(block));
          requested -= std::int64_t(size);
          f.put(block);
        }
        captured.clear();
        CHECK_CU(f.driver.cuStreamEndCapture(f.streams[0], &graph));
        f.allocator->end_capture_to_pool(pool, f.streams[0]);
        f.allocator->release_pool(pool);
        CHECK_CU(f.driver.cuGraphDestroy(graph));
        capturing = false;
      }
      check(f, live.size() + captured.size(), bytes, requested, allocations, ooms);
    }
    if (capturing) {
      CHECK_CU(f.driver.cuStreamEndCapture(f.streams[0], &graph));
      f.allocator->end_capture_to_pool(pool, f.streams[0]);
      CHECK_CU(f.driver.cuGraphDestroy(graph));
      f.allocator->release_pool(pool);
    }
    for (auto [block, size] : captured) f.put(block);
    while (!live.empty()) release(live.size() - 1);
    f.check_empty();
  }

  // The counters, against the model and against the blocks themselves.
  static void check(Fixture& f, std::size_t live, std::int64_t bytes, std::int64_t requested,
                    std::int64_t allocations, std::int64_t ooms) {
    const Statistics s = f.stats();
    CHECK_EQ(s.allocation.all.current, live);
    CHECK_EQ(s.allocation.all.allocated, allocations);
    CHECK_EQ(s.allocated_bytes.all.current, bytes);
    CHECK_EQ(s.num_ooms, ooms);
    std::int64_t reserved = 0, active = 0, active_bytes = 0, active_requested = 0, allocated = 0,
                 split = 0, split_bytes = 0;
    for (const SegmentSnapshot& segment : f.allocator->snapshot()) {
      reserved += std::int64_t(segment.total_size);
      allocated += std::int64_t(segment.allocated_size);
      cu::CUdeviceptr end = segment.address;
      bool was_free = false;
      for (const BlockSnapshot& block : segment.blocks) {
        CHECK_EQ(block.address, end);
        end += block.size;
        const bool is_free = block.state == BlockSnapshot::inactive;
        CHECK(!(is_free && was_free));  // neighbours are merged
        was_free = is_free;
        if (!is_free) {
          ++active;
          active_bytes += std::int64_t(block.size);
          active_requested += std::int64_t(block.requested);
        } else if (!segment.expandable && segment.blocks.size() > 1) {
          ++split;
          split_bytes += std::int64_t(block.size);
        }
      }
      CHECK_EQ(end, segment.address + segment.total_size);
    }
    CHECK_EQ(s.reserved_bytes.all.current, reserved);
    CHECK_EQ(reserved, f.device_bytes());
    CHECK_EQ(allocated, bytes);
    CHECK_EQ(s.active.all.current, active);
    CHECK_EQ(s.active_bytes.all.current, active_bytes);
    CHECK_EQ(s.requested_bytes.all.current, active_requested);
    CHECK(active_requested >= requested);
    CHECK_EQ(s.inactive_split.all.current, split);
    CHECK_EQ(s.inactive_split_bytes.all.current, split_bytes);
    for (const StatBySize* stat :
         {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
          &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes}) {
      CHECK_EQ(stat->all.current, stat->small_pool.current + stat->large_pool.current);
      for (const Stat* each : {&stat->all, &stat->small_pool, &stat->large_pool}) {
        CHECK_EQ(each->current, each->allocated - each->freed);
        CHECK(each->peak >= each->current && each->current >= 0);
      }
    }
  }
};

}  // namespace

TEST(model_expandable) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) Model().run(seed, {}, 700);
}
TEST(model_plain) {
  for (std::uint64_t seed = 11; seed <= 16; ++seed) Model().run(seed, plain(), 700);
}
TEST(model_with_every_setting) {
  Settings settings = plain();
  settings.max_split_size = 24 * MiB;
  settings.garbage_collection_threshold = 0.6;
  settings.roundup_power2_divisions = 4;
  for (std::uint64_t seed = 21; seed <= 23; ++seed) Model().run(seed, settings, 700);
  settings.expandable_segments = true;
  for (std::uint64_t seed = 31; seed <= 33; ++seed) Model().run(seed, settings, 700);
}

// ---- Pinned memory

TEST(pinned_classes_and_lookup) {
  Fixture f;
  PinnedAllocator pinned(f.driver);
  CHECK(pinned.allocate(0) == nullptr);
  char* a = static_cast<char*>(pinned.allocate(1));
  char* b = static_cast<char*>(pinned.allocate(513));
  char* c = static_cast<char*>(pinned.allocate(3 * MiB));
  CHECK_EQ(pinned.statistics().active_bytes.current, std::int64_t(512 + 1024 + 4 * MiB));
  CHECK_EQ(pinned.statistics().allocated_bytes.current, std::int64_t(8 * MiB));
  CHECK_EQ(pinned.statistics().allocations.current, 3);
  CHECK(pinned.owns(a + 511) && pinned.owns(b + 1023) && pinned.owns(c + 3 * MiB));
  CHECK(!pinned.owns(a + 512));
  int local = 0;
  CHECK(!pinned.owns(&local) && !pinned.record_stream(&local, f.streams[0]));
  pinned.free(&local);
  pinned.free(b);
  pinned.free(b);  // ignored
  CHECK(pinned.allocate(600) == b);
  pinned.free(c);
  CHECK(pinned.allocate(5 * MiB) != c);  // too small
  CHECK(pinned.allocate(4 * MiB) == c);
  CHECK_EQ(pinned.statistics().active_requests.current, 4);
  pinned.empty_cache();
  CHECK_EQ(pinned.statistics().allocations.current, 4);
  CHECK_EQ(pinned.statistics().num_host_alloc, 4);
}

TEST(pinned_blocks_wait_for_streams) {
  Fixture f;
  PinnedAllocator pinned(f.driver);
  Block* device = f.get(4096);
  char* a = static_cast<char*>(pinned.allocate(4096));
  std::memset(a, 5, 4096);
  f.keep_busy(0, f.at(device));
  CHECK_CU(f.driver.cuMemcpyHtoDAsync(f.at(device), a, 4096, f.streams[0]));
  CHECK(pinned.record_stream(a + 100, f.streams[0]));
  pinned.free(a);
  CHECK_EQ(pinned.statistics().active_requests.current, 0);
  char* b = static_cast<char*>(pinned.allocate(4096));
  CHECK(b != a);
  std::memset(b, 6, 4096);
  f.sync();
  CHECK(pinned.allocate(4096) == a);
  CHECK_EQ(int(f.read(f.at(device), 1)[0]), 5);

  // A stream under capture cannot be given an event: the block waits.
  CHECK_CU(f.driver.cuStreamBeginCapture(f.streams[1], cu::CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(pinned.record_stream(b, f.streams[1]));
  pinned.free(b);
  void* c = pinned.allocate(4096);
  CHECK(c != b);
  cu::CUgraph graph = nullptr;
  CHECK_CU(f.driver.cuStreamEndCapture(f.streams[1], &graph));
  CHECK_CU(f.driver.cuGraphDestroy(graph));
  void* d = pinned.allocate(4096);
  f.sync();
  void* e = pinned.allocate(4096);
  CHECK(d == b || e == b);
  for (void* each : {static_cast<void*>(a), c, d, e}) pinned.free(each);
  pinned.empty_cache();
  CHECK_EQ(pinned.statistics().allocated_bytes.current, 0);
  CHECK_EQ(pinned.statistics().num_host_alloc, pinned.statistics().num_host_free);
  f.put(device);
  f.check_empty();
}

TEST(pinned_out_of_memory) {
  Fixture f;
  static cu::Driver table;
  static int failures;
  table = cu::simulated_driver();
  table.cuMemHostAlloc = [](void** address, std::size_t size, unsigned flags) {
    if (failures-- > 0) return cu::CUDA_ERROR_OUT_OF_MEMORY;
    return cu::simulated_driver().cuMemHostAlloc(address, size, flags);
  };
  failures = 0;
  PinnedAllocator pinned(table);
  pinned.free(pinned.allocate(10 * MiB));
  failures = 1;
  void* a = pinned.allocate(512);  // after releasing what was cached
  CHECK_EQ(pinned.statistics().num_host_free, 1);
  failures = 2;
  CHECK_THROWS_WITH(pinned.allocate(4 * MiB), OutOfMemoryError, "pinned");
  CHECK_THROWS(pinned.allocate(SIZE_MAX), OutOfMemoryError);
  CHECK_EQ(pinned.statistics().active_requests.current, 1);
  pinned.free(a);
}
