#include "osprey/train/dataset_check.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>

#include "eval/parallel.h"
#include "osprey/base/clock.h"
#include "osprey/config/registry.h"
#include "osprey/config/resolve.h"
#include "osprey/config/validate.h"
#include "osprey/data/image_resizer.h"
#include "osprey/data/input_paths.h"
#include "osprey/data/record_index.h"
#include "osprey/train/class_check.h"
#include "train/anchor_reach.h"
#include "train/dataset_verdict.h"

namespace osprey::train {
namespace {
using Effect = data::RecordProblem::Effect;
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

/// Goes through the records of one reader.
class ReaderPass {
 public:
  ReaderPass(const Root& root, const Reader& reader, const data::ImageResizer& resizer, const AnchorReach* anchors,
             const DatasetCheckOptions& options)
      : root_(root), reader_(reader), resizer_(resizer), anchors_(anchors), options_(options) {
    result_.reader = reader.path();
    result_.max_boxes = config::max_number_of_boxes(*root, *reader);
    if (anchors != nullptr) result_.matched_threshold = anchors->threshold();
    if (reader->has_custom()) reader.fail("custom", "is a reader of another program: only record files can be checked");
    const auto& paths = reader->tf_record_input_reader().input_path();
    if (paths.empty()) reader.fail("tf_record_input_reader.input_path", "must name at least one file");
    std::optional<config::LabelMap> map = label_map_of(*reader);
    const int64_t classes = config::num_classes(*root);
    if (map && classes > 0)
      check_classes(
          {{"config", classes, "num_classes of the model"}, {"label map", map->max_id(), reader->label_map_path()}});
    if (map) label_map_ = std::make_shared<const config::LabelMap>(*map);
    for (const std::string& name : class_names(map, map ? map->max_id() : classes))
      result_.classes.push_back({name, 0, 0});
    checker_ = std::make_unique<data::RecordChecker>(reader, classes, label_map_);
  }

  ReaderCheck run() {
    const auto& paths = reader_->tf_record_input_reader().input_path();
    try {
      result_.files = data::expand_input_paths({paths.begin(), paths.end()}, result_.reader);
      if (const std::string unread = data::unread_shards(result_.files); !unread.empty())
        result_.warnings.push_back(unread);
      for (const std::string& file : result_.files) read(file);
    } catch (const DataError& error) {
      result_.stops.emplace_back(error.what());
    }
    judge(result_, *reader_, *root_, label_map_.get());
    return std::move(result_);
  }

 private:
  void read(const std::string& file) {
    if (is_empty(file)) return;
    const size_t before = result_.problems.size();
    std::optional<data::RecordIndex> index;
    try {
      index.emplace(std::vector{file}, result_.reader);
    } catch (const DataError&) {
      read_up_to_the_damage(file);
    }
    if (index) {
      result_.records += index->size();
      eval::parallel_for(index->size(), options_.num_workers, [&](int64_t record) {
        const data::RecordOrigin origin = index->origin(record);
        try {
          look_at(index->read(record), origin);
        } catch (const DataError& error) {
          add_unreadable(origin, error);
        }
      });
    }
    std::stable_sort(result_.problems.begin() + static_cast<std::ptrdiff_t>(before), result_.problems.end(),
                     [](const auto& a, const auto& b) { return a.origin.record < b.origin.record; });
  }

  void read_up_to_the_damage(const std::string& file) {
    data::RecordOrigin next{file, 0, 0};
    try {
      data::RecordReader records(file);
      for (std::string record; records.next(record);) {
        look_at(record, records.origin());
        ++result_.records;
        constexpr int64_t kFrame = 16;  // bytes around a record
        next = {file, next.record + 1, records.origin().offset + kFrame + static_cast<int64_t>(record.size())};
      }
    } catch (const DataError& error) {
      add_unreadable(next, error);
    }
  }

  void add_unreadable(const data::RecordOrigin& origin, const DataError& error) {
    const std::lock_guard lock(mutex_);
    result_.problems.push_back({kUnreadable, Effect::kEndsRun, origin, "", -1, {}, error.what()});
  }

  void look_at(const std::string& record, const data::RecordOrigin& origin) {
    data::CheckedRecord checked = checker_->check(record, origin);
    BoxSizes sizes;
    if (checked.example) sizes = sizes_of(*checked.example);
    const std::lock_guard lock(mutex_);
    ++looked_at_;
    for (const std::string& name : checked.unknown_classes) ++result_.unknown_classes[name];
    if (checked.example) add(*checked.example, checked, origin, sizes);
    std::ranges::move(checked.problems, std::back_inserter(result_.problems));
    if (const double time = now(); time - told_ > 10) {
      told_ = time;
      SPDLOG_INFO("{}: {} records looked at", result_.reader, looked_at_);
    }
  }

