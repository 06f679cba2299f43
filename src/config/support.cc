#include "osprey/config/support.h"

#include <fmt/format.h>

#include "osprey/base/error.h"
#include "osprey/config/resolve.h"

namespace osprey::config {
namespace {

class Scan {
 public:
  explicit Scan(const Pipeline& pipeline)
      : config_(*pipeline.message),
        sources_(*pipeline.sources),
        refused_(pipeline.sources),
        listed_(pipeline.sources) {}

  Unsupported run() {
    scan_model();
    if (config_.has_graph_rewriter()) scan_graph_rewriter();
    scan_reader("train_input_reader", config_.train_input_reader());
    for (int i = 0; i < config_.eval_input_reader_size(); ++i)
      scan_reader(fmt::format("eval_input_reader[{}]", i), config_.eval_input_reader(i));
    const proto::EvalConfig& eval = config_.eval_config();
    if (eval.force_no_resize()) refuse("eval_config.force_no_resize");
    if (eval.skip_predictions_for_unlabeled_class()) refuse("eval_config.skip_predictions_for_unlabeled_class");
    if (eval.retain_original_image_additional_channels())
      refuse("eval_config.retain_original_image_additional_channels");
    if (eval.eval_instance_masks()) list("eval_config.eval_instance_masks");
    if (eval.parameterized_metric_size() > 0) list("eval_config.parameterized_metric");
    if (eval.keypoint_edge_size() > 0) list("eval_config.keypoint_edge");
    std::vector<Remark> listed = sources_.without_effect();
    listed.insert(listed.end(), listed_.all().begin(), listed_.all().end());
    return {refused_.all(), listed};
  }

 private:
  void refuse(const std::string& path, const std::string& cure = "") {
    refused_.add(path, "is not supported yet: " + path + cure);
  }
  void list(const std::string& path) { listed_.add(path, "is not supported yet and is ignored: " + path); }

  void scan_model() {
    const auto& model = config_.model();
    if (model.has_faster_rcnn()) refuse("model.faster_rcnn");
    if (model.has_center_net()) refuse("model.center_net");
    if (model.has_experimental_model()) refuse("model.experimental_model");
    if (model.has_ssd() && model.ssd().has_mask_head_config()) refuse("model.ssd.mask_head_config");
    if (model.ssd().box_coder().keypoint_box_coder().num_keypoints() > 0)
      refuse("model.ssd.box_coder.keypoint_box_coder.num_keypoints");
    if (model.ssd().return_raw_detections_during_predict()) list("model.ssd.return_raw_detections_during_predict");
  }

  void scan_graph_rewriter() {
    if (!trains_for_8_bits(config_))
      listed_.add("graph_rewriter", "is ignored: the original quantizes no model of TF2");
    else if (config_.graph_rewriter().quantization().symmetric())
      listed_.add("graph_rewriter.quantization.symmetric", "is ignored, as by the original");
  }

  void scan_reader(const std::string& path, const proto::InputReader& reader) {
    if (reader.has_external_input_reader()) refuse(path + ".external_input_reader");
    if (reader.input_type() == proto::TF_SEQUENCE_EXAMPLE) refuse(path + ".input_type");
    if (reader.num_additional_channels() > 0) refuse(path + ".num_additional_channels");
    if (reader.load_context_features()) refuse(path + ".load_context_features");
    if (reader.expand_labels_hierarchy()) refuse(path + ".expand_labels_hierarchy");
    const char* const kept = "is read and augmented, but no model learns from it yet: ";
    if (reader.load_instance_masks()) listed_.add(path + ".load_instance_masks", kept + path + ".load_instance_masks");
    if (reader.num_keypoints() > 0) listed_.add(path + ".num_keypoints", kept + path + ".num_keypoints");
    if (reader.load_context_image_ids()) list(path + ".load_context_image_ids");
    if (reader.keypoint_type_weight_size() > 0) list(path + ".keypoint_type_weight");
    if (reader.load_dense_pose()) list(path + ".load_dense_pose");
    if (reader.load_track_id()) list(path + ".load_track_id");
    if (reader.load_keypoint_depth_features()) list(path + ".load_keypoint_depth_features");
  }

  const proto::TrainEvalPipelineConfig& config_;
  const FieldOrigins& sources_;
  Findings refused_, listed_;
};

void throw_all(const std::vector<Remark>& remarks) {
  std::string errors;
  for (const Remark& remark : remarks) errors += (errors.empty() ? "" : "\n") + remark.line();
  if (!errors.empty()) throw ConfigError(errors);
}

}  // namespace

Unsupported unsupported_choices(const Pipeline& pipeline) { return Scan(pipeline).run(); }

void require_supported(const Pipeline& pipeline) {
  const Unsupported found = unsupported_choices(pipeline);
  throw_all(found.refused);
  if (pipeline.message->strict()) throw_all(found.listed);
}

}  // namespace osprey::config
