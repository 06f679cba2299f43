#include "osprey/config/deprecated.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.pb.h>

#include <map>
#include <string>

#include "osprey/base/cpu.h"
#include "osprey/config/fields.h"
#include "osprey/config/resolve.h"

namespace osprey::config {
namespace {

/// What becomes of a field that this program reads for compatibility only; "" for fields that are simply in use.
std::string fate(const proto::TrainEvalPipelineConfig& config, const FieldValue& value) {
  static const std::map<std::string, std::string> fates = {
      {"osprey.protos.ArgMaxMatcher.use_matmul_gather", "is ignored: the result is the same"},
      {"osprey.protos.BipartiteMatcher.use_matmul_gather", "is ignored: the result is the same"},
      {"osprey.protos.Loss.EqualizationLoss.weight", "is ignored: the original reads it and does nothing with it"},
      {"osprey.protos.Loss.EqualizationLoss.exclude_prefixes", "is ignored, as its weight is"},
      {"osprey.protos.TrainConfig.sync_replicas", "is ignored: replicas are always synchronous"},
      {"osprey.protos.TrainConfig.replicas_to_aggregate", "is ignored: every replica takes part in every step"},
      {"osprey.protos.TrainConfig.startup_delay_steps", "is ignored: replicas start together"},
      {"osprey.protos.TrainConfig.batch_queue_capacity",
       "is the number of examples that wait, in whole batches, where neither prefetch_queue_capacity nor "
       "num_prefetch_batches of train_input_reader is set"},
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

}  // namespace

std::vector<Remark> deprecated_fields(const Pipeline& pipeline) {
  Findings remarks(pipeline.sources);
  visit_fields(*pipeline.message, [&](const FieldValue& value) {
    const std::string what = fate(*pipeline.message, value);
    if (!what.empty()) remarks.add(value.path, what);
  });
  return remarks.all();
}

}  // namespace osprey::config
