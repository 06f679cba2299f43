#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "osprey/train/replicas.h"

namespace osprey::train {

/// Sums the gradients of one model over its replicas while the backward pass is still running: gradients are gathered
/// in buckets, from the last layer to the first, and a full bucket is on its way while the layers before it are
/// computed.
///
///     gradients.begin();  backward();  gradients.finish();   // on every replica
///
/// A parameter without gradient on one replica counts as zero there. All replicas end with the same bits.
class GradientSum {
 public:
  struct Options {
    int64_t bucket_bytes = 8 << 20;      ///< of gradients in one sum: small ones start early, large ones cost less each
    at::ScalarType format = at::kFloat;  ///< of numbers on the wire and of their sums: kFloat or kBFloat16
  };
  /// parameters  leaves that want a gradient, float32, the same on every replica; in the order of the forward pass
  GradientSum(Replicas& replicas, std::vector<at::Tensor> parameters, const Options& options);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// From now on gradients that are complete are sent. Call it before the last backward pass of a step.
  void begin();
  /// Waits; grad() of every parameter is then the sum.
  ///
  /// throws  ReplicaError
  void finish();

  Replicas& replicas() const { return replicas_; }

 private:
  struct Bucket;
  struct Hook;
  void arrived(size_t parameter);
  void send_complete();
  void send(Bucket& bucket);

  Replicas& replicas_;
  std::vector<at::Tensor> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;  ///< by parameter
  size_t next_ = 0;                ///< bucket that is sent next
  bool running_ = false;
};

}  // namespace osprey::train
