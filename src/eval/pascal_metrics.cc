#include "osprey/eval/pascal_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "eval/metrics_registry.h"
#include "eval/pascal_match.h"
#include "osprey/base/error.h"

namespace osprey::eval {
namespace {

// Precision and recall after each detection, best first; equal scores in the reverse of their order, as numpy's
// reversed argsort.
struct Curve {
  std::vector<double> precision, recall;
};

Curve precision_recall(const std::vector<ScoredLabel>& labels, double num_objects) {
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return labels[a].score < labels[b].score; });
  std::reverse(order.begin(), order.end());
  Curve curve;
  double found = 0, wrong = 0;
  for (size_t i : order) {
    found += labels[i].worth;
    wrong += labels[i].worth <= 0 ? 1 : 0;
    curve.precision.push_back(found / (found + wrong));
    curve.recall.push_back(found / num_objects);
  }
  return curve;
}

// Area under the interpolated curve, every point counted (VOC 2010).
double average_precision(const Curve& curve) {
  std::vector<double> recall{0}, precision{0};
  recall.insert(recall.end(), curve.recall.begin(), curve.recall.end());
  precision.insert(precision.end(), curve.precision.begin(), curve.precision.end());
  recall.push_back(1);
  precision.push_back(0);
  for (size_t i = precision.size() - 1; i-- > 0;) precision[i] = std::max(precision[i], precision[i + 1]);
  double area = 0;
  for (size_t i = 1; i < recall.size(); ++i)
    if (recall[i] != recall[i - 1]) area += (recall[i] - recall[i - 1]) * precision[i];
  return area;
}

class PascalMetrics final : public DetectionMetrics {
 public:
  PascalMetrics(const std::vector<Category>& categories, const PascalOptions& options)
      : categories_(categories), options_(options) {
    if (options.recall_lower_bound > options.recall_upper_bound)
      throw ConfigError(fmt::format("eval_config.recall_lower_bound: must be <= recall_upper_bound {}, got {}",
                                    options.recall_upper_bound, options.recall_lower_bound));
  }

  void add_image(const std::string& image_id, const ImageGroundTruth& truth, const ImageDetections& found) override {
    check_image(image_id, truth, found);
    std::vector<ClassCell> cells;
    for (const Category& category : categories_) cells.push_back(match_class(truth, found, category.id, options_));
    if (!ids_.insert(image_id).second) throw DataError(fmt::format("image {} was evaluated twice", image_id));
    images_.push_back(std::move(cells));
  }

  std::vector<MetricValue> values() const override {
    const std::string threshold = fmt::format("{:#}", options_.iou_threshold);  // 1.0 too has its point
    std::vector<MetricValue> values(1);
    values[0].name = fmt::format("{}_Precision/mAP@{}IOU", options_.prefix, threshold);
    if (options_.use_recall_bounds && (options_.recall_lower_bound > 0 || options_.recall_upper_bound < 1))
      values[0].name += fmt::format("@[{:.1f},{:.1f}]Recall", options_.recall_lower_bound, options_.recall_upper_bound);
    std::vector<ScoredLabel> pooled;
    double objects = 0, sum = 0;
    int count = 0;
    for (size_t k = 0; k < categories_.size(); ++k) {
      const ClassCell cell = gather(k);
      const double ap = cell.num_objects > 0
                            ? average_precision(bounded(precision_recall(cell.labels, cell.num_objects)))
                            : kNotAvailable;
      values.push_back(
          {fmt::format("{}_PerformanceByCategory/AP@{}IOU/{}", options_.prefix, threshold, categories_[k].name), ap});
      if (std::isnan(ap)) continue;
      sum += ap;
      ++count;
      objects += cell.num_objects;
      pooled.insert(pooled.end(), cell.labels.begin(), cell.labels.end());
    }
    if (count > 0)
      values[0].value =
          options_.weighted_mean ? average_precision(bounded(precision_recall(pooled, objects))) : sum / count;
    return values;
  }

  std::vector<ClassMetrics> per_class() const override {
    std::vector<ClassMetrics> rows;
    for (size_t k = 0; k < categories_.size(); ++k) {
      const ClassCell cell = gather(k);
      ClassMetrics row{.category = categories_[k]};
      row.num_ground_truth = std::llround(cell.num_objects);
      row.num_detections = cell.num_detections;
      if (cell.num_objects > 0) {
        const Curve curve = precision_recall(cell.labels, cell.num_objects);
        row.ap = average_precision(bounded(curve));
        if (options_.iou_threshold == 0.5) row.ap50 = row.ap;
        row.ar = curve.recall.empty() ? 0 : curve.recall.back();
      }
      rows.push_back(row);
    }
    return rows;
  }

 private:
  ClassCell gather(size_t k) const {
    ClassCell all;
    for (const std::vector<ClassCell>& cells : images_) {
      const ClassCell& cell = cells[k];
      all.labels.insert(all.labels.end(), cell.labels.begin(), cell.labels.end());
      all.num_objects += cell.num_objects;
      all.num_detections += cell.num_detections;
    }
    return all;
  }

  Curve bounded(const Curve& curve) const {
    if (!options_.use_recall_bounds) return curve;
    Curve inside;
    for (size_t i = 0; i < curve.recall.size(); ++i) {
      if (curve.recall[i] < options_.recall_lower_bound || curve.recall[i] > options_.recall_upper_bound) continue;
      inside.recall.push_back(curve.recall[i]);
      inside.precision.push_back(curve.precision[i]);
    }
    return inside;
  }

  std::vector<Category> categories_;
  PascalOptions options_;
  std::set<std::string> ids_;
  std::vector<std::vector<ClassCell>> images_;  ///< as they came, which decides among equal scores
};

bool add(const std::string& name, const PascalOptions& base) {
  return register_metrics(name, [base](const std::vector<Category>& categories, const MetricsOptions& options) {
    PascalOptions own = base;
    own.recall_lower_bound = options.recall_lower_bound;
    own.recall_upper_bound = options.recall_upper_bound;
    return make_pascal_metrics(categories, own);
  });
}

const PascalOptions kOpenImages = {.prefix = "OpenImagesV2", .use_difficult = false, .use_group_of = true};

[[maybe_unused]] const bool pascal_registered[] = {
    add("pascal_voc_detection_metrics", {}),
    add("weighted_pascal_voc_detection_metrics", {.prefix = "WeightedPascalBoxes", .weighted_mean = true}),
    add("precision_at_recall_detection_metrics", {.prefix = "PrecisionAtRecallBoxes", .use_recall_bounds = true}),
    add("oid_V2_detection_metrics", kOpenImages),
    add("open_images_V2_detection_metrics", kOpenImages),  // the older spelling
    add("oid_challenge_detection_metrics", {.prefix = "OpenImagesDetectionChallenge",
                                            .use_difficult = false,
                                            .use_group_of = true,
                                            .group_of_weight = 1,
                                            .only_annotated_classes = true})};

}  // namespace

std::unique_ptr<DetectionMetrics> make_pascal_metrics(const std::vector<Category>& categories,
                                                      const PascalOptions& options) {
  return std::make_unique<PascalMetrics>(categories, options);
}

}  // namespace osprey::eval
