#include "memory/registry.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "driver/context.h"
#include "driver/fork.h"
#include "simulator/simulator.h"

namespace tritorch::memory {
namespace {

ForkMutex registry_mutex;
std::array<std::atomic<DeviceAllocator*>, kMaxDevices> allocators{};
std::atomic<PinnedAllocator*> pinned{nullptr};
Hooks registered_hooks;
std::unique_ptr<Settings> chosen_settings;

Settings settings_locked() {
  if (!chosen_settings) {
    const char* text = std::getenv("TRITORCH_CUDA_ALLOC_CONF");
    chosen_settings = std::make_unique<Settings>(parse_settings(text ? text : ""));
    // On the simulated device a read of freed memory has to show.
    if (simulation_requested()) chosen_settings->poison_on_free |= cu::simulator::options().poison;
  }
  return *chosen_settings;
}

// A child cannot use what its parent allocated, and cannot know in which state it is.
void forget_in_child(void*) {
  for (auto& entry : allocators) entry = nullptr;
  pinned = nullptr;
}
const bool watching_forks = (in_forked_child(forget_in_child, &allocators), true);

}  // namespace

void set_hooks(const Hooks& hooks) { registered_hooks = hooks; }

Settings current_settings() {
  std::unique_lock lock = lock_politely(registry_mutex);
  return settings_locked();
}

void set_settings(const Settings& settings) {
  std::unique_lock lock = lock_politely(registry_mutex);
  chosen_settings = std::make_unique<Settings>(settings);
  for (auto& entry : allocators)
    if (DeviceAllocator* allocator = entry.load()) allocator->set_settings(settings);
}

DeviceAllocator* existing_allocator(int device) noexcept {
  return device >= 0 && device < kMaxDevices ? allocators[device].load() : nullptr;
}

DeviceAllocator& device_allocator(int device) {
  bind(device);
  if (DeviceAllocator* allocator = allocators[device].load()) return *allocator;
  std::unique_lock lock = lock_politely(registry_mutex);
  if (DeviceAllocator* allocator = allocators[device].load()) return *allocator;
  auto* allocator = new DeviceAllocator(driver(), device, settings_locked(), registered_hooks);
  allocators[device] = allocator;
  return *allocator;
}

PinnedAllocator* existing_pinned_allocator() noexcept { return pinned.load(); }

void forget_failures() {
  for (int device = 0; device < kMaxDevices; ++device)
    if (DeviceAllocator* allocator = existing_allocator(device)) {
      DeviceScope scope(device);
      allocator->forget_failure();
    }
  if (PinnedAllocator* allocator = pinned.load()) allocator->forget_failure();
}

PinnedAllocator& pinned_allocator() {
  bind(current_device());
  if (PinnedAllocator* allocator = pinned.load()) return *allocator;
  std::unique_lock lock = lock_politely(registry_mutex);
  if (!pinned.load()) pinned = new PinnedAllocator(driver());
  return *pinned.load();
}

}  // namespace tritorch::memory
