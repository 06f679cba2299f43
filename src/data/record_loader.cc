#include "data/record_loader.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "data/example_cache.h"
#include "data/prefetcher.h"
#include "data/single_threaded.h"
#include "osprey/base/error.h"

namespace osprey::data {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time until it is destroyed to a counter of nanoseconds, or takes it away.
class Timed {
 public:
  explicit Timed(std::atomic<int64_t>& total, int64_t sign = 1) : total_(total), sign_(sign), begin_(Clock::now()) {}
  ~Timed() { total_ += sign_ * std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count(); }

 private:
  std::atomic<int64_t>& total_;
  int64_t sign_;
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
  Collation collation;
  std::vector<RowReport> rows;
  std::unique_ptr<std::atomic<int64_t>> missing;  // rows that are not made
  Batch batch;                                    // when all are
};

class Loader final : public RecordSource {
 public:
  Loader(LoaderParts parts, int64_t num_threads, int64_t ahead)
      : parts_(std::move(parts)), cache_(parts_.cache_bytes), prefetcher_(work(), num_batches(), num_threads, ahead) {}
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
      const int64_t rows = rows_of(index);
      return Loaded{Collation(parts_.shape, parts_.options.resizer), std::vector<RowReport>(static_cast<size_t>(rows)),
                    std::make_unique<std::atomic<int64_t>>(rows), Batch()};
    };
    work.num_rows = [this](int64_t index) { return rows_of(index); };
    work.fill = [this](Loaded& loaded, int64_t index, int64_t row) {
      fill(loaded, index, row);
      if (--*loaded.missing > 0) return;
      Timed timed(collate_);
      loaded.batch = loaded.collation.finish();
    };
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

  // Fills a row with the example at its place in the run.
  void fill(Loaded& loaded, int64_t batch, int64_t row) {
    const int64_t running = parts_.options.first_of(batch) + row;
    const EpochOrder::Place place = parts_.order.place(running);
    RowReport& report = loaded.rows[row];
    std::optional<Drawn> drawn = usable_example(place, report);
    if (!drawn) return;
    Example& example = drawn->example;
    if (parts_.options.augmenter) {
      const auto others = [&](RandomDraws& draws) {
        Timed meanwhile(augment_, -1);
        return usable_example({place.epoch, draws.integer(0, parts_.order.size())}, report)->example;
      };
      Timed timed(augment_);
      parts_.options.augmenter->apply(
          example, {parts_.options.seed, place.epoch, static_cast<uint64_t>(drawn->draw), 0}, others);
    }
    Timed timed(collate_);
    report.id = example.id;
    report.boxes = static_cast<int64_t>(example.boxes.size());
    report.dropped = loaded.collation.put(row, example, running);
  }

  struct Drawn {
    int64_t draw;
    Example example;
  };
  // The example at a place of an epoch's order; training steps on over unusable records, evaluation has none then.
  std::optional<Drawn> usable_example(EpochOrder::Place place, RowReport& report) {
    for (int64_t tries = 0; tries < parts_.order.size(); ++tries) {
      const int64_t draw = parts_.order.draw(place), record = parts_.order.record_of(draw);
      try {
        return Drawn{draw, decoded(record)};
      } catch (const BadRecord& error) {
        if (parts_.fail_on_bad && parts_.options.training) throw;
        if (parts_.fail_on_bad) fail_evaluation(error.what(), parts_.reader);
        report.bad.emplace_back(record, error.what());
      }
      if (!parts_.options.training) return std::nullopt;
      place.index = (place.index + 1) % parts_.order.size();
    }
    throw DataError(fmt::format("{}: none of {} records can be used; the first: {}", parts_.reader, parts_.order.size(),
                                report.bad.front().second));
  }

  Example decoded(int64_t record) {
    if (std::optional<Example> known = cache_.find(record)) return *std::move(known);
    std::string bytes;
    {
      Timed timed(read_);
      bytes = parts_.index->read(record);
    }
    Timed timed(decode_);
    Example example = parts_.decoder->decode(bytes, parts_.index->origin(record), read_report_);
    drop_unusable_objects(example);
    cache_.keep(record, example);
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
    parts_.problems.tell(parts_.reader, parts_.index->problems());
    for (const std::string& line : read_report_.lines()) SPDLOG_WARN("{}: {}", parts_.reader, line);
  }

  LoaderParts parts_;
  ExampleCache cache_;
  ReadReport read_report_;
  std::atomic<int64_t> read_{0}, decode_{0}, augment_{0}, collate_{0}, wait_{0};
  std::set<int64_t> bad_;
  static constexpr int64_t kToldBad = 5;  ///< unusable records that are named in an epoch
  int64_t dropped_boxes_ = 0, epoch_ = 0, epoch_dropped_ = 0, epoch_cut_images_ = 0, epoch_bad_ = 0;
  RowReport worst_;
  bool told_report_ = false;
  Prefetcher<Loaded> prefetcher_;  // last: its threads use everything above
};

}  // namespace

std::unique_ptr<RecordSource> start_loader(LoaderParts parts, int64_t num_threads, int64_t ahead) {
  return std::make_unique<Loader>(std::move(parts), num_threads, ahead);
}

void fail_evaluation(const std::string& error, const std::string& reader) {
  throw DataError(fmt::format("{}; {}.corrupt_image_policy: SKIP leaves such records out", error, reader));
}

}  // namespace osprey::data
