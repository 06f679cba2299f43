#include "osprey/eval/coco_metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include "eval/coco_image.h"
#include "eval/metrics_registry.h"
#include "osprey/base/error.h"

namespace osprey::eval {
namespace {

class CocoMetrics final : public DetectionMetrics {
 public:
  CocoMetrics(const std::vector<Category>& categories, const MetricsOptions& options)
      : categories_(categories), options_(options), index_(index_of(categories)) {
    for (const auto& [name, members] : options.super_categories)
      super_categories_.emplace_back(name, members_of(name, members));
  }

  void add_image(const std::string& image_id, const ImageGroundTruth& truth, const ImageDetections& found) override {
    check_image(image_id, truth, found);
    if (!images_.emplace(image_id, coco_image(truth, found, index_)).second)
      throw DataError(fmt::format("image {} was evaluated twice", image_id));
    result_.reset();
  }

  std::vector<MetricValue> values() const override {
    const CocoResult& coco = result();
    std::vector<MetricValue> values;
    for (size_t s = 0; s < coco.stats.size(); ++s) values.push_back({coco_metric_names()[s], coco.stats[s]});
    if (options_.include_metrics_per_category || options_.all_metrics_per_category)
      for (size_t k = 0; k < categories_.size(); ++k)
        values.push_back({"DetectionBoxes_PerformanceByCategory/mAP/" + categories_[k].name, coco.per_category[k][0]});
    for (const auto& [name, members] : super_categories_)
      values.push_back({"DetectionBoxes_PerformanceBySuperCategory/" + name, mean_ap(coco, members)});
    if (options_.all_metrics_per_category) {
      for (size_t s = 0; s < coco.stats.size(); ++s) {
        std::string kind =
            coco_metric_names()[s];  // DetectionBoxes_Precision/mAP -> DetectionBoxes_Precision mAP ByCategory/cat
        kind[kind.find('/')] = ' ';
        for (size_t k = 0; k < categories_.size(); ++k)
          values.push_back({kind + " ByCategory/" + categories_[k].name, coco.per_category[k][s]});
      }
    }
    return values;
  }

  std::vector<ClassMetrics> per_class() const override { return per_class_rows(result(), categories_); }

  const AtIou50* at_iou_50() const override { return &result().at_iou_50; }

 private:
  const CocoResult& result() const {
    if (!result_) {
      std::vector<CocoImage> images;  // in the order of their ids
      for (const auto& entry : images_) images.push_back(entry.second);
      result_ = evaluate_coco(images, static_cast<int64_t>(categories_.size()), options_.num_threads);
    }
    return *result_;
  }

  std::vector<size_t> members_of(const std::string& super_category, const std::string& names) const {
    std::vector<size_t> members;
    std::stringstream list(names);
    for (std::string name; std::getline(list, name, ',');) {
      name.erase(0, name.find_first_not_of(' '));
      name.erase(name.find_last_not_of(' ') + 1);
      const auto found = std::find_if(categories_.begin(), categories_.end(),
                                      [&](const Category& category) { return category.name == name; });
      if (found == categories_.end())
        throw ConfigError(fmt::format("eval_config.super_categories[\"{}\"]: the label map has no class \"{}\"",
                                      super_category, name));
      members.push_back(static_cast<size_t>(found - categories_.begin()));
    }
    return members;
  }

  static double mean_ap(const CocoResult& coco, const std::vector<size_t>& members) {
    double sum = 0;
    int count = 0;
    for (size_t k : members) {
      if (std::isnan(coco.per_category[k][0])) continue;
      sum += coco.per_category[k][0];
      ++count;
    }
    return count > 0 ? sum / count : kNotAvailable;
  }

  std::vector<Category> categories_;
  MetricsOptions options_;
  std::map<int64_t, int64_t> index_;
  std::vector<std::pair<std::string, std::vector<size_t>>> super_categories_;
  std::map<std::string, CocoImage> images_;
  mutable std::optional<CocoResult> result_;
};

[[maybe_unused]] const bool coco_registered = register_metrics(
    "coco_detection_metrics", [](const std::vector<Category>& categories, const MetricsOptions& options) {
      return std::make_unique<CocoMetrics>(categories, options);
    });

}  // namespace
}  // namespace osprey::eval
