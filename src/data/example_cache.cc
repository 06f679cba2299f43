#include "example_cache.h"

#include <ATen/ATen.h>

#include <array>
#include <mutex>
#include <utility>

namespace osprey::data {
namespace {

constexpr std::array kTensors{&Example::image, &Example::multiclass_scores, &Example::masks, &Example::keypoints,
                              &Example::keypoint_visibilities};

int64_t bytes_of(const Example& example) {
  int64_t bytes = 0;
  for (const auto member : kTensors)
    if ((example.*member).defined()) bytes += static_cast<int64_t>((example.*member).nbytes());
  return bytes;
}

/// Shares no memory with the other: a step of another program may write into what it is given.
Example copy_of(Example example) {
  for (const auto member : kTensors)
    if ((example.*member).defined()) example.*member = (example.*member).clone();
  return example;
}

}  // namespace

std::optional<Example> ExampleCache::find(int64_t record) const {
  std::optional<Example> found;
  {
    const std::shared_lock lock(mutex_);
    const auto at = examples_.find(record);
    if (at == examples_.end()) return std::nullopt;
    found = at->second;
  }
  return copy_of(*std::move(found));
}

void ExampleCache::keep(int64_t record, const Example& example) {
  const int64_t bytes = bytes_of(example);
  {
    const std::shared_lock lock(mutex_);
    if (bytes_ + bytes > max_bytes_ || examples_.contains(record)) return;
  }
  Example copy = copy_of(example);
  const std::unique_lock lock(mutex_);
  if (bytes_ + bytes > max_bytes_) return;  // others were faster
  if (examples_.emplace(record, std::move(copy)).second) bytes_ += bytes;
}

}  // namespace osprey::data
