#include "train/shared_sum.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <thread>

#include "osprey/base/clock.h"
#include "osprey/base/error.h"

namespace osprey::train {

/// What one replica tells the others. Summands of two rounds have places of their own: who is in round k + 1 has read
/// those of round k, and nobody writes those of round k + 2 before all are in round k + 1.
struct alignas(64) SharedSum::Slot {
  std::atomic<uint32_t> round;  ///< whose summands are there
  std::atomic<uint32_t> gone;   ///< 1: it takes no further part
  std::atomic<int32_t> process;
  alignas(64) unsigned char values[2][kMostBytes];
};

std::unique_ptr<SharedSum> SharedSum::open(const std::string& name, bool create, const ReplicaPlace& place,
                                           double seconds) {
  const size_t bytes = sizeof(Slot) * static_cast<size_t>(place.size);
  const int file = ::shm_open(name.c_str(), create ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, S_IRUSR | S_IWUSR);
  if (file < 0) return nullptr;
  struct stat status {};
  const bool whole = create ? ::posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0
                            : ::fstat(file, &status) == 0 && status.st_size == static_cast<off_t>(bytes);
  void* const memory = whole ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedSum>(new SharedSum(memory, bytes, place, seconds));
}

std::string SharedSum::process_space() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

void SharedSum::forget(const std::string& name) { ::shm_unlink(name.c_str()); }

SharedSum::SharedSum(void* memory, size_t bytes, const ReplicaPlace& place, double seconds)
    : memory_(memory), bytes_(bytes), rank_(place.rank), size_(place.size), seconds_(seconds) {
  slot(rank_).process = ::getpid();  // new memory is zero, which is round 0 of a replica that is there
}

SharedSum::~SharedSum() {
  slot(rank_).gone = 1;
  ::munmap(memory_, bytes_);
}

SharedSum::Slot& SharedSum::slot(int64_t rank) const { return static_cast<Slot*>(memory_)[rank]; }

at::Tensor SharedSum::values(int64_t rank, const at::Tensor& like) const {
  return at::from_blob(slot(rank).values[round_ % 2], like.sizes(), like.options().requires_grad(false));
}

void SharedSum::sum(const at::Tensor& tensor) {
  const at::NoGradGuard no_gradients;
  TORCH_CHECK(tensor.is_contiguous() && tensor.is_cpu() && static_cast<int64_t>(tensor.nbytes()) <= kMostBytes,
              "a sum through shared memory takes a small contiguous tensor of the CPU");
  ++round_;
  values(rank_, tensor).copy_(tensor);
  slot(rank_).round.store(round_, std::memory_order_release);
  ::syscall(SYS_futex, &slot(rank_).round, FUTEX_WAKE, size_, nullptr, nullptr, 0);
  for (int64_t rank = 0; rank < size_; ++rank) await(rank);
  tensor.copy_(values(0, tensor));
  for (int64_t rank = 1; rank < size_; ++rank) tensor.add_(values(rank, tensor));
}

/// Returns when the summands of a replica are there: replicas that keep pace with each other are a few microseconds
/// apart, for others this one sleeps.
void SharedSum::await(int64_t rank) const {
  constexpr double kSpinSeconds = 50e-6;
  constexpr timespec kNap{0, 50'000'000};
  const Slot& other = slot(rank);
  const auto has_come = [&] { return static_cast<int32_t>(other.round.load(std::memory_order_acquire) - round_) >= 0; };
  const double start = now();
  while (!has_come()) {
    if (now() - start < kSpinSeconds) {
      std::this_thread::yield();
      continue;
    }
    const uint32_t seen = other.round.load(std::memory_order_acquire);
    if (static_cast<int32_t>(seen - round_) >= 0) return;
    ::syscall(SYS_futex, &other.round, FUTEX_WAIT, seen, &kNap, nullptr, 0);
    if (has_come()) return;
    const bool lives = ::kill(other.process, 0) == 0 || errno != ESRCH;
    if (other.gone != 0 || !lives)
      throw ReplicaError(fmt::format("replica {} has lost another replica: number {} has ended", rank_, rank));
    if (now() - start > seconds_)
      throw ReplicaError(fmt::format("replica {} had no answer from another replica for {:.0f} s", rank_, seconds_));
  }
}

}  // namespace osprey::train
