#include "osprey/train/dataset_check.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <set>

#include "data/epoch_order.h"
#include "eval/parallel.h"
#include "osprey/base/clock.h"
#include "osprey/boxes/builder.h"
#include "osprey/config/registry.h"
#include "osprey/config/resolve.h"
#include "osprey/config/validate.h"
#include "osprey/data/collate.h"
#include "osprey/data/example_index.h"
#include "osprey/data/image_resizer.h"
#include "osprey/data/input_paths.h"
#include "osprey/data/loader.h"
#include "osprey/data/reader_classes.h"
#include "osprey/data/record_index.h"
#include "osprey/data/source_options.h"
#include "osprey/train/class_check.h"
#include "train/anchor_proposal.h"
#include "train/box_measures.h"
#include "train/box_sample.h"
#include "train/dataset_verdict.h"

namespace osprey::train {
namespace {
using Effect = data::RecordProblem::Effect;
using Subject = data::RecordProblem::Subject;
using Reader = config::ConfigNode<proto::InputReader>;
using Root = config::ConfigNode<proto::TrainEvalPipelineConfig>;

/// Whether a record file is sound and has no records. (RecordIndex takes that for an error, as it is for a whole set.)
bool is_empty(const std::string& file) {
  try {
    std::string record;
    return !data::RecordReader(file).next(record);
  } catch (const DataError&) {
    return false;
  }
}

/// Worse pictures first.
bool worse(const ReaderCheck::Picture& a, const ReaderCheck::Picture& b) {
  if (a.problems != b.problems) return a.problems > b.problems;
  if (a.boxes != b.boxes) return a.boxes > b.boxes;
  return std::pair(a.origin.file, a.origin.record) < std::pair(b.origin.file, b.origin.record);
}

constexpr size_t kSample = 4096;  ///< boxes for the search of anchors: shares of them are right to one or two percent

/// Goes through the records of one reader.
class ReaderPass {
 public:
  ReaderPass(Reader reader, data::SourceOptions source, const AnchorReach* anchors, const DatasetCheckOptions& options)
      : reader_(std::move(reader)), source_(std::move(source)), anchors_(anchors), options_(options) {
    result_.reader = reader_.path();
    result_.max_boxes = source_.max_boxes;
    if (anchors != nullptr) result_.matched_threshold = anchors->threshold();
    data::check_source(reader_, source_);
    if (reader_->has_custom()) return;
    const std::optional<config::LabelMap> map = config::label_map_of(*reader_);
    if (map) {
      check_classes({{"config", source_.num_classes, "num_classes of the model"},
                     {"label map", map->max_id(), place_of_classes(*reader_)}});
      label_map_ = std::make_shared<const config::LabelMap>(*map);
    }
    for (const std::string& name : class_names(map, source_.num_classes)) result_.classes.push_back({name, 0, 0});
    order_.keep_1_of = reader_->sample_1_of_n_examples();
    checker_ = std::make_unique<data::RecordChecker>(reader_, source_.num_classes, label_map_);
  }

  ReaderCheck run() {
    if (reader_->has_custom()) {
      result_.warnings.emplace_back("its records are not looked at, for it is a reader of another program");
      return std::move(result_);
    }
    try {
      result_.files = data::input_files(*reader_, result_.reader);
      if (reader_->has_annotation_input_reader()) {
        read_annotations();
      } else {
        if (const std::string unread = data::unread_shards(result_.files); !unread.empty())
          result_.warnings.push_back(unread);
        for (const std::string& file : result_.files) read(file);
      }
    } catch (const DataError& error) {
      result_.stops.emplace_back(error.what());
    }
    judge(result_, *reader_, source_, label_map_.get());
    return std::move(result_);
  }

  std::vector<Box> some_boxes() const { return sample_.boxes(); }

 private:
  void read(const std::string& file) {
    if (is_empty(file)) return;
    const size_t before = result_.problems.size();
    std::optional<data::RecordIndex> index;
    try {
      index.emplace(std::vector{file}, result_.reader);
    } catch (const DataError& error) {
      if (!read_up_to_the_damage(file)) add_unreadable({file, 0, 0}, error);  // such as one too large to be unpacked
    }
    if (index) read(*index);
    sort_problems(before);
  }

