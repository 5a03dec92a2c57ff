// The whole test framework of the C++ tests.  A test file includes this once and says
//
//   TEST(adds) { CHECK_EQ(1 + 1, 2); }
//
// A failed check ends its test, prints where and what, and the program goes on with the next test;
// it exits with 1 if any failed.  `program part` runs the tests whose names contain `part`.
// A check throws, so call it on the test's own thread.  Of several files linked into one program,
// all but one define CHECK_NO_MAIN first.
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tritorch::testing {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Test {
  const char* name;
  void (*run)();
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Register {
  Register(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw Failure(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

template <class T>
std::string show(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<long long>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    out << (value ? "true" : "false");
  } else if constexpr (requires { out << value; }) {
    out << value;
  } else {
    out << "(a value of " << sizeof(T) << " bytes)";
  }
  return out.str();
}

template <class A, class B>
bool equal(const A& a, const B& b) {
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, bool> &&
                !std::is_same_v<B, bool>) {
    return std::cmp_equal(a, b);  // CHECK_EQ(v.size(), 3) without a sign warning
  } else {
    return a == b;
  }
}

template <class A, class B>
void check_equal(const char* file, int line, const char* actual_text, const char* expected_text,
                 const A& actual, const B& expected) {
  if (equal(actual, expected)) return;
  fail(file, line,
       std::string(actual_text) + " is " + show(actual) + ", not " + show(expected) + " (" +
           expected_text + ")");
}

inline int run_all(int argc, char** argv) {
  int passed = 0, failed = 0;
  for (const Test& test : tests()) {
    if (argc > 1 && !std::strstr(test.name, argv[1])) continue;
    try {
      test.run();
      ++passed;
      continue;
    } catch (const Failure& failure) {
      std::fprintf(stderr, "FAILED %s\n  %s\n", test.name, failure.what());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "FAILED %s\n  threw: %s\n", test.name, error.what());
    } catch (...) {
      std::fprintf(stderr, "FAILED %s\n  threw something\n", test.name);
    }
    ++failed;
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}

}  // namespace tritorch::testing

#define TEST(name)                                                                \
  static void test_##name();                                                      \
  static const ::tritorch::testing::Register register_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition)                                                         \
  do {                                                                           \
    if (!(condition)) ::tritorch::testing::fail(__FILE__, __LINE__, #condition); \
  } while (0)

#define CHECK_EQ(actual, expected) \
  ::tritorch::testing::check_equal(__FILE__, __LINE__, #actual, #expected, (actual), (expected))

// The expression throws `Type` and its text contains `part` ("" accepts any).
#define CHECK_THROWS_WITH(expression, Type, part)                                             \
  do {                                                                                        \
    bool check_threw = false;                                                                 \
    try {                                                                                     \
      (void)(expression);                                                                     \
    } catch (const Type& check_error) {                                                       \
      check_threw = true;                                                                     \
      if (std::string(check_error.what()).find(part) == std::string::npos)                    \
        ::tritorch::testing::fail(__FILE__, __LINE__,                                         \
                                  std::string(#expression " threw \"") + check_error.what() + \
                                      "\", without \"" + std::string(part) + "\"");           \
    }                                                                                         \
    if (!check_threw)                                                                         \
      ::tritorch::testing::fail(__FILE__, __LINE__, #expression " did not throw " #Type);     \
  } while (0)

#define CHECK_THROWS(expression, Type) CHECK_THROWS_WITH(expression, Type, "")

#ifndef CHECK_NO_MAIN
int main(int argc, char** argv) { return ::tritorch::testing::run_all(argc, argv); }
#endif
