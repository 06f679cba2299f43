#include "osprey/config/static_shapes.h"

#include <fmt/format.h>

namespace osprey::config {
namespace {

class Report {
 public:
  explicit Report(const Pipeline& pipeline) : config_(*pipeline.message), sources_(pipeline.sources) {}

  std::vector<DynamicPart> run() {
    if (config_.model().has_ssd()) check_ssd(config_.model().ssd());
    if (config_.model().has_faster_rcnn()) check_faster_rcnn(config_.model().faster_rcnn());
    if (config_.model().has_image_classifier())
      check_resizer("model.image_classifier.image_resizer", config_.model().image_classifier().image_resizer());
    if (config_.model().has_center_net())
      check_resizer("model.center_net.image_resizer", config_.model().center_net().image_resizer());
    check_boxes();
    return std::move(parts_);
  }

 private:
  void add(const std::string& path, const std::string& why, const std::string& substitute, bool in_step = false) {
    parts_.push_back({{path, why, sources_->origin(path)}, substitute, in_step});
  }

  void check_ssd(const proto::Ssd& ssd) {
    check_resizer("model.ssd.image_resizer", ssd.image_resizer());
    check_miner("model.ssd.loss.hard_example_miner", ssd.loss().has_hard_example_miner());
    if (ssd.matcher().has_bipartite_matcher())
      add("model.ssd.matcher.bipartite_matcher", "assigns boxes one after the other, as many rounds as there are boxes",
          "argmax_matcher { force_match_for_each_row: true }", /*in_step=*/true);
    const auto& similarity = ssd.similarity_calculator();
    if (similarity.region_similarity_case() != proto::RegionSimilarityCalculator::REGION_SIMILARITY_NOT_SET &&
        !similarity.has_iou_similarity())
      add("model.ssd.similarity_calculator", "compares the boxes of one image after the other, without their padding",
          "similarity_calculator { iou_similarity {} }", /*in_step=*/true);
    check_suppression("model.ssd.post_processing.batch_non_max_suppression",
                      ssd.post_processing().batch_non_max_suppression(), "evaluation");
  }

  void check_faster_rcnn(const proto::FasterRcnn& model) {
    check_resizer("model.faster_rcnn.image_resizer", model.image_resizer());
    check_miner("model.faster_rcnn.hard_example_miner", model.has_hard_example_miner());
    if (!model.use_static_shapes())
      add("model.faster_rcnn.use_static_shapes",
          "proposals are suppressed in the training graph and their number varies", "use_static_shapes: true");
    check_suppression("model.faster_rcnn.second_stage_post_processing.batch_non_max_suppression",
                      model.second_stage_post_processing().batch_non_max_suppression(), "evaluation");
  }

  void check_resizer(const std::string& path, const proto::ImageResizer& resizer) {
    const auto add_resizer = [&](const char* choice, const char* why,
                                 const char* substitute = "fixed_shape_resizer { height: 640 width: 640 }") {
      add(path + choice, why, substitute, /*in_step=*/true);
    };
    if (resizer.has_keep_aspect_ratio_resizer()) {
      if (!resizer.keep_aspect_ratio_resizer().pad_to_max_dimension())
        add_resizer(".keep_aspect_ratio_resizer", "the image size follows each image's aspect ratio",
                    "pad_to_max_dimension: true");
    } else if (resizer.has_identity_resizer()) {
      add_resizer(".identity_resizer", "images keep their own size");
    } else if (resizer.has_conditional_shape_resizer()) {
      add_resizer(".conditional_shape_resizer", "the image size depends on the image");
    } else if (resizer.has_pad_to_multiple_resizer()) {
      add_resizer(".pad_to_multiple_resizer", "the image size depends on the image");
    }
  }

  void check_miner(const std::string& path, bool is_set) {
    if (is_set)
      add(path, "suppresses and ranks anchors in the training graph; how many are kept varies",
          "no miner, and classification_loss { weighted_sigmoid_focal { alpha: 0.25 gamma: 2.0 } }", /*in_step=*/true);
  }

  void check_suppression(const std::string& path, const proto::BatchNonMaxSuppression& nms, const std::string& graph) {
    if (!nms.use_static_shapes())
      add(path + ".use_static_shapes", fmt::format("the number of detections varies in the {} graph", graph),
          "use_static_shapes: true");
  }

  void check_boxes() {
    const auto& train = config_.train_config();
    if (train.unpad_groundtruth_tensors())
      add("train_config.unpad_groundtruth_tensors",
          "boxes are stripped of their padding, so their number varies from image to image",
          "unpad_groundtruth_tensors: false, and max_number_of_boxes in the readers");
    if (config_.has_train_input_reader() && !config_.train_input_reader().drop_remainder())
      add("train_input_reader.drop_remainder", "the last batch of an epoch is smaller", "drop_remainder: true");
  }

  const proto::TrainEvalPipelineConfig& config_;
  std::shared_ptr<const SourceMap> sources_;
  std::vector<DynamicPart> parts_;
};

}  // namespace

std::vector<DynamicPart> dynamic_parts(const Pipeline& pipeline) { return Report(pipeline).run(); }

}  // namespace osprey::config
