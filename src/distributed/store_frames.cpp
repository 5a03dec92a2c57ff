#include "distributed/store_frames.h"

#include <cstring>

namespace tritorch::distributed {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put(std::string& out, const std::vector<std::string>& strings) {
  put(out, static_cast<std::uint32_t>(strings.size()));
  for (const std::string& each : strings) {
    put(out, static_cast<std::uint32_t>(each.size()));
    out += each;
  }
}

std::string frame(std::uint8_t type, std::int64_t number, std::uint32_t milliseconds,
                  const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  std::string out;
  put(out, kStoreMagic);
  put(out, std::uint32_t{0});
  put(out, type);
  put(out, number);
  put(out, milliseconds);
  put(out, keys);
  put(out, values);
  const auto length = static_cast<std::uint32_t>(out.size() - kHeaderBytes);
  std::memcpy(out.data() + 4, &length, sizeof length);
  return out;
}

// Reads fields one after the other; what is short makes it bad for good.
struct Reader {
  std::string_view rest;
  bool good = true;

  template <class T>
  T number() {
    T value{};
    if (rest.size() < sizeof value) {
      good = false;
      return value;
    }
    std::memcpy(&value, rest.data(), sizeof value);
    rest.remove_prefix(sizeof value);
    return value;
  }

  std::vector<std::string> strings() {
    const auto count = number<std::uint32_t>();
    // Each has a length of four bytes: a count that they do not cover is a lie.
    if (count > kMostStrings || count > rest.size() / 4) good = false;
    std::vector<std::string> out;
    for (std::uint32_t i = 0; good && i < count; ++i) {
      const auto size = number<std::uint32_t>();
      if (size > rest.size()) good = false;
      if (!good) break;
      out.emplace_back(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    return out;
  }
};

}  // namespace

std::string encode(const StoreRequest& request) {
  return frame(static_cast<std::uint8_t>(request.op), request.number, request.milliseconds,
               request.keys, request.values);
}

std::string encode(const StoreReply& reply) {
  return frame(static_cast<std::uint8_t>(reply.status), reply.number, 0, {}, reply.values);
}

std::optional<std::size_t> body_length(std::string_view header, std::size_t most) {
  Reader reader{header};
  const auto magic = reader.number<std::uint32_t>();
  const auto length = reader.number<std::uint32_t>();
  if (!reader.good || magic != kStoreMagic || length > most) return std::nullopt;
  return length;
}

std::optional<StoreRequest> decode_request(std::string_view body) {
  Reader reader{body};
  StoreRequest out;
  const auto type = reader.number<std::uint8_t>();
  out.op = static_cast<StoreOp>(type);
  out.number = reader.number<std::int64_t>();
  out.milliseconds = reader.number<std::uint32_t>();
  out.keys = reader.strings();
  out.values = reader.strings();
  if (!reader.good || !reader.rest.empty() || type >= static_cast<int>(StoreOp::count))
    return std::nullopt;
  return out;
}

std::optional<StoreReply> decode_reply(std::string_view body) {
  Reader reader{body};
  StoreReply out;
  const auto type = reader.number<std::uint8_t>();
  out.status = static_cast<StoreStatus>(type);
  out.number = reader.number<std::int64_t>();
  reader.number<std::uint32_t>();
  reader.strings();
  out.values = reader.strings();
  if (!reader.good || !reader.rest.empty() ||
      type > static_cast<std::uint8_t>(StoreStatus::refused))
    return std::nullopt;
  return out;
}

}  // namespace tritorch::distributed
