// Kernels, which are host functions here, and tensor maps.
#include <atomic>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "simulator/state.h"

namespace tritorch::cu::simulator {
namespace {

constexpr int kMaxShared = 227 << 10;
std::atomic<std::string (*)()> launch_site{nullptr};
constexpr unsigned kMultiprocessors = 132, kThreadsPerMultiprocessor = 2048;

CUresult run_launch(const LaunchCopy& launch, std::string& detail) {
  const Function& kernel = *launch.function;
  if (!kernel.run || state().discard_launches) return CUDA_SUCCESS;
  CUresult result = CUDA_ERROR_LAUNCH_FAILED;
  try {
    result = kernel.run(kernel.user, {&launch.config, &launch.params, launch.site}, detail);
  } catch (const std::exception& error) {
    detail = error.what();
  }
  if (result != CUDA_SUCCESS)
    detail = "kernel " + kernel.name + (detail.empty() ? "" : ": " + detail);
  return result;
}

Function& function_of(CUfunction handle) {
  require(handle != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return *reinterpret_cast<Function*>(handle);
}
// What a tensor map holds here: enough for an interpreter to follow it.
struct TensorMapFields {
  std::uint64_t address;
  std::uint32_t dimensions[5];  // minus one, as they may be 2^32
  std::uint8_t type, rank, swizzle, interleave;
  std::uint64_t strides[4];
  std::uint16_t box[5];  // im2col: channels and pixels
  std::uint8_t element_strides[5];
  std::uint8_t fill;
  std::int16_t corners[6];
};
static_assert(sizeof(TensorMapFields) <= sizeof(CUtensorMap));

constexpr std::uint32_t kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4};

// The part that both kinds of tensor map share.
TensorMapFields encode_common(const CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                              const void* address, const cuuint64_t* dimensions,
                              const cuuint64_t* strides, const cuuint32_t* element_strides,
                              int interleave, int swizzle, int promotion, int fill,
                              std::uint64_t inner) {
  TensorMapFields fields{};
  require(map && reinterpret_cast<std::uintptr_t>(map) % 64 == 0);
  require(type >= 0 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
  require(rank >= (interleave ? 3 : 1) && rank <= 5);
  require(interleave >= 0 && interleave <= 2 && swizzle >= 0 && swizzle <= 6);
  require(promotion >= 0 && promotion <= 3 && fill >= 0 && fill <= 1);
  const bool floating = type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  require(fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || floating);
  const std::uint64_t unit = interleave == 2 ? 32 : 16;
  fields.address = reinterpret_cast<std::uintptr_t>(address);
  require(fields.address != 0 && fields.address % unit == 0);
  require(dimensions && (strides || rank == 1) && element_strides);
  const std::uint64_t inner_bytes = inner * kElementBytes[type];
  if (!interleave) {
    require(inner_bytes % 16 == 0);
    const std::uint64_t limits[] = {UINT64_MAX, 32, 64, 128, 128, 128, 128};
    require(inner_bytes <= limits[swizzle]);
  }
  for (cuuint32_t d = 0; d < rank; ++d) {
    require(dimensions[d] >= 1 && dimensions[d] <= std::uint64_t{1} << 32);
    fields.dimensions[d] = static_cast<std::uint32_t>(dimensions[d] - 1);
    if (d > 0) {
      require(strides[d - 1] % unit == 0 && strides[d - 1] < std::uint64_t{1} << 40);
      fields.strides[d - 1] = strides[d - 1];
    }
    require((d == 0 && !interleave) || (element_strides[d] >= 1 && element_strides[d] <= 8));
    fields.element_strides[d] = static_cast<std::uint8_t>(element_strides[d]);
  }
  fields.type = static_cast<std::uint8_t>(type);
  fields.rank = static_cast<std::uint8_t>(rank);
  fields.swizzle = static_cast<std::uint8_t>(swizzle);
  fields.interleave = static_cast<std::uint8_t>(interleave);
  fields.fill = static_cast<std::uint8_t>(fill);
  return fields;
}

void store(CUtensorMap* map, const TensorMapFields& fields) {
  std::memset(map->opaque, 0, sizeof map->opaque);
  std::memcpy(map->opaque, &fields, sizeof fields);
}

}  // namespace

LaunchCopy::LaunchCopy(std::shared_ptr<Function> kernel, const CUlaunchConfig& from,
                       void* const* values)
    : function(std::move(kernel)), config(from) {
  attributes.assign(from.attrs, from.attrs + from.numAttrs);
  config.attrs = attributes.data();
  std::vector<std::size_t> offsets;
  std::size_t end = 0;
  for (const std::size_t size : function->param_sizes) {
    const std::size_t alignment =
        std::min(std::bit_ceil(std::max(size, std::size_t{1})), sizeof(Chunk));
    offsets.push_back((end + alignment - 1) / alignment * alignment);
    end = offsets.back() + size;
  }
  storage.resize(end / sizeof(Chunk) + 1);
  for (std::size_t index = 0; index < offsets.size(); ++index) {
    unsigned char* to = storage[0].bytes + offsets[index];
    std::memcpy(to, values[index], function->param_sizes[index]);
    params.push_back(to);
  }
}

LaunchCopy::LaunchCopy(const LaunchCopy& other, const CUlaunchAttribute& more)
    : LaunchCopy(other.function, other.config, const_cast<void* const*>(other.params.data())) {
  attributes.push_back(more);
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  site = other.site;
}

// What the driver refuses at the call.
void validate_launch(const CUlaunchConfig& config, const Function& function) {
  const unsigned threads_xy = config.blockDimX * config.blockDimY;
  require(config.gridDimX >= 1 && config.gridDimX <= 0x7fffffffU);
  require(config.gridDimY >= 1 && config.gridDimY <= 65535);
  require(config.gridDimZ >= 1 && config.gridDimZ <= 65535);
  require(config.blockDimX >= 1 && config.blockDimX <= 1024);
  require(config.blockDimY >= 1 && config.blockDimY <= 1024);
  require(config.blockDimZ >= 1 && config.blockDimZ <= 64 && threads_xy <= 1024);
  const unsigned threads = threads_xy * config.blockDimZ;
  require(threads <= 1024);
  // More than 48 KiB must have been asked for with cuFuncSetAttribute.
  require(config.sharedMemBytes <= static_cast<unsigned>(function.max_dynamic_shared.load()));
  require(config.numAttrs == 0 || config.attrs);
  for (unsigned index = 0; index < config.numAttrs; ++index) {
    const CUlaunchAttribute& attribute = config.attrs[index];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& cluster = attribute.value.clusterDim;
      require(cluster.x && cluster.y && cluster.z);
      require(config.gridDimX % cluster.x == 0 && config.gridDimY % cluster.y == 0 &&
              config.gridDimZ % cluster.z == 0);
      require(std::uint64_t{cluster.x} * cluster.y * cluster.z <= 16);
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative) {
      const std::uint64_t blocks =
          std::uint64_t{config.gridDimX} * config.gridDimY * config.gridDimZ;
      require(blocks <= kMultiprocessors * (kThreadsPerMultiprocessor / threads),
              CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
  }
}

Action kernel_action(std::shared_ptr<const LaunchCopy> launch) {
  auto work = [launch](std::string& detail) { return run_launch(*launch, detail); };
  Action action{"kernel", std::move(work), true, nullptr};
  action.launch = std::move(launch);
  return action;
}

std::shared_ptr<const LaunchCopy> checked_launch(const CUlaunchConfig& config, CUfunction handle,
                                                 void* const* params) {
  Function& function = function_of(handle);
  validate_launch(config, function);
  require(params || function.param_sizes.empty());
  std::string site;
  if (const auto asked = launch_site.load()) site = asked();
  Lock lock(state().mutex);
  require(state().functions.count(&function) != 0, CUDA_ERROR_INVALID_HANDLE);
  auto copy = std::make_shared<LaunchCopy>(function.shared_from_this(), config, params);
  copy->site = std::move(site);
  return copy;
}

CUfunction make_function(std::string name, std::vector<std::uint32_t> param_sizes, KernelBody run,
                         void* user, void (*destroy)(void*)) {
  auto function = std::make_shared<Function>();
  function->name = std::move(name);
  function->param_sizes = std::move(param_sizes);
  function->run = run;
  function->user = user;
  function->destroy = destroy;
  Function* key = function.get();
  Lock lock(state().mutex);
  state().functions[key] = std::move(function);
  return reinterpret_cast<CUfunction>(key);
}

void set_launch_site(std::string (*site)()) { launch_site = site; }

std::string image_of(CUfunction handle) {
  auto* key = reinterpret_cast<Function*>(handle);
  Lock lock(state().mutex);
  if (!state().functions.count(key)) throw std::invalid_argument("no such function");
  std::string image = "simulated kernel " + std::to_string(reinterpret_cast<std::uintptr_t>(key));
  state().images[image] = key;
  return image;
}

void free_function(CUfunction handle) {
  std::shared_ptr<Function> doomed;  // queued launches and graphs may still hold it
  Lock lock(state().mutex);
  auto found = state().functions.find(reinterpret_cast<Function*>(handle));
  if (found == state().functions.end()) return;
  std::erase_if(state().images, [&](const auto& image) { return image.second == found->first; });
  doomed = std::move(found->second);
  state().functions.erase(found);
}

namespace entry {

void cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** params,
                      void** extra) {
  State& s = state();
  require(config != nullptr);
  Function& function = function_of(handle);
  const int device = current_device();
  check_sticky(device);
  require(extra == nullptr, CUDA_ERROR_NOT_SUPPORTED);
  validate_launch(*config, function);
  require(params || function.param_sizes.empty());
  // Measured by host-time benchmarks: no lock, no allocation.
  if (s.discard_launches.load(std::memory_order_relaxed) &&
      s.fail_in[static_cast<std::size_t>(Call::launch)].load(std::memory_order_relaxed) == 0)
    return;

  std::shared_ptr<LaunchCopy> copy;  // before the lock: may hold the kernel's last reference
  std::string site;
  if (const auto asked = launch_site.load()) site = asked();
  Lock lock(s.mutex);
  require(s.functions.count(&function) != 0, CUDA_ERROR_INVALID_HANDLE);
  const auto stream = find_stream(config->hStream);
  require(stream->device == device, CUDA_ERROR_INVALID_HANDLE);
  check_injected(Call::launch);
  if (s.discard_launches) return;
  copy = std::make_shared<LaunchCopy>(function.shared_from_this(), *config, params);
  copy->site = std::move(site);
  enqueue(lock, stream, kernel_action(copy));
  ++device_state(device).counters.launches;
}

void cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user) {
  Lock lock(state().mutex);
  require(function != nullptr);
  auto work = [function, user](std::string&) {
    function(user);
    return CUDA_SUCCESS;
  };
  enqueue(lock, find_stream(handle), {"host", work, true, nullptr});
}

void cuModuleLoadData(CUmodule* handle, const void* image) {
  Lock lock(state().mutex);
  current_device();
  require(handle && image);
  check_unsafe_in_capture();
  const std::string_view text(static_cast<const char*>(image));
  // Machine code does not run on the host, and a driver of CUDA 12 refuses that of ptxas 13.
  constexpr char kAbiOfCuda13 = 8;
  const bool machine_code = text.starts_with(
      "\x7f"
      "ELF");
  require(!machine_code || text.size() < 9 || text[8] < kAbiOfCuda13, CUDA_ERROR_INVALID_IMAGE);
  require(!machine_code, CUDA_ERROR_NOT_SUPPORTED);
  auto found = state().images.find(text);
  require(found != state().images.end(), CUDA_ERROR_INVALID_IMAGE);
  *handle = state().modules.add(std::make_shared<Module>(Module{found->second}));
}

void cuModuleUnload(CUmodule handle) {
  Lock lock(state().mutex);
  current_device();
  check_unsafe_in_capture();
  state().modules.take(handle);
}

void cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  Lock lock(state().mutex);
  require(function && name);
  Function* key = state().modules.get(handle)->function;
  auto found = state().functions.find(key);
  require(found != state().functions.end() && key->name == name, CUDA_ERROR_NOT_FOUND);
  *function = reinterpret_cast<CUfunction>(key);
}

void cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  require(value != nullptr);
  const Function& function = function_of(handle);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = 0;
      return;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = 0;
      return;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = 1;
      return;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function.max_dynamic_shared;
      return;
  }
  throw Fail{CUDA_ERROR_INVALID_VALUE};
}

void cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  Function& function = function_of(handle);
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    require(value >= 0 && value <= kMaxShared);
    function.max_dynamic_shared = value;
  }
}
void cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) { function_of(handle); }

void cuOccupancyMaxActiveClusters(int* count, CUfunction handle, const CUlaunchConfig* config) {
  require(count && config);
  function_of(handle);
  unsigned size = 1;
  for (unsigned index = 0; index < config->numAttrs; ++index)
    if (config->attrs[index].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& cluster = config->attrs[index].value.clusterDim;
      size = cluster.x * cluster.y * cluster.z;
    }
  require(size >= 1 && size <= 16);
  *count = static_cast<int>(kMultiprocessors / size);
}

void cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                            void* address, const cuuint64_t* dimensions, const cuuint64_t* strides,
                            const cuuint32_t* box, const cuuint32_t* element_strides,
                            CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                            CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  current_device();
  require(box != nullptr);
  TensorMapFields fields =
      encode_common(map, type, rank, address, dimensions, strides, element_strides, interleave,
                    swizzle, promotion, fill, box[0]);
  for (cuuint32_t d = 0; d < rank; ++d) {
    require(box[d] >= 1 && box[d] <= 256);
    fields.box[d] = static_cast<std::uint16_t>(box[d]);
  }
  store(map, fields);
}

void cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                             void* address, const cuuint64_t* dimensions, const cuuint64_t* strides,
                             const int* lower, const int* upper, cuuint32_t channels,
                             cuuint32_t pixels, const cuuint32_t* element_strides,
                             CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                             CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  current_device();
  require(rank >= 3 && lower && upper);
  TensorMapFields fields =
      encode_common(map, type, rank, address, dimensions, strides, element_strides, interleave,
                    swizzle, promotion, fill, channels);
  require(channels >= 1 && channels <= 256 && pixels >= 1 && pixels <= 1024);
  const int limit = rank == 3 ? 32768 : rank == 4 ? 128 : 16;
  for (cuuint32_t d = 0; d < rank - 2; ++d) {
    require(lower[d] >= -limit && lower[d] < limit && upper[d] >= -limit && upper[d] < limit);
    fields.corners[d] = static_cast<std::int16_t>(lower[d]);
    fields.corners[3 + d] = static_cast<std::int16_t>(upper[d]);
  }
  fields.box[0] = static_cast<std::uint16_t>(channels);
  fields.box[1] = static_cast<std::uint16_t>(pixels);
  store(map, fields);
}

}  // namespace entry
}  // namespace tritorch::cu::simulator