  void read_annotations() {
    const std::unique_ptr<data::ExampleIndex> examples = data::open_examples(reader_, label_map_);
    read(*examples);
    sort_problems(0);
    std::ranges::move(examples->problems(), std::back_inserter(result_.warnings));
  }

  void read(const data::ExampleIndex& examples) {
    const int64_t first = result_.records;
    result_.records += examples.size();
    eval::parallel_for(examples.size(), options_.num_workers, [&](int64_t record) {
      const data::RecordOrigin origin = examples.origin(record);
      try {
        look_at(examples.read(record), origin, first + record);
      } catch (const data::BadRecord& error) {
        add(data::RecordChecker::unusable(error, origin), origin, first + record);
      } catch (const DataError& error) {
        add_unreadable(origin, error);
      }
    });
  }

  /// From one on they come from several threads.
  void sort_problems(size_t first) {
    std::stable_sort(result_.problems.begin() + static_cast<std::ptrdiff_t>(first), result_.problems.end(),
                     [](const auto& a, const auto& b) { return a.origin.record < b.origin.record; });
  }

  /// False where no damage was come upon.
  bool read_up_to_the_damage(const std::string& file) {
    data::RecordOrigin next{file, 0, 0};
    try {
      data::RecordReader records(file);
      for (std::string record; records.next(record);) {
        look_at(record, records.origin(), result_.records);
        ++result_.records;
        constexpr int64_t kFrame = 16;  // bytes around a record
        next = {file, next.record + 1, records.origin().offset + kFrame + static_cast<int64_t>(record.size())};
      }
      return false;
    } catch (const DataError& error) {
      add_unreadable(next, error);
      return true;
    }
  }

  void add_unreadable(const data::RecordOrigin& origin, const DataError& error) {
    const std::lock_guard lock(mutex_);
    result_.problems.push_back({.subject = Subject::kFile,
                                .kind = "file is damaged or cannot be read",
                                .effect = Effect::kEndsRun,
                                .origin = origin,
                                .picture = "",
                                .values = {},
                                .reason = data::reason_of(error, origin)});
  }

  /// number  of the record, in all files of the reader
  void look_at(const std::string& record, const data::RecordOrigin& origin, int64_t number) {
    add(checker_->check(record, origin), origin, number);
  }

  void add(data::CheckedRecord checked, const data::RecordOrigin& origin, int64_t number) {
    BoxMeasures measures;
    int64_t rows = 0;
    if (checked.example) {
      measures = measure_boxes(*checked.example, *source_.resizer, anchors_);
      rows = rows_of(*checked.example);
    }
    const std::lock_guard lock(mutex_);
    ++looked_at_;
    for (const std::string& name : checked.unknown_classes) ++result_.unknown_classes[name];
    if (checked.example) add(*checked.example, checked, origin, measures, number);
    if (order_.yields(number)) add_read(checked, rows);
    std::ranges::move(checked.problems, std::back_inserter(result_.problems));
    if (const double time = now(); time - told_ > 10) {
      told_ = time;
      SPDLOG_INFO("{}: {} records looked at", result_.reader, looked_at_);
    }
  }

  /// What a run meets.
  void add_read(const data::CheckedRecord& checked, int64_t rows) {
    ++result_.records_read;
    for (const data::RecordProblem& problem : checked.problems) {
      if (problem.effect == Effect::kRecordLeftOut) ++result_.unusable_records;
      if (problem.effect == Effect::kEndsRun && problem.subject == Subject::kBox) ++result_.invalid_boxes;
    }
    if (result_.max_boxes == 0 || rows <= result_.max_boxes) return;
    ++result_.crowded_pictures;
    result_.boxes_beyond_max += rows - result_.max_boxes;
  }

  /// Rows of boxes in a batch.
  int64_t rows_of(const Example& example) const {
    if (!source_.multi_label) return static_cast<int64_t>(example.boxes.size());
    const data::ImageSize picture{example.original_height, example.original_width};
    const data::ImageResizer& resizer = *source_.resizer;
    return static_cast<int64_t>(
        data::merge_boxes(example, resizer.content_size(picture), resizer.canvas_size(picture)).first.size());
  }

