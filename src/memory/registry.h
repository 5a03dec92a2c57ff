// The process's allocators: one a device, made at the device's first use, and one for pinned host
// memory.  They live as long as the process: the driver reclaims what they hold.
#pragma once

#include "memory/allocator.h"
#include "memory/pinned.h"

namespace tritorch::memory {

void set_hooks(const Hooks& hooks);           // before the first allocation
void set_settings(const Settings& settings);  // of every allocator, those to come too
Settings current_settings();
DeviceAllocator& device_allocator(int device);  // binds the device on this thread
DeviceAllocator* existing_allocator(int device) noexcept;
PinnedAllocator& pinned_allocator();
PinnedAllocator* existing_pinned_allocator() noexcept;
void forget_failures();  // of every allocator's frees

}  // namespace tritorch::memory
