#pragma once
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <optional>

#include "osprey/data/batch_source.h"

namespace osprey::train {

/// Batches of another source on the device that trains. On a GPU they are copied from pinned memory and on a stream of
/// its own, the next one while the step before it runs, if `fetch_ahead` is called when that has been started; the host
/// waits before it is more than three steps ahead, so that no more batches lie there.
class DeviceFeed final : public data::BatchSource {
 public:
  DeviceFeed(data::BatchSource& source, const at::Device& device);

  std::optional<Batch> next() override;
  void seek(int64_t index) override;
  int64_t position() const override;
  int64_t num_examples() const override { return source_.num_examples(); }
  int64_t num_skipped() const override { return source_.num_skipped(); }
  /// Takes the next batch from the source and starts it on its way to a GPU. On a CPU nothing is gained by that.
  void fetch_ahead();
  /// Seconds that have been waited for the source since the last call of `next` began; waiting for the device is not
  /// among them.
  double source_seconds() const { return source_seconds_; }

 private:
  void fetch();

  data::BatchSource& source_;
  at::Device device_;
  std::optional<c10::Stream> stream_;  ///< of the copies; none on a CPU
  std::optional<c10::Event> copied_;
  std::array<std::optional<c10::Event>, 2> used_;  ///< the device has done what it was told before the last calls
  size_t calls_ = 0;
  double source_seconds_ = 0;
  std::optional<Batch> ahead_;
  bool fetched_ = false;  ///< `ahead_` is what comes next, or nothing does
};

}  // namespace osprey::train
