#pragma once
#include <cstdint>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "osprey/core/example.h"

namespace osprey::data {

/// Decoded examples in memory, as many as fit, so that later epochs need not decode them. What was kept stays; nothing
/// makes room. For any number of threads.
class ExampleCache {
 public:
  /// max_bytes  of pictures and other tensors; 0: nothing is kept
  explicit ExampleCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  /// The example of a record, with tensors of its own; nothing: it was not kept.
  std::optional<Example> find(int64_t record) const;

  /// Keeps a copy where there is room for it.
  void keep(int64_t record, const Example& example);

 private:
  int64_t max_bytes_, bytes_ = 0;
  mutable std::shared_mutex mutex_;
  std::unordered_map<int64_t, Example> examples_;
};

}  // namespace osprey::data
