#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Processes that train one model together, each on its share of every batch ("replicas", in older words clones).
namespace osprey::train {

/// Where a process stands among them.
struct ReplicaPlace {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< among those of this machine
  std::string master_address = "127.0.0.1";
  int64_t master_port = 29500;
  std::string starter = "train_detector";  ///< who said all this, for messages
  bool meeting_point_is_there = false;     ///< the starter listens on the port itself; otherwise rank 0 does
  std::string attempt = "0";               ///< what earlier starts have left at the meeting point is not looked at
};

/// What torchrun, `train_detector --num_clones`, Open MPI (mpirun) or Slurm (srun) say in the environment; nothing
/// where none of them started this process.
///   torchrun  RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
///   mpirun    OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE}
///   srun      SLURM_{PROCID,NTASKS,LOCALID,NTASKS_PER_NODE}
/// mpirun and srun leave MASTER_ADDR to the caller where there are several machines; MASTER_PORT is 29500 where unset.
///
/// variable  std::getenv, or a test's own
/// throws    ConfigError naming a variable that is missing or makes no sense
std::optional<ReplicaPlace> place_from_environment(const std::function<const char*(const char*)>& variable);

/// A sum over the replicas that is being made.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  /// Returns when the tensor holds the sum.
  ///
  /// throws  ReplicaError
  virtual void wait() = 0;
};

/// The replicas as one of them sees the others. Every replica makes the same calls in the same order; a sum has the
/// same bits on all of them, and the same from run to run.
///
/// All calls throw ReplicaError where another replica has gone or is silent for longer than the time limit. Not so in a
/// sum of tensors of GPUs: there NCCL's watchdog ends the process, or, where the sum is part of a recorded step,
/// nobody.
class Replicas {
 public:
  virtual ~Replicas() = default;

  virtual const ReplicaPlace& place() const = 0;
  int64_t rank() const { return place().rank; }
  int64_t size() const { return place().size; }
  /// The replica that writes files and logs.
  bool is_chief() const { return rank() == 0; }

  /// The sum over all replicas takes the place of a contiguous tensor, from some moment until `wait`.
  virtual std::unique_ptr<PendingSum> sum_later(at::Tensor tensor) = 0;
  virtual void sum(const at::Tensor& tensor) { sum_later(tensor)->wait(); }
  /// The chief's values take the place of everybody's.
  virtual void copy_from_chief(const std::vector<at::Tensor>& tensors) = 0;
  /// The largest of everybody's numbers.
  int64_t largest(int64_t number);
  /// Everybody's text, by rank; for short ones.
  virtual std::vector<std::string> texts(const std::string& text) = 0;
  /// Everybody's bytes, by rank, at the chief; nothing at the others.
  virtual std::vector<std::string> gather(const std::string& bytes) = 0;
  /// Returns when all replicas have come here, however long that takes.
  virtual void meet() = 0;
};

/// Meets the other replicas.
///
/// seconds  how long to wait for the others to come, and later for any answer of theirs
/// throws   ConfigError where the port is taken; ReplicaError where the meeting point cannot be reached, and with the
///          ranks of those that do not come
std::unique_ptr<Replicas> join_replicas(const ReplicaPlace& place, double seconds);

/// A port of the loopback that nobody listens on right now.
/// throws  ReplicaError where there is none
int64_t free_port();

/// throws ConfigError naming the replicas whose text is not that of rank 0, e.g. "replica 2 has another config"
void require_same(Replicas& replicas, const std::string& what, const std::string& text);

}  // namespace osprey::train
