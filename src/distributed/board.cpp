#include "distributed/board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

namespace tritorch::distributed {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kToken = 64;

std::size_t size_of(int members) {
  return kPage + static_cast<std::size_t>(members) * (kPage + 2 * Board::kBuffer);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex(std::atomic<std::uint32_t>& word, int what, std::uint32_t value,
           const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), what, value, timeout, nullptr, 0);
}

}  // namespace

struct Board::Head {
  char token[kToken];
  alignas(64) std::atomic<std::uint32_t> arrived;  // by all members, in all rounds
  std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> given_up;
};

struct Board::Page {
  alignas(64) std::atomic<std::uint32_t> round;
  struct Saying {
    alignas(64) Signature signature;
    std::uint64_t number;
  } sayings[2];
};

Descriptor Board::create(int members, const std::string& token) {
  Descriptor file(memfd_create("tritorch group", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(size_of(members))))
    throw Error(Trouble::backend, std::string("no shared memory: ") + std::strerror(errno));
  if (pwrite(file.get(), token.data(), std::min(token.size(), kToken), 0) < 0)
    throw Error(Trouble::backend, "no shared memory");
  return file;
}

Board::Board(pid_t owner, int file, int rank, int members, const std::string& token)
    : bytes_(size_of(members)), rank_(rank), members_(members) {
  const std::string path = "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(file);
  file_ = Descriptor(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file_) throw Error(Trouble::backend, path + ": " + std::strerror(errno));
  if (lseek(file_.get(), 0, SEEK_END) != static_cast<off_t>(bytes_))
    throw Error(Trouble::backend, path + " is not this group's memory");
  void* mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) throw Error(Trouble::backend, "shared memory cannot be mapped");
  memory_ = static_cast<char*>(mapped);
  head_ = reinterpret_cast<Head*>(memory_);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  const bool right = std::memcmp(head_->token, token.data(), std::min(token.size(), kToken)) == 0;
  if (!right || fcntl(file_.get(), F_SETLK, &lock)) {
    munmap(memory_, bytes_);
    throw Error(Trouble::backend, path + " is not this group's memory");
  }
  // Spinning takes the processor from those who are waited for, if there are too few.
  const auto processors = static_cast<int>(std::thread::hardware_concurrency());
  spins_ = members <= processors ? 2000 : 0;
}

Board::~Board() { munmap(memory_, bytes_); }

Board::Page& Board::page(int rank) const {
  return *reinterpret_cast<Page*>(memory_ + kPage * (1 + static_cast<std::size_t>(rank)));
}

char* Board::buffer(int rank, std::uint32_t round) const {
  return memory_ + kPage * (1 + static_cast<std::size_t>(members_)) +
         (2 * static_cast<std::size_t>(rank) + (round & 1)) * kBuffer;
}
char* Board::writable(int rank) const { return buffer(rank, round_ + 1); }
const char* Board::readable(int rank) const { return buffer(rank, round_); }

void Board::say(const Signature& signature, std::uint64_t number) {
  ++operation_;
  page(rank_).sayings[operation_ & 1] = {signature, number};
}
Signature Board::said(int rank) const { return page(rank).sayings[operation_ & 1].signature; }
std::uint64_t Board::said_number(int rank) const {
  return page(rank).sayings[operation_ & 1].number;
}

void Board::arrive() {
  ++round_;
  page(rank_).round.store(round_, std::memory_order_relaxed);
  const std::uint32_t target = round_ * static_cast<std::uint32_t>(members_);
  if (head_->arrived.fetch_add(1) + 1 == target && head_->sleepers.load())
    futex(head_->arrived, FUTEX_WAKE, INT_MAX, nullptr);
}

bool Board::gone(int rank) const {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return rank != rank_ && fcntl(file_.get(), F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

std::vector<int> Board::absent() const {
  std::vector<int> out;
  for (int rank = 0; rank < members_; ++rank)
    if (static_cast<std::int32_t>(page(rank).round.load() - round_) < 0) out.push_back(rank);
  return out;
}

void Board::pause(std::uint32_t seen, std::uint32_t target, const Deadline& deadline) {
  head_->sleepers.fetch_add(1);
  if (static_cast<std::int32_t>(head_->arrived.load() - target) < 0 && !head_->given_up.load()) {
    const timespec slice{0, static_cast<long>(deadline.slice()) * 1000000L - 1000};
    futex(head_->arrived, FUTEX_WAIT, seen, &slice);
  }
  head_->sleepers.fetch_sub(1);
}

void Board::wait(const Deadline& deadline) {
  const std::uint32_t target = round_ * static_cast<std::uint32_t>(members_);
  auto looked = Deadline::Clock::now();
  for (int turn = 0;; ++turn) {
    const std::uint32_t seen = head_->arrived.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - target) >= 0) return;
    if (head_->given_up.load()) throw Error(Trouble::lost, "another rank gave up");
    if (turn < spins_) {
      relax();
      continue;
    }
    if (deadline.over()) throw Error(Trouble::timeout, "not all ranks came");
    pause(seen, target, deadline);
    // Each arrival changes the word, so a sleep may be short: the rest is looked at now and then.
    if (Deadline::Clock::now() - looked < std::chrono::milliseconds(90)) continue;
    looked = Deadline::Clock::now();
    look_for_interrupts();
    for (const int rank : absent())
      if (gone(rank) && static_cast<std::int32_t>(page(rank).round.load() - round_) < 0)
        throw Error(Trouble::lost, "the process of rank " + std::to_string(rank) + " has ended");
  }
}

void Board::give_up() {
  head_->given_up.store(1);
  futex(head_->arrived, FUTEX_WAKE, INT_MAX, nullptr);
}
bool Board::given_up() const { return head_->given_up.load() != 0; }

}  // namespace tritorch::distributed
