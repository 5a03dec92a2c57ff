// SHA-256 and HMAC: a client proves that it knows the job's secret without saying it.
#pragma once

#include <string>
#include <string_view>

namespace tritorch::distributed {

std::string sha256(std::string_view message);
std::string hmac(std::string_view secret, std::string_view message);
// Compares without telling by its time where they differ.
bool same(std::string_view a, std::string_view b);
// That many bytes nobody can guess.
std::string random_bytes(std::size_t count);

}  // namespace tritorch::distributed