  void add(const Example& example, const data::CheckedRecord& checked, const data::RecordOrigin& origin,
           const BoxMeasures& measures, int64_t number) {
    const auto boxes = static_cast<int64_t>(example.boxes.size());
    ++result_.pictures;
    result_.boxes += boxes;
    if (boxes == 0) ++result_.pictures_without_boxes;
    std::set<int64_t> seen;
    for (size_t i = 0; i < example.classes.size(); ++i) {
      const int64_t index = example.classes[i];
      if (example.weights[i] == 0) {
        ++result_.weightless_boxes;
        continue;
      }
      ReaderCheck::Class& tally = result_.classes[static_cast<size_t>(index)];
      ++tally.boxes;
      if (seen.insert(index).second) ++tally.pictures;
    }
    ++result_.size_count[{example.original_height, example.original_width}];
    add_counts(result_.box_sizes, measures.sizes);
    add_counts(result_.box_shapes, measures.shapes);
    for (size_t i = 0; i < measures.placed.size(); ++i)
      sample_.add(number, static_cast<int64_t>(i), measures.placed[i]);
    const ReaderCheck::Picture picture{origin, checked.picture, static_cast<int64_t>(checked.problems.size()), boxes};
    const ReaderCheck::Picture &most = result_.most_boxes, crowd{origin, checked.picture, 0, boxes};
    if (most.boxes < boxes || (most.boxes == boxes && boxes > 0 && worse(crowd, most))) result_.most_boxes = crowd;
    auto& worst = result_.worst;
    worst.insert(std::ranges::upper_bound(worst, picture, worse), picture);
    if (worst.size() > static_cast<size_t>(options_.num_pictures)) worst.pop_back();
  }

  Reader reader_;
  data::SourceOptions source_;
  const AnchorReach* anchors_;
  const DatasetCheckOptions& options_;
  data::EpochOrder order_;
  std::shared_ptr<const config::LabelMap> label_map_;
  std::unique_ptr<data::RecordChecker> checker_;
  std::mutex mutex_;  // of result_ while several threads read
  ReaderCheck result_;
  BoxSample sample_{kSample};
  int64_t looked_at_ = 0;  // records so far
  double told_ = now();
};

}  // namespace

bool DatasetCheck::would_stop() const {
  return std::ranges::any_of(readers, [](const ReaderCheck& reader) { return !reader.stops.empty(); });
}

DatasetCheck check_dataset(config::Pipeline& pipeline, const DatasetCheckOptions& options) {
  config::require_configured_paths(pipeline, {"train_input_reader", "eval_input_reader"});
  config::validate(pipeline);
  const Root root = pipeline.root();
  const std::optional<config::Node> meta_architecture = config::chosen(root.child("model", root->model()), "model");
  if (!meta_architecture) root.fail("model", "no model is chosen");
  data::derive_classes(pipeline);
  const bool finds_boxes = !root->model().has_image_classifier();
  const int64_t least_classes = finds_boxes ? 1 : 2;  // else there is nothing to tell apart
  if (config::num_classes(*root) < least_classes)
    meta_architecture->fail(
        "num_classes", fmt::format("must be >= {}; without it, a label map of a reader has to say it", least_classes));
  const std::optional<AnchorPlaces> places = anchor_places_of(root);
  const proto::AnchorGenerator& generator = root->model().ssd().anchor_generator();
  const config::ConfigNode<proto::AnchorGenerator> anchors{generator, "model.ssd.anchor_generator", root.sources()};
  std::optional<AnchorReach> reach;
  if (places) reach = anchor_reach_of(*boxes::build_anchor_generator(anchors), *places);
  std::list<ReaderPass> passes;  // all before the first is run: what is wrong with the config is said soon
  passes.emplace_back(root.child("train_input_reader", root->train_input_reader()), data::train_options(root),
                      reach ? &*reach : nullptr, options);
  for (int i = 0; i < root->eval_input_reader_size(); ++i)
    passes.emplace_back(root.child("eval_input_reader", i, root->eval_input_reader(i)), data::eval_options(root, i),
                        reach ? &*reach : nullptr, options);
  DatasetCheck result{.finds_boxes = finds_boxes};
  for (ReaderPass& pass : passes) result.readers.push_back(pass.run());
  if (places) result.anchors = search_anchors(anchors, *places, passes.front().some_boxes());
  return result;
}

}  // namespace osprey::train
