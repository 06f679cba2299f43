#pragma once
#include <cstdint>

namespace osprey::nn {

/// Counts the multiplications, each with an addition, of the convolutions that this thread runs from now on.
class MultiplyAddCounter {
 public:
  MultiplyAddCounter();
  int64_t count() const;

 private:
  int64_t before_;
};

/// Told by every convolution what it takes.
void count_multiply_adds(int64_t number);

}  // namespace osprey::nn
