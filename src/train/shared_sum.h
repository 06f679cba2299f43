#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "osprey/train/replicas.h"

namespace osprey::train {

/// Sums of small tensors over replicas of one machine through memory that they share: some microseconds, where a sum
/// through sockets takes a millisecond. Summands are added in the order of ranks, so all replicas have the same bits.
class SharedSum {
 public:
  static constexpr int64_t kMostBytes = 64 << 10;  ///< of a tensor

  /// The memory is known by `name` until `forget`; `create` makes it anew.
  /// seconds  without a sign of another replica after which it counts as lost
  /// returns  null where this machine does not give such memory
  static std::unique_ptr<SharedSum> open(const std::string& name, bool create, const ReplicaPlace& place,
                                         double seconds);
  ~SharedSum();
  SharedSum(const SharedSum&) = delete;
  SharedSum& operator=(const SharedSum&) = delete;

  /// What tells this process's numbering of processes from others, in the words of the system.
  static std::string process_space();

  /// Frees the name; the memory lives as long as somebody has it open.
  static void forget(const std::string& name);

  /// tensor  contiguous, on the CPU, of at most kMostBytes
  /// throws  ReplicaError where another replica has gone or is silent
  void sum(const at::Tensor& tensor);

 private:
  struct Slot;
  SharedSum(void* memory, size_t bytes, const ReplicaPlace& place, double seconds);
  Slot& slot(int64_t rank) const;
  at::Tensor values(int64_t rank, const at::Tensor& like) const;
  void await(int64_t rank) const;

  void* memory_;
  size_t bytes_;
  int64_t rank_, size_;
  double seconds_;
  uint32_t round_ = 0;
};

}  // namespace osprey::train
