#include "osprey/eval/checkpoint_evaluator.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "osprey/checkpoint/model_weights.h"
#include "osprey/config/resolve.h"
#include "osprey/data/loader.h"
#include "osprey/models/builder.h"

namespace osprey::eval {
namespace {

using Root = config::ConfigNode<proto::TrainEvalPipelineConfig>;

config::ConfigNode<proto::InputReader> reader_of(const Root& root, int index) {
  if (root->eval_input_reader_size() == 0) root.fail("eval_input_reader", "is needed for evaluation");
  if (index < 0 || index >= root->eval_input_reader_size())
    root.fail("eval_input_reader",
              fmt::format("has {} entries, there is no number {}", root->eval_input_reader_size(), index));
  return root.child("eval_input_reader", index, root->eval_input_reader(index));
}

/// Leaves pictures as they are.
std::shared_ptr<const data::ImageResizer> identity_resizer() {
  proto::ImageResizer config;
  config.mutable_identity_resizer();
  return data::build_image_resizer(config);
}

}  // namespace

config::ConfigNode<proto::InputReader> naming_reader(const Root& root, int index) {
  const auto training = root.child("train_input_reader", root->train_input_reader());
  if (index >= root->eval_input_reader_size()) return training;
  const auto own = reader_of(root, index);
  if (own->has_label_map() || !own->label_map_path().empty()) return own;
  std::error_code unreadable;
  const bool has_map =
      training->has_label_map() || std::filesystem::is_regular_file(training->label_map_path(), unreadable);
  return has_map ? training : own;
}

std::optional<config::LabelMap> label_map_within(const config::ConfigNode<proto::InputReader>& reader,
                                                 int64_t num_classes) {
  std::optional<config::LabelMap> map = config::label_map_of(*reader);
  if (map && map->max_id() > num_classes)
    reader.fail(reader->has_label_map() ? "label_map" : "label_map_path",
                fmt::format("{}goes up to id {}, but the model has num_classes {}",
                            reader->has_label_map() ? "" : reader->label_map_path() + " ", map->max_id(), num_classes));
  return map;
}

void warn_of_other_names(const config::ConfigNode<proto::InputReader>& reader, const config::LabelMap& map,
                         const std::filesystem::path& checkpoint) {
  const std::string copy = (checkpoint.parent_path() / "label_map.pbtxt").string();
  std::error_code unreadable;
  if (!std::filesystem::exists(copy, unreadable)) return;
  try {
    if (config::label_map_text(map) == config::label_map_text(config::load_label_map(copy))) return;
  } catch (const Error&) {  // not one of ours
  }
  SPDLOG_WARN("the classes get their names from {}; {}, which lies beside the checkpoint, has others",
              reader->has_label_map() ? reader.path_of("label_map") : reader->label_map_path(), copy);
}

std::vector<Category> evaluation_categories(const Root& root, int index, int64_t num_classes) {
  reader_of(root, index);  // or fails
  std::vector<Category> categories;
  const std::optional<config::LabelMap> map = label_map_within(naming_reader(root, index), num_classes);
  if (!map) {
    for (int64_t id = 1; id <= num_classes; ++id) categories.push_back({id, fmt::format("class {}", id)});
    return categories;
  }
  for (const config::LabelMap::Item& item : map->items) categories.push_back({item.id, item.shown()});
  return categories;
}

CheckpointEvaluator::CheckpointEvaluator(const Root& root, const CheckpointEvaluatorOptions& options)
    : options_(evaluation_options(root.child("eval_config", root->eval_config()), config::default_metric(*root))),
      moving_averages_(root->eval_config().use_moving_averages()) {
  const auto reader = reader_of(root, options.reader);
  model_ = models::build_model(root);
  model_->to(options.device);
  categories_ = evaluation_categories(root, options.reader, model_->num_classes());
  const auto naming = naming_reader(root, options.reader);
  if (const auto map = label_map_within(naming, model_->num_classes()))
    look_at_names_ = [reader = *naming, path = naming.path(), map = *map](const std::filesystem::path& file) {
      warn_of_other_names({reader, path, nullptr}, map, file);
    };
  data::SourceOptions source = data::eval_options(root, options.reader);
  source.skip_bad = options.skip_bad;
  source.pin_memory = options.device.is_cuda();
  if (options.tiles) {
    data::check_source(reader, source);
    options_.tiled = {*options.tiles, data::shape_of(source), source.resizer};
  }
  if (options.tiles || options.find) {
    options_.detections_file.clear();
    options_.visualization_dir.clear();
    if (reader->has_custom())
      reader.fail("custom", fmt::format("gives pictures of the network's size, and {} whole ones",
                                        options.find ? "an exported model takes" : "tiles are cut from"));
    source.resizer = identity_resizer();
    source.batch_size = source.prefetch_batches = 1;
    source.pin_memory = false;
  }
  source_ = data::make_source(reader, source);
  options_.device = options.device;
  options_.find = options.find;
}

CheckpointEvaluator::~CheckpointEvaluator() = default;

EvaluationResult CheckpointEvaluator::evaluate(const std::filesystem::path& checkpoint, int64_t& step) {
  if (look_at_names_) std::exchange(look_at_names_, nullptr)(checkpoint);
  step = checkpoint::load_model(checkpoint, *model_, moving_averages_);
  return eval::evaluate(*model_, *source_, categories_, options_);
}

EvaluationResult CheckpointEvaluator::evaluate_found(const std::filesystem::path& file) {
  TORCH_CHECK(options_.find, "nothing was given that finds");
  if (look_at_names_) std::exchange(look_at_names_, nullptr)(file);
  return eval::evaluate(*model_, *source_, categories_, options_);
}

}  // namespace osprey::eval
