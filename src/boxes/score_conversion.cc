#include <ATen/ATen.h>

#include <algorithm>

#include "osprey/boxes/post_processing.h"
#include "osprey/core/constant.h"

namespace osprey::boxes {
namespace {

/// The curve at every score: between points i and i + 1 a straight line, flat before the first and after the last.
at::Tensor calibrate(const at::Tensor& scores, const CalibrationCurve& curve) {
  if (curve.x.empty()) return scores;
  const auto column = [&](const std::vector<float>& values) {
    return constant(std::vector<double>(values.begin(), values.end()), scores.options());
  };
  const at::Tensor x = column(curve.x), y = column(curve.y);
  const auto last = static_cast<int64_t>(curve.x.size()) - 1;
  const at::Tensor inside = scores.clamp(curve.x.front(), curve.x.back()).contiguous();
  const at::Tensor right = at::searchsorted(x, inside).clamp(std::min<int64_t>(1, last), last),
                   left = (right - 1).clamp_min(0);
  const auto at_index = [](const at::Tensor& values, const at::Tensor& index) { return values.take(index); };
  const at::Tensor width = at_index(x, right) - at_index(x, left);
  const at::Tensor alpha = at::where(width > 0, (inside - at_index(x, left)) / width, at::zeros({}, scores.options()));
  return (1 - alpha) * at_index(y, left) + alpha * at_index(y, right);
}

}  // namespace

at::Tensor convert_scores(const at::Tensor& logits, const ScoreOptions& options) {
  at::Tensor scores = logits;
  if (options.temperature != 1) scores = scores / options.temperature;
  if (options.logit_scale != 1) scores = scores / options.logit_scale;
  if (options.converter == ScoreConverter::kSigmoid) scores = scores.sigmoid();
  if (options.converter == ScoreConverter::kSoftmax) scores = scores.softmax(-1);
  scores = calibrate(scores, options.curve);
  if (options.class_curves.empty()) return scores;

  std::vector<at::Tensor> columns = scores.unbind(-1);
  for (size_t c = 0; c < std::min(columns.size(), options.class_curves.size()); ++c)
    columns[c] = calibrate(columns[c], options.class_curves[c]);
  return at::stack(columns, -1);
}

}  // namespace osprey::boxes
