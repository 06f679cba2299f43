#include "eval/pascal_match.h"

#include <algorithm>
#include <numeric>

#include "eval/overlap.h"

namespace osprey::eval {
namespace {

constexpr size_t kMostPerClass = 10000;  // per class and image, best first

struct Object {
  BoxPx box;
  bool difficult = false;
  bool found = false;
};

// The object that `overlap` is largest with, the first of equals; objects is not empty.
template <class Overlap>
std::pair<size_t, double> best(const std::vector<Object>& objects, const Overlap& overlap) {
  std::pair<size_t, double> result{0, overlap(objects[0].box)};
  for (size_t g = 1; g < objects.size(); ++g) {
    const double value = overlap(objects[g].box);
    if (value > result.second) result = {g, value};
  }
  return result;
}

}  // namespace

ClassCell match_class(const ImageGroundTruth& truth, const ImageDetections& found, int64_t category,
                      const PascalOptions& options) {
  ClassCell cell;
  std::vector<Object> objects, groups;
  for (size_t g = 0; g < truth.boxes_px.size(); ++g) {
    if (truth.classes[g] != category) continue;
    const bool difficult = options.use_difficult && !truth.difficult.empty() && truth.difficult[g] != 0;
    const bool group = options.use_group_of && !truth.group_of.empty() && truth.group_of[g] != 0;
    (group ? groups : objects).push_back({truth.boxes_px[g], difficult});
    if (group)
      cell.num_objects += options.group_of_weight;
    else if (!difficult)
      cell.num_objects += 1;
  }
  const auto& of_picture = truth.image_classes;
  const bool annotated = truth.all_classes_annotated || !objects.empty() || !groups.empty() ||
                         std::find(of_picture.begin(), of_picture.end(), category) != of_picture.end();
  if (options.only_annotated_classes && !annotated) return cell;

  std::vector<size_t> order;
  for (size_t d = 0; d < found.boxes_px.size(); ++d) {
    const BoxPx& box = found.boxes_px[d];
    if (found.classes[d] == category && box.ymin < box.ymax && box.xmin < box.xmax) order.push_back(d);
  }
  cell.num_detections = static_cast<int64_t>(order.size());
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return found.scores[a] < found.scores[b]; });
  std::reverse(order.begin(), order.end());
  if (order.size() > kMostPerClass) order.resize(kMostPerClass);

  std::vector<double> group_scores(groups.size(), 0);
  for (size_t d : order) {
    const BoxPx& box = found.boxes_px[d];
    const double score = found.scores[d];
    bool hit = false;
    if (!objects.empty()) {
      const auto [g, overlap] = best(objects, [&](const BoxPx& object) { return iou(box, object); });
      if (overlap >= options.iou_threshold) {
        if (objects[g].difficult) continue;
        hit = !objects[g].found;
        objects[g].found = true;
      }
    }
    if (!hit && !groups.empty()) {
      const auto [g, overlap] = best(groups, [&](const BoxPx& group) { return intersection(box, group) / area(box); });
      if (overlap >= options.iou_threshold) {
        group_scores[g] = std::max(group_scores[g], score);
        continue;
      }
    }
    cell.labels.push_back({score, hit ? 1.0 : 0.0});
  }
  for (double score : group_scores)
    if (score > 0 && options.group_of_weight > 0) cell.labels.push_back({score, options.group_of_weight});
  return cell;
}

}  // namespace osprey::eval
