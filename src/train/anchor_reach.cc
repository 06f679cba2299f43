#include "train/anchor_reach.h"

#include <algorithm>

#include "osprey/models/summary.h"
#include "osprey/targets/builder.h"

namespace osprey::train {

AnchorReach::AnchorReach(const at::Tensor& anchors, float threshold) : threshold_(threshold) {
  const at::Tensor rows = anchors.contiguous();
  const auto* values = rows.const_data_ptr<float>();
  for (int64_t a = 0; a < rows.size(0); ++a, values += 4)
    anchors_.push_back({values[0], values[1], values[2], values[3]});
  std::ranges::sort(anchors_, {}, &Box::area);
  for (const Box& anchor : anchors_) areas_.push_back(anchor.area());
}

bool AnchorReach::reaches(const Box& box) const {
  // Areas of boxes with an IoU of t differ by a factor of 1 / t at most; a little more is looked at for rounding.
  const float area = box.area(), slack = 1.001f;
  const auto first = std::ranges::lower_bound(areas_, area * threshold_ / slack);
  const auto last = std::ranges::upper_bound(areas_, area / threshold_ * slack);
  for (auto i = first - areas_.begin(); i < last - areas_.begin(); ++i) {
    const Box& anchor = anchors_[static_cast<size_t>(i)];
    const float height = std::min(anchor.ymax, box.ymax) - std::max(anchor.ymin, box.ymin);
    const float width = std::min(anchor.xmax, box.xmax) - std::max(anchor.xmin, box.xmin);
    if (height <= 0 || width <= 0) continue;
    const float common = height * width;
    if (common / (areas_[static_cast<size_t>(i)] + area - common) >= threshold_) return true;
  }
  return false;
}

at::Tensor AnchorPlaces::anchors_on(const std::vector<boxes::FeatureMapShape>& maps,
                                    const boxes::AnchorGenerator& generator) const {
  const auto& [height, width] = input_size;
  return any_input_size ? generator.generate_for_any_size(maps, height, width)
                        : generator.generate(maps, height, width);
}

std::optional<AnchorPlaces> anchor_places_of(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root) {
  if (!root->model().has_ssd()) return std::nullopt;
  const auto ssd = root.child("model", root->model()).child("ssd", root->model().ssd());
  try {
    const auto matcher = targets::build_matcher(ssd.child("matcher", ssd->matcher()));
    const kernels::MatchOptions* match = matcher->argmax_options();
    const auto similarity =
        targets::build_region_similarity(ssd.child("similarity_calculator", ssd->similarity_calculator()));
    if (match == nullptr || !match->use_thresholds || match->matched_threshold <= 0 || !similarity->is_iou())
      return std::nullopt;
    const models::Summary model = models::summarize_model(root);
    AnchorPlaces places{{}, model.input_size, match->matched_threshold, model.any_input_size};
    for (const auto& [height, width, depth] : model.feature_maps) places.feature_maps.push_back({height, width});
    return places;
  } catch (const ConfigError&) {  // said by whoever trains it; the records can be looked at nevertheless
    return std::nullopt;
  }
}

AnchorReach anchor_reach_of(const boxes::AnchorGenerator& generator, const AnchorPlaces& places) {
  return {places.anchors_on(places.feature_maps, generator), places.threshold};
}

}  // namespace osprey::train
