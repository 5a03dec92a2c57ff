// What clients of a store ask and are told, and how that is written on a socket or in a file.
//
// A frame is a header (magic, length of the rest) and typed fields: one byte (the operation or the
// status), a number, a time, and two counted lists of counted strings.  A frame that claims more
// than the limit, or whose parts do not fill it, is refused before anything is allocated for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tritorch::distributed {

#define TRITORCH_STORE_KEYS(X) X(set) X(get) X(wait) X(add) X(compare_set) X(check) X(delete_key)
#define TRITORCH_STORE_LISTS(X) X(num_keys) X(append) X(multi_get) X(multi_set) X(list_keys)
#define TRITORCH_STORE_QUEUES(X) X(queue_push) X(queue_pop) X(queue_len)
#define TRITORCH_STORE_ASKED(X) TRITORCH_STORE_LISTS(X) TRITORCH_STORE_QUEUES(X)
#define TRITORCH_STORE_OPS(X) X(hello) X(prove) TRITORCH_STORE_KEYS(X) TRITORCH_STORE_ASKED(X)
#define TRITORCH_ENUMERATOR(name) name,
enum class StoreOp : std::uint8_t { TRITORCH_STORE_OPS(TRITORCH_ENUMERATOR) count };
#undef TRITORCH_ENUMERATOR

struct StoreRequest {
  StoreOp op = StoreOp::hello;
  std::int64_t number = 0;
  std::uint32_t milliseconds = 0;  // how long it may wait
  std::vector<std::string> keys, values;
};

enum class StoreStatus : std::uint8_t { done, timed_out, empty, refused };

struct StoreReply {
  StoreStatus status = StoreStatus::done;
  std::int64_t number = 0;
  std::vector<std::string> values;
};

inline constexpr std::uint32_t kStoreMagic = 0x31545354;  // "TST1"
inline constexpr std::size_t kHeaderBytes = 8;
inline constexpr std::size_t kMostBytes = std::size_t{512} << 20;
inline constexpr std::size_t kMostBytesOfStrangers = 4096;
inline constexpr std::uint32_t kMostStrings = 1 << 20;

std::string encode(const StoreRequest& request);
std::string encode(const StoreReply& reply);
// The length of what follows a header; none if it is no header or claims more than `most`.
std::optional<std::size_t> body_length(std::string_view header, std::size_t most = kMostBytes);
// None if the bytes are no such thing.
std::optional<StoreRequest> decode_request(std::string_view body);
std::optional<StoreReply> decode_reply(std::string_view body);

}  // namespace tritorch::distributed
