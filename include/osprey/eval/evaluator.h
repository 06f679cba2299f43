#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osprey/boxes/tiles.h"
#include "osprey/config/node.h"
#include "osprey/data/batch_source.h"
#include "osprey/data/collate.h"
#include "osprey/eval/at_iou_50.h"
#include "osprey/eval/gallery.h"
#include "osprey/eval/metrics.h"
#include "osprey/models/detection_model.h"
#include "osprey/protos/eval.pb.h"

namespace osprey::eval {

class EventWriter;

/// How pictures are looked at in tiles.
struct TiledPictures {
  boxes::TileOptions tiles;
  data::BatchShape shape;  ///< of the batches of tiles, as those of pictures would be
  std::shared_ptr<const data::ImageResizer> resizer;
};

/// How an evaluation is done; `evaluation_options` reads it from an `eval_config`.
struct EvaluationOptions {
  std::vector<std::string> metrics_set = {"coco_detection_metrics"};
  MetricsOptions metrics = {};
  int64_t num_visualizations = 10;   ///< pictures: of the first images of the source
  double min_score_threshold = 0.5;  ///< of boxes in pictures
  int64_t max_num_boxes_to_visualize = 20;
  bool skip_scores = false, skip_labels = false;          ///< in pictures
  bool visualize_ground_truth = false;                    ///< draws the ground truth among the detections as well
  std::array<uint8_t, 3> ground_truth_color = {0, 0, 0};  ///< there
  bool compute_loss = true;                               ///< Loss/* on the evaluation data
  bool ignore_ground_truth = false;                       ///< detections only: no metrics, no losses
  std::string detections_file = {};                       ///< the detections are also written here; "" for none
  std::string visualization_dir = {};                     ///< pictures as PNG files as well; "" for none
  bool visualization_by_image_id = false;                 ///< names those files by the image's id
  int64_t gallery_images = 0;  ///< of the worst, and as many of the best; needs coco_detection_metrics
  /// The source gives single pictures of their own size, which the model sees in tiles; there are no losses. None: the
  /// model sees the batches of the source.
  std::optional<TiledPictures> tiled = {};
  /// The source gives single pictures of their own size, at which (or at whose tiles) this looks in the model's place;
  /// there are no losses. None: the model looks.
  boxes::Find find = {};
  c10::Device device = c10::Device(c10::kCPU);
  std::function<void(int64_t done, int64_t total)> progress = {};  ///< called after each batch
  std::function<bool()> should_stop = {};  ///< asked before each batch; true ends the evaluation, see `stopped`
};

/// The options that an `eval_config` asks for.
/// default_metric  the only one where its metrics_set names none
/// throws          ConfigError for values out of range and choices that are not built
EvaluationOptions evaluation_options(const config::ConfigNode<osprey::protos::EvalConfig>& config,
                                     const std::string& default_metric = "coco_detection_metrics");

/// A picture of an evaluation: detections left, ground truth right.
struct EvaluationPicture {
  std::string tag;   ///< eval_side_by_side_<i>_0
  std::string id;    ///< of the image
  at::Tensor image;  ///< [H, 2 W + gap, 3] uint8
};

/// All detections on one image, for result files.
struct ImageResult {
  std::string id;
  ImageDetections found;
};

struct EvaluationResult {
  bool stopped = false;                     ///< `should_stop` ended it early: nothing else here is meant to be used
  std::optional<boxes::TileOptions> tiles;  ///< in which pictures were looked at
  std::vector<MetricValue> metrics;         ///< tags of TensorBoard, Loss/* included
  std::vector<ClassMetrics> per_class;      ///< of the first metric
  std::optional<AtIou50> at_iou_50;         ///< of the first metric that has it: coco_detection_metrics
  int64_t num_images = 0;
  int64_t num_skipped = 0;  ///< records that could not be used
  int64_t num_ground_truth = 0, num_detections = 0;
  std::vector<std::string>
      explanations;  ///< why the main number is 0 or n/a, likeliest cause first; empty where it is neither
  std::vector<EvaluationPicture> pictures;
  std::vector<ImageResult> detections;  ///< in the order of the source
  Gallery gallery;                      ///< empty where none is asked for

  /// The value of a tag; kNotAvailable where there is none.
  double value(const std::string& name) const;
};

/// Runs a detector over a finite source of evaluation batches and measures it. Every image counts once: rows with
/// `image_weights` 0 only fill up the last batch.
///
/// The model is put into evaluation mode and back. No gradients. Moving averages, where wanted, are swapped in by the
/// caller. Boxes are measured in pixels of the original picture (`original_sizes`), whatever the network's size.
/// categories  class c inside has the id c + 1; a class without a category is left out of everything
/// throws      DataError where the number of images evaluated (plus skipped) is not that of the data set
EvaluationResult evaluate(models::DetectionModel& model, data::BatchSource& source,
                          const std::vector<Category>& categories, const EvaluationOptions& options);

/// Processes that evaluate one data set together.
struct EvaluationGroup {
  int64_t share = 0, num_shares = 1;  ///< the source of this one gives the batches share, share + num_shares, ...
  /// What all of them give, by share; only the first needs to get it.
  std::function<std::vector<std::string>(const std::string&)> gather;
  /// The source with all batches, at any position; asked of the first alone, where a gallery is wanted.
  std::function<data::BatchSource&()> whole_source = {};
};

/// `evaluate` by several processes, all of which call this. The first gets what `evaluate` alone would have given, to
/// the last bit, the others nothing. `progress` is told of the own share.
/// Where `should_stop` ends the share of any, the first gets a result that is `stopped`.
/// throws  DataError as `evaluate`, at the first process
std::optional<EvaluationResult> evaluate_share(models::DetectionModel& model, data::BatchSource& source,
                                               const std::vector<Category>& categories,
                                               const EvaluationOptions& options, const EvaluationGroup& group);

/// The result as one JSON object, whose fields docs/evaluation.md describes; null where a value does not exist.
std::string metrics_json(const EvaluationResult& result, int64_t step);

/// The detections in COCO's results format: a list of {image_id, category_id, bbox [x, y, w, h], score}. Ids that are
/// whole numbers are written as numbers.
std::string detections_json(const EvaluationResult& result);

/// `<eval_dir>/metrics_<step>.json`.
std::filesystem::path metrics_file(const std::filesystem::path& eval_dir, int64_t step);

/// Writes `<eval_dir>/metrics_<step>.json`, `<eval_dir>/detections_<step>.json` (both appear whole or not at all), the
/// pictures and the gallery where asked for; to TensorBoard, where `events` is given, scalars, pictures and
/// precision-recall curves: of each class that has objects, and of the counts of all classes together. The metrics come
/// last: where they are, all is.
///
/// throws  DataError where a file cannot be written
void write_evaluation(const EvaluationResult& result, const std::string& eval_dir, int64_t step,
                      const EvaluationOptions& options, EventWriter* events);

}  // namespace osprey::eval
