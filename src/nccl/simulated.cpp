// NCCL on the simulated device, between processes of one host or several.
//
// A call queues two things on its stream: a start, which hands the operation to a group of
// src/distributed (a thread of its own moves the data), and an end, which the queue reaches once
// the data is there.  So collectives of two communicators run beside each other, in whatever order
// the simulator's seed chooses among streams, and end late: up to some milliseconds after their
// data came, by the seed.  Those of one communicator run in the order of the calls, as NCCL's do.
//
// What a GPU would answer by hanging hangs here: members that call different things, or one that
// never comes.  Only an abort ends it; the memory keeps what it had.  A member whose process ends
// is a remote error, which whoever asks is told.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "distributed/board_engine.h"
#include "distributed/group.h"
#include "distributed/meeting.h"
#include "distributed/mesh_engine.h"
#include "distributed/store_server.h"
#include "distributed/stores.h"
#include "driver/blocking.h"
#include "driver/fork.h"
#include "nccl/table.h"
#include "simulator/state.h"

namespace tritorch::nccl {

using namespace distributed;
using namespace std::chrono_literals;
using cu::simulator::Action;
using cu::simulator::Point;

namespace {
constexpr auto kForever = std::chrono::milliseconds(24h);
constexpr std::size_t kSecret = 32;

struct Job {
  std::string host, secret;
  int port = 0;
};

Job job_of(const UniqueId& id) {
  Job job;
  std::uint32_t port;
  std::memcpy(&port, id.internal, sizeof(port));
  job.port = static_cast<int>(port);
  job.secret.assign(id.internal + sizeof(port), kSecret);
  job.host = id.internal + sizeof(port) + kSecret;
  return job;
}
}  // namespace

// One member's communicator.
struct Communicator {
  int rank = 0, size = 1, device = 0;
  std::shared_ptr<Group> group;
  Descriptor board;  // the file that this member has made; its locks last as long as it is open
  std::atomic<int> state{kInProgress};
  std::atomic<bool> aborted{false};
  Point last;  // the end of its last operation
  std::uint64_t sequence = 0, splits = 0;
  std::vector<std::uint64_t> sent, received;
  Job job;
  std::string name;

  ~Communicator() {
    if (group) group->leave();
  }
};

namespace {

std::shared_ptr<Communicator> shared(Comm comm);

ForkMutex comms_mutex;
std::map<Comm, std::shared_ptr<Communicator>>& comms() {
  static auto* all = new std::map<Comm, std::shared_ptr<Communicator>>;
  return *all;
}
std::shared_ptr<Communicator> shared(Comm comm) {
  const std::lock_guard<std::mutex> lock(comms_mutex);
  const auto found = comms().find(comm);
  return found == comms().end() ? nullptr : found->second;
}

// Meeting: rank 0's store is the unique id.

std::string ask(StoreEngine& store, StoreOp op, const std::string& key, const std::string& value,
                const Communicator& comm) {
  for (;;) {
    StoreRequest request{op, 0, 200, {key}, {}};
    if (op == StoreOp::set) request.values = {value};
    const StoreReply reply = store.call(request);
    if (reply.status == StoreStatus::done) return reply.values.empty() ? "" : reply.values[0];
    if (comm.aborted) throw Error(Trouble::lost, "aborted");
  }
}

void meet_others(Communicator& comm) {
  if (comm.size == 1) {
    comm.group = std::make_shared<Group>(0, 1, nullptr, nullptr);
    return;
  }
  ClientEngine store(comm.job.host, comm.job.port, comm.job.secret, Deadline::in(60s));
  const auto key = [&](const char* what, int rank) {
    return comm.name + "/" + what + std::to_string(rank);
  };
  const Descriptor listener = listen_on(comm.job.host, 0);
  const Address here = bound_address(listener.get());
  if (comm.rank == 0) {
    comm.board = Board::create(comm.size, comm.job.secret);
    ask(store, StoreOp::set, key("board", 0),
        std::to_string(getpid()) + " " + std::to_string(comm.board.get()), comm);
  }
  ask(store, StoreOp::set, key("place", comm.rank), here.host + " " + std::to_string(here.port),
      comm);
  std::vector<Address> places;
  for (int rank = 0; rank < comm.size; ++rank) {
    const std::string said = ask(store, StoreOp::get, key("place", rank), "", comm);
    const auto space = said.find(' ');
    places.push_back({said.substr(0, space), std::stoi(said.substr(space + 1))});
  }
  const std::string said = ask(store, StoreOp::get, key("board", 0), "", comm);
  const auto space = said.find(' ');
  const int owner = std::stoi(said.substr(0, space)), file = std::stoi(said.substr(space + 1));
  auto engine = std::make_unique<BoardEngine>(owner, file, comm.rank, comm.size, comm.job.secret);
  Sockets sockets =
      meet(listener.get(), places, comm.rank, comm.job.secret, false, Deadline::in(60s));
  comm.group = std::make_shared<Group>(comm.rank, comm.size, std::move(engine),
                                       std::make_shared<Messages>(std::move(sockets.messages)));
}

Comm begin(std::shared_ptr<Communicator> comm, bool blocking) {
  comm->sent.assign(static_cast<std::size_t>(comm->size), 0);
  comm->received = comm->sent;
  const auto run = [comm] {
    try {
      meet_others(*comm);
      comm->state = kSuccess;
    } catch (const std::exception&) {
      comm->state = kSystemError;
    }
  };
  {
    const std::lock_guard<std::mutex> lock(comms_mutex);
    comms()[comm.get()] = comm;
  }
  if (blocking)
    run();
  else
    std::thread(run).detach();
  return comm.get();
}

// Operations.

struct Transfer {  // of a send or a receive
  bool sends;
  int peer;
  std::uint64_t tag;
  Piece piece;
};

struct Call {
  std::shared_ptr<Communicator> comm;
  cu::CUstream stream = nullptr;
  Operation operation;
  std::vector<Transfer> transfers;  // instead of the operation, if there are any
  std::uint64_t sequence = 0;
  // Once it has started:
  std::vector<std::shared_ptr<Task>> tasks;
  Deadline::Clock::time_point ends{};
  bool over = false;

