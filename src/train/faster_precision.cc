#include "train/faster_precision.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "osprey/base/clock.h"
#include "osprey/data/fake_source.h"

namespace osprey::train {
namespace {

double seconds_of_step(models::DetectionModel& model, const Batch& batch, Precision precision) {
  const double start = now();
  accumulate_gradients(model, batch, {.precision = precision});
  const double seconds = now() - start;
  model.discard_statistics();
  return seconds;
}

}  // namespace

PrecisionTrial try_precisions(models::DetectionModel& model, const data::SourceOptions& source, Replicas* replicas) {
  data::SourceOptions small = source;
  small.batch_size = std::min<int64_t>(source.batch_size, 2);
  const Batch batch = *data::make_fake_source(small, small.batch_size)->next();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double float32 = kNever, bfloat16 = kNever;
  for (int turn = 0; turn < 3; ++turn) {
    const double wide = seconds_of_step(model, batch, Precision::kFloat32),
                 narrow = seconds_of_step(model, batch, Precision::kBfloat16);
    if (turn == 0) continue;  // memory is found, weights are laid out
    float32 = std::min(float32, wide);
    bfloat16 = std::min(bfloat16, narrow);
  }
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
  const at::Tensor seconds = at::tensor({float32, bfloat16}, at::kDouble);
  if (replicas != nullptr) replicas->sum(seconds);
  return {seconds[0].item<double>(), seconds[1].item<double>()};
}

}  // namespace osprey::train
