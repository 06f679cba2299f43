#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace osprey {

/// A number that stands for a name in counter-based draws (FNV-1a).
uint64_t name_key(const std::string& name);

/// Random numbers on any device that depend on the seed of the run, the name of who draws, and the key of the example
/// alone: an example meets the same ones wherever it stands in a batch and however the batch is cut up.
class ExampleDraws {
 public:
  ExampleDraws() = default;
  ExampleDraws(const std::string& name, uint64_t seed);

  /// keys     [B] int64, of the device that the numbers are wanted on
  /// returns  [B, count] int64, uniform in 0 .. 2^32 - 1
  at::Tensor operator()(const at::Tensor& keys, int64_t count) const;

 private:
  int64_t salt_ = 0;
};

}  // namespace osprey
