#include "distributed/store_table.h"

#include <charconv>

namespace tritorch::distributed {
namespace {

struct Arity {
  int keys, values;  // -1: any number
};

Arity arity(StoreOp op) {
  switch (op) {
    case StoreOp::set:
    case StoreOp::append:
    case StoreOp::queue_push:
      return {1, 1};
    case StoreOp::compare_set:
      return {1, 2};
    case StoreOp::get:
    case StoreOp::add:
    case StoreOp::delete_key:
    case StoreOp::queue_pop:
    case StoreOp::queue_len:
      return {1, 0};
    case StoreOp::multi_set:
      return {-1, -1};
    case StoreOp::wait:
    case StoreOp::check:
    case StoreOp::multi_get:
      return {-1, 0};
    default:
      return {0, 0};
  }
}

bool well_formed(const StoreRequest& request) {
  const auto [keys, values] = arity(request.op);
  if (request.op == StoreOp::multi_set) return request.keys.size() == request.values.size();
  return (keys < 0 || request.keys.size() == static_cast<std::size_t>(keys)) &&
         (values < 0 || request.values.size() == static_cast<std::size_t>(values));
}

StoreReply number(std::int64_t value) { return {StoreStatus::done, value, {}}; }
StoreReply refusal(std::string reason) { return {StoreStatus::refused, 0, {std::move(reason)}}; }

}  // namespace

bool StoreTable::changes(StoreOp op) {
  switch (op) {
    case StoreOp::set:
    case StoreOp::add:
    case StoreOp::compare_set:
    case StoreOp::delete_key:
    case StoreOp::append:
    case StoreOp::multi_set:
    case StoreOp::queue_push:
    case StoreOp::queue_pop:
      return true;
    default:
      return false;
  }
}

const std::string* StoreTable::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

StoreReply StoreTable::compare_set(const StoreRequest& request) {
  const std::string& key = request.keys[0];
  const std::string& expected = request.values[0];
  const std::string* value = find(key);
  if (value ? *value != expected : !expected.empty())
    return {StoreStatus::done, 0, {value ? *value : expected}};
  values_[key] = request.values[1];
  return {StoreStatus::done, 1, {request.values[1]}};
}

std::optional<StoreReply> StoreTable::pop(const StoreRequest& request, std::string& missing) {
  const auto found = queues_.find(request.keys[0]);
  if (found == queues_.end()) {
    missing = request.keys[0];
    if (request.number) return std::nullopt;
    return StoreReply{StoreStatus::empty, 0, {}};
  }
  StoreReply reply{StoreStatus::done, 0, {std::move(found->second.front())}};
  found->second.pop_front();
  if (found->second.empty()) queues_.erase(found);
  return reply;
}

std::optional<StoreReply> StoreTable::apply(const StoreRequest& request, std::string& missing) {
  if (!well_formed(request)) return refusal("the request lacks keys or values");
  switch (request.op) {
    case StoreOp::set:
      values_[request.keys[0]] = request.values[0];
      return number(0);
    case StoreOp::multi_set:
      for (std::size_t i = 0; i < request.keys.size(); ++i)
        values_[request.keys[i]] = request.values[i];
      return number(0);
    case StoreOp::append:
      values_[request.keys[0]] += request.values[0];
      return number(0);
    case StoreOp::add: {
      std::int64_t old = 0;
      if (const std::string* value = find(request.keys[0])) {
        const auto [end, code] = std::from_chars(value->data(), value->data() + value->size(), old);
        if (code != std::errc() || end != value->data() + value->size())
          return refusal("add: the value of " + request.keys[0] + " is no number");
      }
      std::int64_t sum;
      if (__builtin_add_overflow(old, request.number, &sum))
        return refusal("add: the sum at " + request.keys[0] + " does not fit into 64 bits");
      values_[request.keys[0]] = std::to_string(sum);
      return number(sum);
    }
    case StoreOp::compare_set:
      return compare_set(request);
    case StoreOp::delete_key:
      return number(values_.erase(request.keys[0]) != 0);
    case StoreOp::num_keys:
      return number(static_cast<std::int64_t>(values_.size()));
    case StoreOp::check:
      for (const std::string& key : request.keys)
        if (!find(key)) return number(0);
      return number(1);
    case StoreOp::get:
    case StoreOp::multi_get:
    case StoreOp::wait: {
      for (const std::string& key : request.keys)
        if (!find(key)) {
          missing = key;
          return std::nullopt;
        }
      StoreReply reply;
      if (request.op != StoreOp::wait)
        for (const std::string& key : request.keys) reply.values.push_back(*find(key));
      return reply;
    }
    case StoreOp::list_keys: {
      StoreReply reply;
      for (const auto& [key, value] : values_) reply.values.push_back(key);
      return reply;
    }
    case StoreOp::queue_push:
      queues_[request.keys[0]].push_back(request.values[0]);
      return number(0);
    case StoreOp::queue_pop:
      return pop(request, missing);
    case StoreOp::queue_len: {
      const auto found = queues_.find(request.keys[0]);
      return number(found == queues_.end() ? 0 : static_cast<std::int64_t>(found->second.size()));
    }
    default:
      return refusal("no such operation");
  }
}

}  // namespace tritorch::distributed
