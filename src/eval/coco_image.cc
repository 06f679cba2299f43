#include "eval/coco_image.h"

namespace osprey::eval {
namespace {

std::array<double, 4> xywh(const BoxPx& box) { return {box.xmin, box.ymin, box.xmax - box.xmin, box.ymax - box.ymin}; }

}  // namespace

std::map<int64_t, int64_t> index_of(const std::vector<Category>& categories) {
  std::map<int64_t, int64_t> index;
  for (size_t k = 0; k < categories.size(); ++k) index[categories[k].id] = static_cast<int64_t>(k);
  return index;
}

CocoImage coco_image(const ImageGroundTruth& truth, const ImageDetections& found,
                     const std::map<int64_t, int64_t>& index) {
  CocoImage image;
  for (size_t g = 0; g < truth.boxes_px.size(); ++g) {
    const auto category = index.find(truth.classes[g]);
    if (category == index.end()) continue;
    const std::array<double, 4> box = xywh(truth.boxes_px[g]);
    const double area = truth.area.empty() || truth.area[g] <= 0 ? box[2] * box[3] : truth.area[g];
    image.objects.push_back({box, area, category->second, !truth.is_crowd.empty() && truth.is_crowd[g] != 0});
  }
  for (size_t d = 0; d < found.boxes_px.size(); ++d) {
    const auto category = index.find(found.classes[d]);
    if (category != index.end())
      image.detections.push_back({xywh(found.boxes_px[d]), found.scores[d], category->second});
  }
  return image;
}

}  // namespace osprey::eval