  BoxSizes sizes_of(const Example& example) const {
    const data::ImageSize picture{example.original_height, example.original_width};
    const data::ImageSize content = resizer_.content_size(picture), canvas = resizer_.canvas_size(picture);
    const auto height = static_cast<float>(content.height), width = static_cast<float>(content.width);
    const float y = height / static_cast<float>(canvas.height), x = width / static_cast<float>(canvas.width);
    BoxSizes sizes;
    for (const Box& box : example.boxes) {
      const float side = std::max(box.height() * height, box.width() * width);
      const auto bucket = static_cast<size_t>(
          std::ranges::find_if(BoxSizes::kBelow, [&](int limit) { return side < static_cast<float>(limit); }) -
          BoxSizes::kBelow.begin());
      ++sizes.boxes[bucket];
      if (anchors_ != nullptr && anchors_->reaches({box.ymin * y, box.xmin * x, box.ymax * y, box.xmax * x}))
        ++sizes.reached[bucket];
    }
    return sizes;
  }

  void add(const Example& example, const data::CheckedRecord& checked, const data::RecordOrigin& origin,
           const BoxSizes& sizes) {
    const auto boxes = static_cast<int64_t>(example.boxes.size());
    ++result_.pictures;
    result_.boxes += boxes;
    if (boxes == 0) ++result_.pictures_without_boxes;
    if (result_.max_boxes > 0 && boxes > result_.max_boxes) {
      ++result_.crowded_pictures;
      result_.boxes_beyond_max += boxes - result_.max_boxes;
    }
    std::set<int64_t> seen;
    for (const int64_t index : example.classes) {
      for (auto id = static_cast<int64_t>(result_.classes.size()) + 1; id <= index + 1; ++id)
        result_.classes.push_back({std::to_string(id), 0, 0});
      ReaderCheck::Class& tally = result_.classes[static_cast<size_t>(index)];
      ++tally.boxes;
      if (seen.insert(index).second) ++tally.pictures;
    }
    ++result_.size_count[{example.original_height, example.original_width}];
    for (size_t i = 0; i < sizes.boxes.size(); ++i) {
      result_.box_sizes.boxes[i] += sizes.boxes[i];
      result_.box_sizes.reached[i] += sizes.reached[i];
    }
    const ReaderCheck::Picture picture{origin, checked.picture, static_cast<int64_t>(checked.problems.size()), boxes};
    const ReaderCheck::Picture &most = result_.most_boxes, crowd{origin, checked.picture, 0, boxes};
    if (most.boxes < boxes || (most.boxes == boxes && boxes > 0 && worse(crowd, most))) result_.most_boxes = crowd;
    auto& worst = result_.worst;
    worst.insert(std::ranges::upper_bound(worst, picture, worse), picture);
    if (worst.size() > static_cast<size_t>(options_.num_pictures)) worst.pop_back();
  }

  const Root& root_;
  const Reader& reader_;
  const data::ImageResizer& resizer_;
  const AnchorReach* anchors_;
  const DatasetCheckOptions& options_;
  std::shared_ptr<const config::LabelMap> label_map_;
  std::unique_ptr<data::RecordChecker> checker_;
  std::mutex mutex_;  // of result_ while several threads read
  ReaderCheck result_;
  int64_t looked_at_ = 0;  // records so far
  double told_ = now();
};

}  // namespace

bool DatasetCheck::would_stop() const {
  return std::ranges::any_of(readers, [](const ReaderCheck& reader) { return !reader.stops.empty(); });
}

DatasetCheck check_dataset(const config::Pipeline& pipeline, const DatasetCheckOptions& options) {
  config::require_configured_paths(pipeline, {"train_input_reader", "eval_input_reader"});
  config::validate(pipeline);
  const Root root = pipeline.root();
  const std::optional<config::Node> meta_architecture = config::chosen(root.child("model", root->model()), "model");
  if (!meta_architecture) root.fail("model", "no model is chosen");
  const auto resizer = data::build_image_resizer_of(*meta_architecture);
  const std::optional<AnchorReach> anchors = anchor_reach_of(root);
  std::vector<Reader> readers{root.child("train_input_reader", root->train_input_reader())};
  for (int i = 0; i < root->eval_input_reader_size(); ++i)
    readers.push_back(root.child("eval_input_reader", i, root->eval_input_reader(i)));
  DatasetCheck result;
  for (const Reader& reader : readers)
    result.readers.push_back(ReaderPass(root, reader, *resizer, anchors ? &*anchors : nullptr, options).run());
  return result;
}

}  // namespace osprey::train
