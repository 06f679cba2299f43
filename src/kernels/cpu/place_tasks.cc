#include "kernels/cpu/place_tasks.h"

#include <algorithm>

#include "kernels/cpu/loops/amx_products.h"
#include "kernels/device/kernel.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {

PlaceTasks::PlaceTasks(Arithmetic arithmetic, int64_t places, int64_t width, int64_t shares, int64_t sums)
    : places_(places),
      unit_(arithmetic == Arithmetic::kAmx ? kAmxPlaces : kLeastRows),
      units_(std::max<int64_t>(places / unit_, 1)) {
  // What a task has at a time should stay in the core's own cache, as often as its weights pass by; but the fewer
  // places, the more often these and the sums of their gradients pass by, and the less there is to do for what
  // beginning costs. AMX takes numbers of half the size, and less time for each place; where sums are made, too,
  // more is kept of each and tasks are smaller, unless the sums are so many that to pass by takes them as long as
  // products.
  constexpr int64_t kManySums = 128 << 10;
  const bool by_amx = arithmetic == Arithmetic::kAmx, few_sums = sums > 0 && sums <= kManySums;
  const int64_t numbers = (by_amx ? 48 : 24) << 10, least = by_amx ? (few_sums ? 192 : 384) : 96,
                most = by_amx ? 512 : 384, of_a_task = std::clamp(numbers / width, least, most) / unit_;
  count_ = std::min(units_, device::blocks_for(units_ / of_a_task + 1, shares) * shares);
}

int64_t PlaceTasks::most() const { return (units_ + count_ - 1) / count_ * unit_ + places_ % unit_; }

std::pair<int64_t, int64_t> PlaceTasks::places(int64_t task) const {
  const int64_t end = (task + 1) * units_ / count_ * unit_;
  return {task * units_ / count_ * unit_, task + 1 == count_ ? places_ : end};  // the last has what is left over
}

void PlaceTasks::for_each(c10::function_ref<void(int64_t task, int64_t begin, int64_t end)> work) const {
  parallel_for(count_, [&](int64_t task) {
    const auto [begin, end] = places(task);
    work(task, begin, end);
  });
}

}  // namespace osprey::kernels::cpu
