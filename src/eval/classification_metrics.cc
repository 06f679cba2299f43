// How often the class of a picture is the first that a classifier names, and among the first five.
// The measures of Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge", IJCV 2015, section 4.1.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "eval/metrics_registry.h"
#include "osprey/base/error.h"

namespace osprey::eval {
namespace {

/// The classes that are named for a picture, likeliest first, each once.
std::vector<int64_t> named_classes(const ImageDetections& found) {
  std::vector<size_t> order(found.classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return found.scores[a] > found.scores[b]; });
  std::vector<int64_t> result;
  for (const size_t i : order)
    if (std::find(result.begin(), result.end(), found.classes[i]) == result.end()) result.push_back(found.classes[i]);
  return result;
}

class ClassificationMetrics final : public DetectionMetrics {
 public:
  ClassificationMetrics(const std::vector<Category>& categories, const MetricsOptions& options)
      : categories_(categories), per_category_(options.include_metrics_per_category) {
    for (const Category& category : categories) counts_[category.id];
  }

  void add_image(const std::string& image_id, const ImageGroundTruth& truth, const ImageDetections& found) override {
    check_image(image_id, truth, found);
    if (!ids_.insert(image_id).second) throw DataError(fmt::format("image {} was evaluated twice", image_id));
    const std::vector<int64_t> named = named_classes(found);
    most_named_ = std::max(most_named_, named.size());
    if (const auto first = named.empty() ? counts_.end() : counts_.find(named[0]); first != counts_.end())
      ++first->second.named_first;
    for (const int64_t shown : std::set<int64_t>(truth.classes.begin(), truth.classes.end())) {
      const auto entry = counts_.find(shown);
      if (entry == counts_.end()) continue;
      Counts& counts = entry->second;
      const auto is_among = [&](size_t places) {
        const auto end = named.begin() + static_cast<std::ptrdiff_t>(std::min(places, named.size()));
        return std::find(named.begin(), end, shown) != end ? 1 : 0;
      };
      ++counts.pictures;
      counts.first += is_among(1);
      counts.among_five += is_among(kFive);
    }
  }

  std::vector<MetricValue> values() const override {
    Counts all;
    for (const auto& [id, counts] : counts_) {
      all.pictures += counts.pictures;
      all.first += counts.first;
      all.among_five += counts.among_five;
    }
    // Where a classifier names fewer than five of many classes, nobody knows which would be the next ones.
    const bool names_enough = most_named_ >= std::min(kFive, categories_.size());
    std::vector<MetricValue> values = {
        {"ImageClassification/Accuracy", share(all.first, all.pictures)},
        {"ImageClassification/Accuracy@5", names_enough ? share(all.among_five, all.pictures) : kNotAvailable}};
    if (!per_category_) return values;
    for (const Category& category : categories_) {
      const Counts& counts = counts_.at(category.id);
      values.push_back({"ImageClassification_PerformanceByCategory/Accuracy/" + category.name,
                        share(counts.first, counts.pictures)});
    }
    return values;
  }

  std::vector<ClassMetrics> per_class() const override {
    std::vector<ClassMetrics> rows;
    for (const Category& category : categories_) {
      const Counts& counts = counts_.at(category.id);
      ClassMetrics row{.category = category};
      row.ar = share(counts.first, counts.pictures);
      row.num_ground_truth = counts.pictures;
      row.num_detections = counts.named_first;
      rows.push_back(row);
    }
    return rows;
  }

 private:
  /// Of one class.
  struct Counts {
    int64_t pictures = 0;     ///< that show it
    int64_t first = 0;        ///< of these, for how many it is named first,
    int64_t among_five = 0;   ///< or among the first five
    int64_t named_first = 0;  ///< for how many pictures it is named first
  };
  static double share(int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kNotAvailable;
  }

  static constexpr size_t kFive = 5;
  std::vector<Category> categories_;
  bool per_category_;
  size_t most_named_ = 0;  // for one picture
  std::set<std::string> ids_;
  std::map<int64_t, Counts> counts_;  // by category
};

[[maybe_unused]] const bool classification_registered = register_metrics(
    "image_classification_metrics", [](const std::vector<Category>& categories, const MetricsOptions& options) {
      return std::make_unique<ClassificationMetrics>(categories, options);
    });

}  // namespace
}  // namespace osprey::eval
