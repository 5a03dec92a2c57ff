// TRITORCH_CUDA_ALLOC_CONF: "name:value,name:value", with PyTorch's names.
#include <algorithm>
#include <bit>
#include <charconv>
#include <stdexcept>

#include "memory/allocator.h"

namespace tritorch::memory {
namespace {

[[noreturn]] void reject(const std::string& name, const std::string& value, const char* needed) {
  throw std::invalid_argument("TRITORCH_CUDA_ALLOC_CONF: " + name + " needs " + needed +
                              ", but got '" + value + "'");
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

bool parse_bool(const std::string& name, const std::string& value) {
  if (value == "True" || value == "true" || value == "1") return true;
  if (value == "False" || value == "false" || value == "0") return false;
  reject(name, value, "True or False");
}

template <class T>
bool parse_number(const std::string& value, T& number) {
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  return error == std::errc() && stop == end;
}

void apply(Settings& settings, const std::string& name, const std::string& value) {
  if (name == "expandable_segments") {
    settings.expandable_segments = parse_bool(name, value);
  } else if (name == "max_split_size_mb") {
    std::size_t mb = 0;
    if (!parse_number(value, mb) || mb <= 20 || mb > (SIZE_MAX >> 21))
      reject(name, value, "a whole number of MiB above 20");
    settings.max_split_size = mb << 20;
  } else if (name == "garbage_collection_threshold") {
    double share = 0;
    if (!parse_number(value, share) || !(share > 0 && share < 1))
      reject(name, value, "a number between 0 and 1");
    settings.garbage_collection_threshold = share;
  } else if (name == "roundup_power2_divisions") {
    std::size_t divisions = 0;
    if (!parse_number(value, divisions) || divisions > 32 ||
        (divisions && !std::has_single_bit(divisions)))
      reject(name, value, "a power of two, at most 32 (or 0: off)");
    settings.roundup_power2_divisions = divisions;
  } else if (name == "sanitize") {
    settings.sanitize = parse_bool(name, value);
  } else if (name == "poison_on_free") {
    settings.poison_on_free = parse_bool(name, value);
  } else if (name == "backend") {
    if (value != "native") reject(name, value, "native (there is one backend)");
  } else {
    throw std::invalid_argument(
        "TRITORCH_CUDA_ALLOC_CONF has no setting '" + name +
        "'; it knows expandable_segments, max_split_size_mb, garbage_collection_threshold, "
        "roundup_power2_divisions, sanitize, poison_on_free and backend");
  }
}

}  // namespace

Settings parse_settings(const std::string& text) {
  Settings settings;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string item = trimmed(text.substr(start, end - start));
    start = end + 1;
    if (item.empty()) continue;
    const std::size_t colon = item.find(':');
    if (colon == std::string::npos)
      throw std::invalid_argument("TRITORCH_CUDA_ALLOC_CONF: expected name:value, but got '" +
                                  item + "'");
    apply(settings, trimmed(item.substr(0, colon)), trimmed(item.substr(colon + 1)));
  }
  return settings;
}

}  // namespace tritorch::memory
