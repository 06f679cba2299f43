#include "osprey/data/loader.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "data/epoch_order.h"
#include "data/prefetcher.h"
#include "data/single_threaded.h"
#include "osprey/base/memory.h"
#include "osprey/config/label_map.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/input_paths.h"
#include "osprey/data/label_check.h"
#include "osprey/data/record_index.h"
#include "osprey/records/example.pb.h"

namespace osprey::data {
namespace {
using Clock = std::chrono::steady_clock;

// Adds the time until it is destroyed to a counter of nanoseconds.
class Timed {
 public:
  explicit Timed(std::atomic<int64_t>& total) : total_(total), begin_(Clock::now()) {}
  ~Timed() { total_ += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count(); }

 private:
  std::atomic<int64_t>& total_;
  Clock::time_point begin_;
};

double seconds(const std::atomic<int64_t>& nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

// What a row met; told to the user when its batch is handed out, so that it does not depend on the threads.
struct RowReport {
  std::vector<std::pair<int64_t, std::string>> bad;  // record, message
  int64_t boxes = 0, dropped = 0;
  std::string id;
};
struct Loaded {
  Batch batch;
  std::vector<RowReport> rows;
};

struct Parts {
  RecordIndex index;
  std::unique_ptr<ExampleDecoder> decoder;
  EpochOrder order;
  BatchShape shape;
  SourceOptions options;
  std::string reader;  // how messages call it
  bool fail_on_bad = false;
  std::optional<int64_t> num_examples_in_run;
  bool drop_remainder = false;
};

class Loader final : public RecordSource {
 public:
  Loader(Parts parts, int64_t num_threads, int64_t ahead)
      : parts_(std::move(parts)), prefetcher_(work(), num_batches(), num_threads, ahead) {}
  ~Loader() override {  // a run may be shorter than an epoch
    if (std::uncaught_exceptions() > 0) return;
    try {
      tell_report();
    } catch (const std::bad_alloc&) {  // then it is not told
    }
  }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  std::optional<Batch> next() override {
    std::optional<Loaded> loaded;
    {
      Timed timed(wait_);
      loaded = prefetcher_.next();
    }
    if (!loaded) {
      end_epoch();
      return std::nullopt;
    }
    tell(*loaded);
    return std::move(loaded->batch);
  }
  void seek(int64_t index) override {
    prefetcher_.seek(index);
    epoch_ = epoch_at(index);
  }
  int64_t position() const override { return prefetcher_.position(); }
  int64_t num_examples() const override { return parts_.order.size(); }
  int64_t num_skipped() const override { return static_cast<int64_t>(bad_.size()); }
  int64_t num_dropped_boxes() const override { return dropped_boxes_; }
  StageSeconds stage_seconds() const override {
    return {seconds(read_), seconds(decode_), seconds(augment_), seconds(collate_), seconds(wait_)};
  }

 private:
  Prefetcher<Loaded>::Work work() {
    Prefetcher<Loaded>::Work work;
    work.begin = [this](int64_t index) {
      return Loaded{empty_batch(parts_.shape), std::vector<RowReport>(static_cast<size_t>(rows_of(index)))};
    };
    work.num_rows = [this](int64_t index) { return rows_of(index); };
    work.fill = [this](Loaded& loaded, int64_t index, int64_t row) { fill(loaded, index, row); };
    work.enter_thread = &use_one_thread;
    return work;
  }

  std::optional<int64_t> num_batches() const {
    if (!parts_.num_examples_in_run) return std::nullopt;
    const int64_t size = parts_.options.whole_batch(), examples = *parts_.num_examples_in_run;
    if (parts_.drop_remainder) return examples / size;
    return std::max<int64_t>((examples - parts_.options.first_of(0) + size - 1) / size, 0);
  }
  int64_t rows_of(int64_t batch) const {
    const int64_t size = parts_.shape.batch_size;
    return parts_.num_examples_in_run ? std::min(size, *parts_.num_examples_in_run - parts_.options.first_of(batch))
                                      : size;
  }

  // Fills a row with the example at its place in the run; training steps on over unusable records.
  void fill(Loaded& loaded, int64_t batch, int64_t row) {
    const int64_t running = parts_.options.first_of(batch) + row;
    EpochOrder::Place place = parts_.order.place(running);
    RowReport& report = loaded.rows[row];
    for (int64_t tries = 0; tries < parts_.order.size(); ++tries) {
      const int64_t record = parts_.order.record(place);
      try {
        Example example = decoded(record);
        {
          Timed timed(augment_);
          if (parts_.options.augmenter)
            parts_.options.augmenter->apply(example,
                                            {parts_.options.seed, place.epoch, static_cast<uint64_t>(record), 0});
        }
        Timed timed(collate_);
        report.id = example.id;
        report.boxes = static_cast<int64_t>(example.boxes.size());
        report.dropped = put(loaded.batch, row, example, running, parts_.shape, *parts_.options.resizer);
        return;
      } catch (const BadRecord& error) {
        if (parts_.fail_on_bad && parts_.options.training) throw;
        if (parts_.fail_on_bad)
          throw DataError(
              fmt::format("{}; {}.corrupt_image_policy: SKIP leaves such records out", error.what(), parts_.reader));
        report.bad.emplace_back(record, error.what());
      }
      if (!parts_.options.training) return;
      place.index = (place.index + 1) % parts_.order.size();
    }
    throw DataError(fmt::format("{}: none of {} records can be used; the first: {}", parts_.reader, parts_.order.size(),
                                report.bad.front().second));
  }

  Example decoded(int64_t record) {
    std::string bytes;
    {
      Timed timed(read_);
      bytes = parts_.index.read(record);
    }
    Timed timed(decode_);
    Example example = parts_.decoder->decode(bytes, parts_.index.origin(record), read_report_);
    drop_unusable_objects(example);
    return example;
  }

  void tell(const Loaded& loaded) {
    for (const RowReport& row : loaded.rows) {
      for (const auto& [record, message] : row.bad) {
        if (!bad_.insert(record).second) continue;
        if (++epoch_bad_ <= kToldBad)
          SPDLOG_WARN("left out: {}{}", message, epoch_bad_ == kToldBad ? " (more are counted, not named)" : "");
        const double share = static_cast<double>(bad_.size()) / static_cast<double>(num_examples());
        if (parts_.options.training && share > parts_.options.max_bad_fraction)
          throw DataError(
              fmt::format("{}: {} of {} records cannot be used, more than max_bad_fraction {:g}; the last: {}",
                          parts_.reader, bad_.size(), num_examples(), parts_.options.max_bad_fraction, message));
      }
      if (row.dropped > 0) tell_dropped(row);
    }
    const int64_t epoch = epoch_at(prefetcher_.position());
    if (epoch != epoch_) end_epoch();
    epoch_ = epoch;
  }

  /// Of the next example where `index` batches have been read.
  int64_t epoch_at(int64_t index) const { return parts_.order.place(index * parts_.options.whole_batch()).epoch; }

  void tell_dropped(const RowReport& row) {
    if (parts_.options.strict)
      throw DataError(fmt::format("{}: image '{}' has {} boxes, max_number_of_boxes is {} (strict)", parts_.reader,
                                  row.id, row.boxes, parts_.shape.max_boxes));
    if (dropped_boxes_ == 0)
      SPDLOG_WARN("{}: image '{}' has {} boxes, max_number_of_boxes is {}: the rest is left out", parts_.reader, row.id,
                  row.boxes, parts_.shape.max_boxes);
    dropped_boxes_ += row.dropped;
    epoch_dropped_ += row.dropped;
    ++epoch_cut_images_;
    if (row.dropped > worst_.dropped) worst_ = row;
  }

  void end_epoch() {
    if (epoch_dropped_ > 0)
      SPDLOG_WARN("{}: {} boxes of {} images left out, for max_number_of_boxes is {}; the worst image '{}' has {}",
                  parts_.reader, epoch_dropped_, epoch_cut_images_, parts_.shape.max_boxes, worst_.id, worst_.boxes);
    if (epoch_bad_ > kToldBad)
      SPDLOG_WARN("{}: and {} more left out, {} in all so far", parts_.reader, epoch_bad_ - kToldBad, bad_.size());
    epoch_dropped_ = epoch_cut_images_ = epoch_bad_ = 0;
    worst_ = {};
    tell_report();
  }

  void tell_report() {
    if (told_report_) return;
    told_report_ = true;
    for (const std::string& line : read_report_.lines()) SPDLOG_WARN("{}: {}", parts_.reader, line);
  }

  Parts parts_;
  ReadReport read_report_;
  std::atomic<int64_t> read_{0}, decode_{0}, augment_{0}, collate_{0}, wait_{0};
  std::set<int64_t> bad_;
  static constexpr int64_t kToldBad = 5;  ///< unusable records that are named in an epoch
  int64_t dropped_boxes_ = 0, epoch_ = 0, epoch_dropped_ = 0, epoch_cut_images_ = 0, epoch_bad_ = 0;
  RowReport worst_;
  bool told_report_ = false;
  Prefetcher<Loaded> prefetcher_;  // last: its threads use everything above
};

// The largest number of boxes in any record, for max_number_of_boxes: 0.
int64_t most_boxes(const RecordIndex& index) {
  size_t most = 1;
  for (int64_t i = 0; i < index.size(); ++i) {
    records::Example example;
    if (!example.ParseFromString(index.read(i))) continue;
    const auto& features = example.features().feature();
    const auto found = features.find("image/object/bbox/ymin");
    if (found != features.end()) most = std::max<size_t>(most, found->second.float_list().value_size());
  }
  return static_cast<int64_t>(most);
}

std::shared_ptr<const config::LabelMap> label_map_of(const config::ConfigNode<proto::InputReader>& reader,
                                                     int64_t num_classes) {
  if (reader->label_map_path().empty()) return nullptr;
  std::error_code ignored;
  if (!std::filesystem::exists(reader->label_map_path(), ignored))
    reader.fail("label_map_path",
                fmt::format("there is no '{}'; --data_dir names the folder in which relative paths lie",
                            reader->label_map_path()));
  auto map = std::make_shared<const config::LabelMap>(config::load_label_map(reader->label_map_path()));
  if (num_classes > 0 && map->max_id() != num_classes)
    reader.fail("label_map_path", fmt::format("'{}' has ids up to {}, num_classes is {}", reader->label_map_path(),
                                              map->max_id(), num_classes));
  return map;
}

/// Bytes of a batch in the memory of the host; pinned memory is given in powers of two.
int64_t host_bytes(BatchShape shape) {
  const bool pinned = std::exchange(shape.pin_memory, false);
  const Batch batch = empty_batch(shape);
  const auto images = static_cast<uint64_t>(batch.images.nbytes());
  return bytes_of(batch) + (pinned ? static_cast<int64_t>(std::bit_ceil(images) - images) : 0);
}

/// Batches that the reader wants to be made ahead.
int64_t batches_ahead(const proto::InputReader& reader) {
  const int said = reader.num_prefetch_batches();
  return said >= 0 ? std::max(1, said) : proto::InputReader::default_instance().num_prefetch_batches();
}

/// How many batches to make ahead: as many as are wanted and fit. The start says what they take.
int64_t planned_batches(int64_t wanted, const BatchShape& shape, const config::ConfigNode<proto::InputReader>& reader,
                        const std::string& name) {
  const auto mib = [](int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
  const int64_t batch = host_bytes(shape), limit = static_cast<int64_t>(reader->max_host_memory_mb()) << 20;
  const int64_t planned = limit > 0 ? std::clamp<int64_t>(limit / batch - 1, 1, wanted) : wanted;
  const int64_t needed = batch * (planned + 1), available = available_bytes();  // one is in use
  if (available > 0 && needed > available)
    reader.fail("num_prefetch_batches",
                fmt::format("{} batches of {} MiB do not fit into the {} MiB of memory that are "
                            "free; lower it or batch_size, or set max_host_memory_mb",
                            planned + 1, mib(batch), mib(available)));
  SPDLOG_INFO("{}: up to {} batches of {} MiB in memory", name, planned + 1, mib(batch));
  return planned;
}
}  // namespace

void check_source(const config::ConfigNode<proto::InputReader>& reader, const SourceOptions& options) {
  TORCH_CHECK(options.resizer, "a source needs a resizer");
  TORCH_CHECK(options.batch_size > 0, "batch size must be > 0");
  if (!options.resizer->static_size())
    reader.fail("",
                "batches need pictures of one size: use fixed_shape_resizer, or keep_aspect_ratio_resizer with "
                "pad_to_max_dimension: true");
  if (reader->has_custom()) return;
  if (reader->sample_1_of_n_examples() < 1) reader.fail("sample_1_of_n_examples", "must be >= 1");
  if (reader->num_prefetch_batches() < -1) reader.fail("num_prefetch_batches", "must be >= -1");
  if (reader->max_number_of_boxes() < 0) reader.fail("max_number_of_boxes", "must be >= 0");
  if (reader->sample_from_datasets_weights_size() > 0) reader.unsupported("sample_from_datasets_weights");
  if (!reader->has_tf_record_input_reader()) {
    if (reader->input_reader_case() == proto::InputReader::INPUT_READER_NOT_SET)
      reader.fail("tf_record_input_reader", "must be set");
    reader.unsupported("external_input_reader");
  }
  if (reader->tf_record_input_reader().input_path().empty())
    reader.fail("tf_record_input_reader.input_path", "must name at least one file");
  if (options.multi_label && (reader->load_instance_masks() || reader->num_keypoints() > 0))
    throw ConfigError("merge_multiple_label_boxes: Multi-label support is only for boxes.");
}

std::unique_ptr<RecordSource> make_source(const config::ConfigNode<proto::InputReader>& reader,
                                          const SourceOptions& options) {
  check_source(reader, options);
  if (reader->has_custom()) return RecordSource::Registry::instance().build(reader, "input_reader", options);
  const auto& paths = reader->tf_record_input_reader().input_path();
  auto label_map = label_map_of(reader, options.num_classes);
  const std::string name = reader.path().empty() ? "input reader" : reader.path();
  Parts parts{RecordIndex({paths.begin(), paths.end()}, name),
              build_example_decoder(reader, options.num_classes, label_map),
              {},
              {},
              options,
              name,
              false,
              {},
              false};
  if (const std::string unread = unread_shards(expand_input_paths({paths.begin(), paths.end()}, name)); !unread.empty())
    SPDLOG_WARN("{}: {}", name, unread);
  check_labels(parts.index, {.reader = name, .num_classes = options.num_classes, .label_map = label_map.get()});
  parts.order = {parts.index.size(), static_cast<int64_t>(reader->sample_1_of_n_examples()), reader->shuffle(),
                 options.seed};
  if (!options.training) parts.options.augmenter = nullptr;

  BatchShape& shape = parts.shape;
  shape = shape_of(parts.options);
  if (shape.max_boxes == 0) shape.max_boxes = most_boxes(parts.index);
  if (shape.num_classes == 0 && label_map) shape.num_classes = label_map->max_id();
  shape.pin_memory = options.pin_memory;

  const bool skip = reader->corrupt_image_policy() == proto::InputReader::SKIP;
  parts.fail_on_bad = !skip || (!options.training && !options.skip_bad && !reader->has_corrupt_image_policy());
  if (!options.training) {
    parts.num_examples_in_run = parts.order.size();
  } else if (reader->num_epochs() > 0) {
    parts.num_examples_in_run = parts.order.size() * static_cast<int64_t>(reader->num_epochs());
    parts.drop_remainder = reader->drop_remainder() || options.num_shares > 1;  // every share has all its rows
  }
  const int64_t wanted =
      options.num_workers > 0 ? options.num_workers : std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t ahead = options.prefetch_batches > 0 ? options.prefetch_batches : batches_ahead(*reader);
  const int64_t planned = planned_batches(ahead, shape, reader, name);
  const int64_t rows = (planned + 1) * options.batch_size;  // that may be made at a time
  return std::make_unique<Loader>(std::move(parts), std::min(wanted, rows), planned);
}

}  // namespace osprey::data
