#include "osprey/data/loader.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <thread>
#include <utility>

#include "data/data_set_shares.h"
#include "data/most_boxes.h"
#include "data/rare_classes.h"
#include "data/record_loader.h"
#include "data/record_of_image.h"
#include "osprey/base/memory.h"
#include "osprey/config/label_map.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/input_paths.h"
#include "osprey/data/label_check.h"

namespace osprey::data {
namespace {

std::shared_ptr<const config::LabelMap> label_map_of(const config::ConfigNode<proto::InputReader>& reader,
                                                     int64_t num_classes) {
  std::error_code ignored;
  if (!reader->label_map_path().empty() && !std::filesystem::exists(reader->label_map_path(), ignored))
    reader.fail("label_map_path",
                fmt::format("there is no '{}'; --data_dir names the folder in which relative paths lie",
                            reader->label_map_path()));
  const std::optional<config::LabelMap> map = config::label_map_of(*reader);
  if (!map) return nullptr;
  if (num_classes > 0 && map->max_id() != num_classes)
    reader.fail(
        reader->has_label_map() ? "label_map" : "label_map_path",
        fmt::format("{}has ids up to {}, num_classes is {}",
                    reader->has_label_map() ? "" : "'" + reader->label_map_path() + "' ", map->max_id(), num_classes));
  return std::make_shared<const config::LabelMap>(*map);
}

void repeat_rare_classes(LoaderParts& parts, const config::LabelMap* label_map, double threshold) {
  const std::vector<int64_t> repeats = repeats_of_records(*parts.index, label_map, threshold, parts.order.seed);
  const int64_t records = parts.order.size();
  parts.order.repeat(repeats);
  SPDLOG_INFO(
      "{}: an epoch has {} examples of {} records: those of classes in fewer than {:.3g} % of the records come "
      "up to {} times",
      parts.reader, parts.order.size(), records, 100 * threshold, *std::max_element(repeats.begin(), repeats.end()));
}

void tell_shares(const LoaderParts& parts, const proto::InputReader& reader) {
  for (size_t i = 0; i < parts.order.data_sets.size(); ++i)
    SPDLOG_INFO("{}: of {} examples of an epoch {} are of the {} records of '{}'", parts.reader, parts.order.size(),
                parts.order.data_sets[i].per_epoch, parts.order.data_sets[i].records.size(),
                reader.tf_record_input_reader().input_path(static_cast<int>(i)));
}

void check_weights(const config::ConfigNode<proto::InputReader>& reader, bool training) {
  const char* const field = "sample_from_datasets_weights";
  const auto& weights = reader->sample_from_datasets_weights();
  if (weights.empty()) return;
  const int paths = reader->tf_record_input_reader().input_path_size();
  if (weights.size() != paths)
    reader.fail(field, fmt::format("has {} values for {} input paths", weights.size(), paths));
  if (!std::ranges::all_of(weights, [](float weight) { return weight >= 0 && std::isfinite(weight); }) ||
      std::ranges::all_of(weights, [](float weight) { return weight == 0; }))
    reader.fail(field, "must be finite, >= 0, and not all 0");
  if (!training) reader.fail(field, "is for training: an evaluation sees every record once");
  if (reader->repeat_factor_threshold() > 0) reader.fail(field, "does not go with repeat_factor_threshold");
}

/// Rows for all boxes of the example that has most, made of so many pictures.
int64_t rows_for_all_boxes(const ExampleIndex& index, int64_t pictures, const std::string& name) {
  const int64_t most = most_boxes(index);
  if (pictures > 1)
    SPDLOG_INFO("{}: rows for {} boxes, for up to {} pictures of up to {} make one", name, most * pictures, pictures,
                most);
  return most * pictures;
}

/// Bytes of a batch in the memory of the host, a usual one where they differ; pinned memory is given in powers of two.
int64_t host_bytes(BatchShape shape, const std::shared_ptr<const ImageResizer>& resizer) {
  const bool pinned = std::exchange(shape.pin_memory, false);
  shape.image = shape.image.value_or(resizer->usual_size());
  const Batch batch = Collation(shape, resizer).finish();
  const auto images = static_cast<uint64_t>(batch.images.nbytes());
  return bytes_of(batch) + (pinned ? static_cast<int64_t>(std::bit_ceil(images) - images) : 0);
}

/// Batches that the reader wants to be made ahead.
int64_t batches_ahead(const proto::InputReader& reader) {
  const int said = reader.num_prefetch_batches();
  return said >= 0 ? std::max(1, said) : proto::InputReader::default_instance().num_prefetch_batches();
}

/// How many batches to make ahead: as many as are wanted and fit, beside the pictures that are kept. The start says
/// what they take.
int64_t planned_batches(int64_t wanted, int64_t batch, const config::ConfigNode<proto::InputReader>& reader,
                        const std::string& name, int64_t cache_bytes) {
  const auto mib = [](int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
  const int64_t limit = static_cast<int64_t>(reader->max_host_memory_mb()) << 20;
  const int64_t planned = limit > 0 ? std::clamp<int64_t>(limit / batch - 1, 1, wanted) : wanted;
  const int64_t needed = batch * (planned + 1), available = available_bytes();  // one is in use
  if (available > 0 && needed > available)
    reader.fail("num_prefetch_batches",
                fmt::format("{} batches of {} MiB do not fit into the {} MiB of memory that are "
                            "free; lower it or batch_size, or set max_host_memory_mb",
                            planned + 1, mib(batch), mib(available)));
  if (available > 0 && needed + cache_bytes > available)
    reader.fail("cache_mb",
                fmt::format("{} MiB of pictures do not fit into the {} MiB of memory that are free, beside {} "
                            "batches of {} MiB",
                            mib(cache_bytes), mib(available), planned + 1, mib(batch)));
  SPDLOG_INFO("{}: up to {} batches of {} MiB in memory", name, planned + 1, mib(batch));
  return planned;
}

}  // namespace

void check_source(const config::ConfigNode<proto::InputReader>& reader, const SourceOptions& options) {
  TORCH_CHECK(options.resizer, "a source needs a resizer");
  TORCH_CHECK(options.batch_size > 0, "batch size must be > 0");
  if (reader->has_custom() && pictures_of(options) > 1)
    reader.fail("custom",
                "gives one example at a time, and data_augmentation_options has a step that takes several "
                "(random_mosaic, random_mix_up): leave it out, or read records or annotations");
  if (reader->has_custom()) return;
  if (reader->sample_1_of_n_examples() < 1) reader.fail("sample_1_of_n_examples", "must be >= 1");
  if (reader->num_prefetch_batches() < -1) reader.fail("num_prefetch_batches", "must be >= -1");
  if (reader->max_number_of_boxes() < 0) reader.fail("max_number_of_boxes", "must be >= 0");
  if (const float threshold = reader->repeat_factor_threshold(); !(threshold >= 0 && threshold <= 1))
    reader.fail("repeat_factor_threshold", fmt::format("must be in 0..1, got {}", threshold));
  if (reader->repeat_factor_threshold() > 0 && !options.training)
    reader.fail("repeat_factor_threshold", "is for training: an evaluation sees every record once");
  check_weights(reader, options.training);
  if (reader->has_external_input_reader()) reader.unsupported("external_input_reader");
  if (reader->has_annotation_input_reader()) {
    const proto::AnnotationInputReader& annotations = reader->annotation_input_reader();
    if (!annotations.has_format())
      reader.fail("annotation_input_reader.format", "must be set: VOC, COCO, YOLO, CSV, CVAT, KITTI or FOLDERS");
    if (annotations.input().empty()) reader.fail("annotation_input_reader.input", "must name the annotations");
  } else if (!reader->has_tf_record_input_reader()) {
    reader.fail("tf_record_input_reader", "must be set, or annotation_input_reader");
  } else if (reader->tf_record_input_reader().input_path().empty()) {
    reader.fail("tf_record_input_reader.input_path", "must name at least one file");
  }
  if (reader->decode_reduced() && reader->load_instance_masks())
    reader.fail("decode_reduced", "does not go with load_instance_masks: masks are of whole pictures");
  if (options.multi_label && (reader->load_instance_masks() || reader->num_keypoints() > 0))
    throw ConfigError("merge_multiple_label_boxes: Multi-label support is only for boxes.");
}

std::unique_ptr<RecordSource> make_source(const config::ConfigNode<proto::InputReader>& reader,
                                          const SourceOptions& options) {
  check_source(reader, options);
  if (reader->has_custom()) return RecordSource::Registry::instance().build(reader, "input_reader", options);
  auto label_map = label_map_of(reader, options.num_classes);
  const std::string name = reader.path().empty() ? "input reader" : reader.path();
  LoaderParts parts;
  parts.index = open_examples(reader, label_map);
  DecoderOptions decoding = decoder_options(reader, options.num_classes);
  if (reader->decode_reduced()) decoding.reduce_for = options.resizer;
  parts.decoder = std::make_unique<ExampleDecoder>(decoding, label_map);
  parts.options = options;
  parts.reader = name;
  if (reader->has_tf_record_input_reader())
    if (const std::string unread = unread_shards(input_files(*reader, name)); !unread.empty())
      SPDLOG_WARN("{}: {}", name, unread);
  const LabelCensus census =
      check_labels(*parts.index, {.reader = name, .num_classes = options.num_classes, .label_map = label_map.get()});
  const std::vector<std::string> problems = parts.index->problems();
  for (const std::string& line : problems)
    if (census.objects_of_id.empty() && line.find(kForeignObjects) != std::string::npos)
      reader.fail("label_map_path", "has none of the classes of the annotations: " + line);
  parts.problems.tell(name, problems);
  parts.order = {parts.index->size(), static_cast<int64_t>(reader->sample_1_of_n_examples()), reader->shuffle(),
                 options.seed};
  if (reader->repeat_factor_threshold() > 0)
    repeat_rare_classes(parts, label_map.get(), reader->repeat_factor_threshold());
  if (reader->sample_from_datasets_weights_size() > 0) {
    parts.order.data_sets = data_set_shares(*parts.index, reader, parts.order.keep_1_of);
    tell_shares(parts, *reader);
  }
  if (!options.training) parts.options.augmenter = nullptr;

  BatchShape& shape = parts.shape;
  shape = shape_of(parts.options);
  if (shape.max_boxes == 0) shape.max_boxes = rows_for_all_boxes(*parts.index, pictures_of(options), name);
  if (shape.num_classes == 0 && label_map) shape.num_classes = label_map->max_id();
  shape.pin_memory = options.pin_memory;

  const bool skip = reader->corrupt_image_policy() == proto::InputReader::SKIP;
  parts.fail_on_bad = !skip || (!options.training && !options.skip_bad && !reader->has_corrupt_image_policy());
  // The evaluations of a training are opened before its first step, and what would end them is said then.
  if (parts.fail_on_bad && !options.training && reader->sample_1_of_n_examples() == 1 && !census.first_unusable.empty())
    fail_evaluation(census.first_unusable, name);
  if (!options.training) {
    parts.num_examples_in_run = parts.order.size();
  } else if (reader->num_epochs() > 0) {
    parts.num_examples_in_run = parts.order.size() * static_cast<int64_t>(reader->num_epochs());
    parts.drop_remainder = reader->drop_remainder() || options.num_shares > 1;  // every share has all its rows
  }
  parts.cache_bytes = static_cast<int64_t>(reader->cache_mb()) << 20;
  const int64_t wanted =
      options.num_workers > 0 ? options.num_workers : std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t ahead = options.prefetch_batches > 0 ? options.prefetch_batches : batches_ahead(*reader);
  const int64_t planned = planned_batches(ahead, host_bytes(shape, options.resizer), reader, name, parts.cache_bytes);
  const int64_t rows = (planned + 1) * options.batch_size;  // that may be made at a time
  return start_loader(std::move(parts), std::min(wanted, rows), planned);
}

}  // namespace osprey::data
