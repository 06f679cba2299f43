#include "osprey/losses/hard_example_miner.h"

#include <ATen/ATen.h>

#include <limits>

#include "osprey/boxes/non_max_suppression.h"
#include "osprey/core/targets.h"
#include "osprey/kernels/parallel.h"

namespace osprey::losses {
namespace {

/// Drops the easiest negatives of one image beyond its quota. An ignored anchor stays as long as the negatives ranked
/// before it are within the quota.
void limit_negatives(std::vector<int64_t>& selected, const int64_t* match, const MinerOptions& options) {
  const int64_t positives = std::count_if(selected.begin(), selected.end(), [&](int64_t a) { return match[a] >= 0; });
  const int64_t quota =
      std::max(options.min_negatives_per_image,
               static_cast<int64_t>(options.max_negatives_per_positive * static_cast<double>(positives)));
  int64_t negatives = 0;
  std::erase_if(selected, [&](int64_t anchor) {
    if (match[anchor] == Match::kBackground) ++negatives;
    return match[anchor] < 0 && negatives > quota;
  });
}

/// The loss that ranks, [B, A] float32 on the CPU.
at::Tensor ranking(const at::Tensor& localization, const at::Tensor& classification, const MinerOptions& options) {
  switch (options.rank) {
    case MinerOptions::Rank::kClassification:
      return classification;
    case MinerOptions::Rank::kLocalization:
      return localization;
    case MinerOptions::Rank::kBoth:
      break;
  }
  return classification * options.classification_weight + localization * options.localization_weight;
}

at::Tensor on_cpu(const at::Tensor& values, at::ScalarType type) {
  return values.detach().to(at::kCPU, type).contiguous();
}

}  // namespace

MinedLosses HardExampleMiner::operator()(const at::Tensor& localization, const at::Tensor& classification,
                                         const at::Tensor& decoded_boxes, const at::Tensor& match) const {
  TORCH_CHECK(localization.dim() == 2 && localization.sizes() == classification.sizes() &&
                  match.sizes() == localization.sizes(),
              "the miner needs [B, A] losses and matches, got ", localization.sizes(), ", ", classification.sizes(),
              " and ", match.sizes());
  const int64_t images = localization.size(0), anchors = localization.size(1);
  TORCH_CHECK(decoded_boxes.sizes() == at::IntArrayRef({images, anchors, 4}), "decoded boxes are ",
              decoded_boxes.sizes(), ", losses ", localization.sizes());
  const at::Tensor rank = on_cpu(ranking(localization.detach(), classification.detach(), options_), at::kFloat);
  const at::Tensor boxes = on_cpu(decoded_boxes, at::kFloat), matches = on_cpu(match, at::kLong);
  at::Tensor kept = at::zeros({images, anchors}, at::kBool);

  MinedLosses mined;
  mined.selected.resize(static_cast<size_t>(images));
  kernels::parallel_for(images, [&](int64_t i) {
    const int64_t limit = options_.num_hard_examples > 0 ? std::min(options_.num_hard_examples, anchors) : anchors;
    auto& selected = mined.selected[static_cast<size_t>(i)];
    selected = boxes::non_max_suppression(
                   boxes.const_data_ptr<float>() + i * anchors * 4, rank.const_data_ptr<float>() + i * anchors, anchors,
                   limit, static_cast<float>(options_.iou_threshold), -std::numeric_limits<float>::infinity())
                   .indices;
    if (options_.max_negatives_per_positive > 0)
      limit_negatives(selected, matches.const_data_ptr<int64_t>() + i * anchors, options_);
    for (int64_t anchor : selected) kept.data_ptr<bool>()[i * anchors + anchor] = true;
  });
  mined.num_positives = (kept & (matches >= 0)).sum().item<int64_t>();
  mined.num_negatives = (kept & (matches == Match::kBackground)).sum().item<int64_t>();
  mined.kept = kept.to(localization.device());
  // A product, not a selection: a loss that is not finite is never selected, and must show all the same.
  mined.localization = (localization * mined.kept).sum();
  mined.classification = (classification * mined.kept).sum();
  return mined;
}

}  // namespace osprey::losses
