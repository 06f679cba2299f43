#pragma once
#include <cstdint>
#include <optional>

#include "osprey/core/batch.h"

namespace osprey::data {

/// Where a run gets its batches from. Batch i of a source is a pure function of (config, data, seed, i), whatever the
/// number of threads, so a position is one number and resuming is `seek`.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// The next batch; waits for it. Nothing once a finite source is used up.
  /// throws DataError with file and record when the data cannot be used
  virtual std::optional<Batch> next() = 0;

  /// Makes batch `index` the next one; the first batch of the run has index 0.
  virtual void seek(int64_t index) = 0;

  /// Index of the batch that `next` will give.
  virtual int64_t position() const = 0;

  /// Number of different examples behind the source (one epoch).
  virtual int64_t num_examples() const = 0;

  /// Records left out so far because they could not be used.
  virtual int64_t num_skipped() const { return 0; }
};

}  // namespace osprey::data
