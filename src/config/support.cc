#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>
#include <spdlog/spdlog.h>

#include "osprey/base/cpu.h"
#include "osprey/config/fields.h"
#include "osprey/config/resolve.h"
#include "osprey/config/validate.h"

namespace osprey::config {
namespace {

class Scan {
 public:
  Scan(const Pipeline& pipeline, Purpose purpose)
      : config_(*pipeline.message),
        sources_(*pipeline.sources),
        purpose_(purpose),
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
    const std::string& type = config_.model().ssd().feature_extractor().type();
    const int64_t delay = config_.graph_rewriter().quantization().delay(), steps = config_.train_config().num_steps();
    if (type.ends_with("_keras"))
      listed_.add("graph_rewriter", "is ignored: the original quantizes no model of TF2");
    else if (purpose_ == Purpose::kTrain && steps > 0 && delay >= steps)
      listed_.add("graph_rewriter", "is ignored: quantization.delay is not before the last step");
    else if (purpose_ == Purpose::kTrain || purpose_ == Purpose::kExport)
      refuse("graph_rewriter", "; --set graph_rewriter= works with the float network");
    else
      listed_.add("graph_rewriter", "quantization is not supported yet; this is the float network: graph_rewriter");
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
  Purpose purpose_;
  Findings refused_, listed_;
};

/// What becomes of a field that this program reads for compatibility only; "" for fields that are simply in use.
std::string fate(const proto::TrainEvalPipelineConfig& config, const FieldValue& value) {
  static const std::map<std::string, std::string> fates = {
      {"osprey.protos.ArgMaxMatcher.use_matmul_gather", "is ignored: the result is the same"},
      {"osprey.protos.BipartiteMatcher.use_matmul_gather", "is ignored: the result is the same"},
      {"osprey.protos.TrainConfig.sync_replicas", "is ignored: replicas are always synchronous"},
      {"osprey.protos.TrainConfig.replicas_to_aggregate", "is ignored: every replica takes part in every step"},
      {"osprey.protos.TrainConfig.startup_delay_steps", "is ignored: replicas start together"},
      {"osprey.protos.TrainConfig.batch_queue_capacity",
       "is ignored: examples wait in batches only, see prefetch_queue_capacity"},
      {"osprey.protos.TrainConfig.num_batch_queue_threads", "is the number of threads that prepare batches"},
      {"osprey.protos.TrainConfig.prefetch_queue_capacity",
       "is used where train_input_reader sets no num_prefetch_batches"},
      {"osprey.protos.TrainConfig.unpad_groundtruth_tensors", "is ignored: padded rows are masked and change nothing"},
      {"osprey.protos.TrainConfig.max_number_of_boxes",
       "is used where it is above 100 and a reader sets no max_number_of_boxes of its own"},
      {"osprey.protos.TrainConfig.fine_tune_checkpoint_version", "only decides between TF1 and TF2 arithmetic"},
      {"osprey.protos.TrainConfig.run_fine_tune_checkpoint_dummy_computation",
       "is ignored: variables are there before they are restored"},
      {"osprey.protos.TrainConfig.retain_original_images", "is ignored: what is drawn is kept"},
      {"osprey.protos.TrainConfig.summarize_gradients", "is ignored: summaries show the norm of all gradients"},
      {"osprey.protos.BatchNonMaxSuppression.use_partitioned_nms", "is ignored: the result is the same"},
      {"osprey.protos.BatchNonMaxSuppression.use_cpu_nms", "is ignored: the result is the same"},
      {"osprey.protos.EvalConfig.eval_interval_secs",
       "is ignored: eval_detector --watch sees a checkpoint within a second; see eval_every_n_steps"},
      {"osprey.protos.EvalConfig.save_graph", "is ignored: there is no graph to save"},
      {"osprey.protos.EvalConfig.eval_master", "is ignored: evaluation runs in this process"},
      {"osprey.protos.EvalConfig.retain_original_images", "is ignored: what is drawn is kept"},
      {"osprey.protos.EvalConfig.num_examples", "is ignored: every example is evaluated"},
      {"osprey.protos.EvalConfig.max_evals", "is ignored: evaluation runs once per checkpoint"},
      {"osprey.protos.InputReader.queue_capacity", "is ignored: queues are bounded by memory"},
      {"osprey.protos.InputReader.min_after_dequeue", "is ignored: shuffling is a permutation of all examples"},
      {"osprey.protos.InputReader.shuffle_buffer_size", "is ignored: shuffling is a permutation of all examples"},
      {"osprey.protos.InputReader.filenames_shuffle_buffer_size",
       "is ignored: shuffling is a permutation of all examples"},
      {"osprey.protos.InputReader.read_block_length", "is ignored: records are read through an index"},
      {"osprey.protos.InputReader.include_source_id", "is ignored: ids are kept in any case"},
      {"osprey.protos.InputReader.frame_index", "is ignored: records hold single images"},
      {"osprey.protos.InputReader.prefetch_size", "is ignored: see num_prefetch_batches"},
      {"osprey.protos.InputReader.num_parallel_map_calls", "is ignored: threads are chosen from the machine"},
      {"osprey.protos.InputReader.num_readers", "is ignored: threads are chosen from the machine"},
      {"osprey.protos.InputReader.num_parallel_batches", "is ignored: threads are chosen from the machine"},
  };
  const std::string& name = value.field->full_name();
  if (value.field->name() == "anchorwise_output") return "is ignored: losses are those of anchors";
  if (name == "osprey.protos.TrainConfig.from_detection_checkpoint") {
    const std::string type = fine_tune_checkpoint_type(config.train_config());
    if (config.train_config().has_fine_tune_checkpoint_type()) return "is ignored: fine_tune_checkpoint_type is set";
    return fmt::format("is read as fine_tune_checkpoint_type: \"{}\"", type);
  }
  if (name == "osprey.protos.TrainConfig.use_bfloat16") {
    if (config.train_config().precision() != proto::TrainConfig::AUTO) return "is ignored: precision is set";
    if (!config.train_config().use_bfloat16()) return "is ignored: false chooses no precision; see precision";
    return has_bfloat16_arithmetic() ? "is read as precision: BF16"
                                     : "is read as precision: BF16 on a GPU; this CPU has no bfloat16 arithmetic and "
                                       "computes in FP32, unless precision: BF16 insists on it";
  }
  if (auto found = fates.find(name); found != fates.end()) return found->second;
  return value.field->options().deprecated() ? "is ignored" : "";
}

void throw_all(const std::vector<Remark>& remarks) {
  std::string errors;
  for (const Remark& remark : remarks) errors += (errors.empty() ? "" : "\n") + remark.line();
  if (!errors.empty()) throw ConfigError(errors);
}

}  // namespace

Unsupported unsupported_choices(const Pipeline& pipeline, Purpose purpose) { return Scan(pipeline, purpose).run(); }

void require_supported(const Pipeline& pipeline, Purpose purpose) {
  const Unsupported found = unsupported_choices(pipeline, purpose);
  throw_all(found.refused);
  if (pipeline.message->strict()) throw_all(found.listed);
}

std::vector<Remark> deprecated_fields(const Pipeline& pipeline) {
  Findings remarks(pipeline.sources);
  visit_fields(*pipeline.message, [&](const FieldValue& value) {
    const std::string what = fate(*pipeline.message, value);
    if (!what.empty()) remarks.add(value.path, what);
  });
  return remarks.all();
}

void check(const Pipeline& pipeline, Purpose purpose) {
  validate(pipeline);
  require_supported(pipeline, purpose);
  for (const Remark& remark : deprecated_fields(pipeline)) SPDLOG_INFO("{}", remark.line());
  for (const Remark& remark : unsupported_choices(pipeline, purpose).listed) SPDLOG_WARN("{}", remark.line());
}

}  // namespace osprey::config
