#pragma once
#include <ATen/ATen.h>

#include <limits>
#include <memory>
#include <optional>

#include "support/toy_model.h"

namespace osprey::testing {

/// Another source, one batch of which holds pictures that are not numbers; the toy source with two images a batch.
class PoisonedSource final : public data::BatchSource {
 public:
  explicit PoisonedSource(int64_t bad_batch, std::unique_ptr<data::BatchSource> inner = make_toy_source(2))
      : inner_(std::move(inner)), bad_batch_(bad_batch) {}

  std::optional<Batch> next() override {
    const bool is_bad = inner_->position() == bad_batch_;
    Batch batch = *inner_->next();
    batch.images = batch.images.to(at::kFloat);
    if (is_bad) batch.images.fill_(std::numeric_limits<float>::quiet_NaN());
    return batch;
  }
  void seek(int64_t index) override { inner_->seek(index); }
  int64_t position() const override { return inner_->position(); }
  int64_t num_examples() const override { return inner_->num_examples(); }

 private:
  std::unique_ptr<data::BatchSource> inner_;
  int64_t bad_batch_;
};

}  // namespace osprey::testing