  void start(std::chrono::milliseconds delay) {
    ends = Deadline::Clock::now() + delay;
    if (comm->aborted || !comm->group) return;
    if (transfers.empty()) {
      tasks.push_back(comm->group->submit(operation, sequence, false));
      return;
    }
    std::map<std::uint64_t, Piece> own;
    for (const Transfer& each : transfers)
      if (each.peer == comm->rank && each.sends) own[each.tag] = each.piece;
    for (const Transfer& each : transfers) {
      if (each.peer != comm->rank) {
        Messages& messages = comm->group->messages();
        tasks.push_back(each.sends ? messages.send(each.peer, each.tag, each.piece, kForever)
                                   : messages.receive(each.peer, each.tag, each.piece, kForever));
      } else if (!each.sends && own.count(each.tag)) {
        std::memmove(each.piece.data, own[each.tag].data, each.piece.size);
      }
    }
  }
  // A failure is no end: what it is to the program, an abort says.
  bool ended() {
    if (over || comm->aborted) return true;
    for (const auto& task : tasks) {
      if (!task->done()) return false;
      if (const auto& failure = task->failure()) {
        if (failure->kind == Trouble::lost) {
          int fine = kSuccess;
          comm->state.compare_exchange_strong(fine, kRemoteError);
        }
        return false;
      }
    }
    return over = Deadline::Clock::now() >= ends;
  }
};

bool allowed(const Call& call) {
  const auto fine = [](const Piece& piece) {
    return piece.size == 0 ||
           cu::simulator::accessible(reinterpret_cast<cu::CUdeviceptr>(piece.data), piece.size);
  };
  for (const auto* list : {&call.operation.in, &call.operation.out})
    for (const Piece& piece : *list)
      if (!fine(piece)) return false;
  for (const Transfer& each : call.transfers)
    if (!fine(each.piece)) return false;
  return true;
}

Result queue(std::shared_ptr<Call> call) {
  if (!allowed(*call)) return kInvalidArgument;
  using namespace cu::simulator;
  try {
    Lock lock(state().mutex);
    const auto stream = find_stream(call->stream);
    call->sequence = ++call->comm->sequence;
    const std::chrono::milliseconds delay(draw(4) == 0 ? draw(4) : 0);
    if (stream->capture) {  // a node is one thing: it waits
      enqueue(lock, stream,
              {"collective",
               [call, delay](std::string&) {
                 Call now = *call;
                 now.sequence = ++call->comm->sequence;
                 now.start(delay);
                 while (!now.ended()) std::this_thread::sleep_for(200us);
                 return cu::CUDA_SUCCESS;
               },
               true, nullptr});
      return kSuccess;
    }
    Action start{"collective",
                 [call, delay](std::string&) {
                   call->start(delay);
                   return cu::CUDA_SUCCESS;
                 },
                 true, nullptr};
    std::vector<Point> needs;
    if (call->comm->last.stream) needs.push_back(call->comm->last);
    enqueue(lock, stream, std::move(start), nullptr, std::move(needs));
    Action end{"end of a collective", {}, false, nullptr};
    end.ready = [call] { return call->ended(); };
    call->comm->last = enqueue(lock, stream, std::move(end));
    return kSuccess;
  } catch (const Fail&) {
    return kUnhandledCudaError;
  }
}

thread_local int depth = 0;
thread_local std::vector<std::shared_ptr<Call>> grouped;

Result add(std::shared_ptr<Call> call) {
  if (!call->comm) return kInvalidArgument;
  if (call->comm->state == kInProgress) return kInvalidUsage;
  if (!depth) return queue(std::move(call));
  // The messages of a group of calls are one operation of their stream.
  if (!call->transfers.empty())
    for (const auto& other : grouped)
      if (other->comm == call->comm && other->stream == call->stream && !other->transfers.empty()) {
        other->transfers.push_back(call->transfers[0]);
        return kSuccess;
      }
  grouped.push_back(std::move(call));
  return kSuccess;
}

struct Type {
  DType ours;
  std::size_t bytes;
};
Type type_of(DataType type) {
  static constexpr std::array<DType, 10> types = {
      DType::int8,   DType::uint8,   DType::int32,   DType::uint32,  DType::int64,
      DType::uint64, DType::float16, DType::float32, DType::float64, DType::bfloat16};
  const DType found = types.at(static_cast<std::size_t>(type));
  return {found, item_size(found)};
}
distributed::ReduceOp op_of(ReduceOp op) {
  static constexpr std::array<distributed::ReduceOp, 5> ops = {
      distributed::ReduceOp::sum, distributed::ReduceOp::product, distributed::ReduceOp::max,
      distributed::ReduceOp::min, distributed::ReduceOp::avg};
  return ops.at(static_cast<std::size_t>(op));
}
Piece piece(const void* data, std::size_t size) {
  return {static_cast<char*>(const_cast<void*>(data)), size};
}
// A buffer as one piece for each member.
std::vector<Piece> pieces(const void* data, std::size_t size, int count) {
  std::vector<Piece> found;
  for (int i = 0; i < count; ++i)
    found.push_back(
        piece(static_cast<const char*>(data) + size * static_cast<std::size_t>(i), size));
  return found;
}

Result collective(Comm handle, cu::CUstream stream, Kind kind, DataType type, ReduceOp op, int root,
                  std::vector<Piece> in, std::vector<Piece> out) {
  auto call = std::make_shared<Call>();
  call->comm = shared(handle);
  call->stream = stream;
  call->operation = {
      kind, op_of(op), type_of(type).ours, root, std::move(in), std::move(out), kForever, 0, {}};
  return add(std::move(call));
}

Result transfer(Comm handle, cu::CUstream stream, bool sends, const void* data, std::size_t size,
                DataType type, int peer) {
  auto call = std::make_shared<Call>();
  call->comm = shared(handle);
  if (!call->comm || peer < 0 || peer >= call->comm->size) return kInvalidArgument;
  call->stream = stream;
  auto& counts = sends ? call->comm->sent : call->comm->received;
  // Messages of different types do not meet.
  const std::uint64_t tag = counts[static_cast<std::size_t>(peer)]++ << 4 | type;
  call->transfers.push_back({sends, peer, tag, piece(data, size)});
  return add(std::move(call));
}

namespace entry {

Result ncclGetVersion(int* version) {
  *version = 21800;
  return kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  // Served as long as the process lives: members may come late.
  static auto* servers = new std::vector<std::unique_ptr<StoreServer>>;
  *id = {};
  char secret[kSecret];
  const int random = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  const bool read = random >= 0 && ::read(random, secret, kSecret) == kSecret;
  if (random >= 0) ::close(random);
  if (!read) return kSystemError;
  try {
    auto server = std::make_unique<StoreServer>("127.0.0.1", 0, std::string(secret, kSecret));
    const auto port = static_cast<std::uint32_t>(server->address().port);
    std::memcpy(id->internal, &port, sizeof(port));
    std::memcpy(id->internal + sizeof(port), secret, kSecret);
    std::strcpy(id->internal + sizeof(port) + kSecret, "127.0.0.1");
    const std::lock_guard<std::mutex> lock(comms_mutex);
    servers->push_back(std::move(server));
    return kSuccess;
  } catch (const std::exception&) {
    return kSystemError;
  }
}

Result ncclCommInitRankConfig(Comm* out, int size, UniqueId id, int rank, Config* config) {
  if (rank < 0 || rank >= size) return kInvalidArgument;
  auto comm = std::make_shared<Communicator>();
  comm->rank = rank;
  comm->size = size;
  comm->job = job_of(id);
  comm->name = "world";
  const bool blocking = !config || config->blocking != 0;
  *out = begin(comm, blocking);
  if (!blocking) return kInProgress;
  return static_cast<Result>(comm->state.load());
}
Result ncclCommInitRank(Comm* out, int size, UniqueId id, int rank) {
  return ncclCommInitRankConfig(out, size, id, rank, nullptr);
}

Result ncclCommSplit(Comm handle, int color, int key, Comm* out, Config* config) {
  const auto parent = shared(handle);
  if (!parent || parent->state != kSuccess) return kInvalidArgument;
  auto comm = std::make_shared<Communicator>();
  comm->job = parent->job;
  comm->device = parent->device;
  const std::string base = parent->name + "/split" + std::to_string(parent->splits++);
  try {
    std::vector<std::array<int, 3>> all{{color, key, parent->rank}};
    if (parent->size > 1) {
      ClientEngine store(parent->job.host, parent->job.port, parent->job.secret, Deadline::in(60s));
      ask(store, StoreOp::set, base + "/of" + std::to_string(parent->rank),
          std::to_string(color) + " " + std::to_string(key), *parent);
      all.clear();
      for (int rank = 0; rank < parent->size; ++rank) {
        const std::string said =
            ask(store, StoreOp::get, base + "/of" + std::to_string(rank), "", *parent);
        const auto space = said.find(' ');
        all.push_back({std::stoi(said.substr(0, space)), std::stoi(said.substr(space + 1)), rank});
      }
    }
    *out = nullptr;
    if (color == kNoColor) return kSuccess;
    std::erase_if(all, [&](const auto& each) { return each[0] != color; });
    std::sort(all.begin(), all.end());
    comm->size = static_cast<int>(all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i][2] == parent->rank) comm->rank = static_cast<int>(i);
    comm->name = base + "/" + std::to_string(color);
  } catch (const std::exception&) {
    return kSystemError;
  }
  const bool blocking = !config || config->blocking != 0;
  *out = begin(comm, blocking);
  return blocking ? static_cast<Result>(comm->state.load()) : kInProgress;
}

Result end(Comm handle, bool abort) {
  std::shared_ptr<Communicator> comm;
  {
    const std::lock_guard<std::mutex> lock(comms_mutex);
    const auto found = comms().find(handle);
    if (found == comms().end()) return kInvalidArgument;
    comm = found->second;
    comms().erase(found);
  }
  if (!abort) {
    try {
      using namespace cu::simulator;
      Lock lock(state().mutex);
      drain(lock, {&comm->last, 1});
    } catch (const cu::simulator::Fail&) {
    }
  }
  comm->aborted = true;
  if (comm->group && comm->state != kInProgress) {
    if (abort) comm->group->give_up("the communicator was aborted");
    comm->group->stop();
  }
  return kSuccess;
}
Result ncclCommFinalize(Comm comm) { return shared(comm) ? kSuccess : kInvalidArgument; }
Result ncclCommDestroy(Comm comm) { return end(comm, false); }
Result ncclCommAbort(Comm comm) { return end(comm, true); }

Result ncclCommGetAsyncError(Comm handle, Result* error) {
  const auto comm = shared(handle);
  if (!comm) return kInvalidArgument;
  *error = static_cast<Result>(comm->state.load());
  return kSuccess;
}
Result ncclCommCount(Comm handle, int* count) {
  const auto comm = shared(handle);
  if (!comm) return kInvalidArgument;
  *count = comm->size;
  return kSuccess;
}
Result ncclCommCuDevice(Comm handle, int* device) {
  const auto comm = shared(handle);
  if (!comm) return kInvalidArgument;
  *device = comm->device;
  return kSuccess;
}
Result ncclCommUserRank(Comm handle, int* rank) {
  const auto comm = shared(handle);
  if (!comm) return kInvalidArgument;
  *rank = comm->rank;
  return kSuccess;
}

Result ncclAllReduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                     Comm comm, cu::CUstream stream) {
  const std::size_t size = count * type_of(type).bytes;
  return collective(comm, stream, Kind::all_reduce, type, op, 0, {piece(in, size)},
                    {piece(out, size)});
}
Result ncclReduce(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                  int root, Comm comm, cu::CUstream stream) {
  const std::size_t size = count * type_of(type).bytes;
  return collective(comm, stream, Kind::reduce, type, op, root, {piece(in, size)},
                    {piece(out, size)});
}
Result ncclBroadcast(const void* in, void* out, std::size_t count, DataType type, int root,
                     Comm handle, cu::CUstream stream) {
  const auto comm = shared(handle);
  if (!comm) return kInvalidArgument;
  const std::size_t size = count * type_of(type).bytes;
  if (comm->rank == root && in != out) return kInvalidUsage;  // tritorch broadcasts in place
  return collective(handle, stream, Kind::broadcast, type, kSum, root, {}, {piece(out, size)});
}
Result ncclAllGather(const void* in, void* out, std::size_t count, DataType type, Comm handle,
                     cu::CUstream stream) {
  const auto comm = shared(handle);
  if (!comm) return kInvalidArgument;
  const std::size_t size = count * type_of(type).bytes;
  return collective(handle, stream, Kind::all_gather, type, kSum, 0, {piece(in, size)},
                    pieces(out, size, comm->size));
}
Result ncclReduceScatter(const void* in, void* out, std::size_t count, DataType type, ReduceOp op,
                         Comm handle, cu::CUstream stream) {
  const auto comm = shared(handle);
  if (!comm) return kInvalidArgument;
  const std::size_t size = count * type_of(type).bytes;
  return collective(handle, stream, Kind::reduce_scatter, type, op, 0, pieces(in, size, comm->size),
                    {piece(out, size)});
}
Result ncclSend(const void* data, std::size_t count, DataType type, int peer, Comm comm,
                cu::CUstream stream) {
  return transfer(comm, stream, true, data, count * type_of(type).bytes, type, peer);
}
Result ncclRecv(void* data, std::size_t count, DataType type, int peer, Comm comm,
                cu::CUstream stream) {
  return transfer(comm, stream, false, data, count * type_of(type).bytes, type, peer);
}

Result ncclGroupStart() {
  ++depth;
  return kSuccess;
}
Result ncclGroupEnd() {
  if (depth == 0) return kInvalidUsage;
  if (--depth) return kSuccess;
  Result result = kSuccess;
  for (auto& call : std::exchange(grouped, {})) {
    const Result found = queue(std::move(call));
    if (result == kSuccess) result = found;
  }
  return result;
}

const char* ncclGetErrorString(Result result) {
  static constexpr std::array names = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return names.at(static_cast<std::size_t>(result));
}
const char* ncclGetLastError(Comm) { return ""; }

}  // namespace entry
}  // namespace

const Library& simulated_library() {
  static const Library table = [] {
    Library made;
#define TRITORCH_FILL(name, parameters) made.name = entry::name;
    TRITORCH_NCCL_FUNCTIONS(TRITORCH_FILL, TRITORCH_FILL)
    TRITORCH_FILL(ncclGetErrorString, )
    TRITORCH_FILL(ncclGetLastError, )
#undef TRITORCH_FILL
    return made;
  }();
  return table;
}

}  // namespace tritorch::nccl
