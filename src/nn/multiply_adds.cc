#include "osprey/nn/multiply_adds.h"

namespace osprey::nn {
namespace {

thread_local int64_t total = 0;

}  // namespace

MultiplyAddCounter::MultiplyAddCounter() : before_(total) {}
int64_t MultiplyAddCounter::count() const { return total - before_; }

void count_multiply_adds(int64_t number) { total += number; }

}  // namespace osprey::nn
