#include "eval/gallery_ranking.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "eval/box_matches.h"
#include "eval/coco_image.h"

namespace osprey::eval {
namespace {

void count_matches(GalleryImage& image, const CocoImage& boxes, const std::vector<BoxMatch>& matches) {
  for (const BoxMatch& match : matches) {
    if (match.detection < 0) {
      ++image.missed;
      continue;
    }
    const CocoImage::Detection& detection = boxes.detections[match.detection];
    const bool right = match.object >= 0 && boxes.objects[match.object].category == detection.category;
    ++(right ? image.right : match.object >= 0 ? image.confused : image.false_alarms);
    if (!right) image.error_score += detection.score;
  }
}

void judge(GalleryImage& image, const CocoImage& boxes, const std::vector<BoxMatch>& matches, double score_threshold) {
  for (const CocoImage::Detection& detection : boxes.detections)
    image.detections.push_back({detection.box_xywh, detection.category, detection.score});
  for (const CocoImage::Object& object : boxes.objects) image.objects.push_back({object.box_xywh, object.category});
  for (const BoxMatch& match : matches) {
    JudgedBox* const detection = match.detection < 0 ? nullptr : &image.detections[match.detection];
    JudgedBox* const object = match.object < 0 ? nullptr : &image.objects[match.object];
    if (object == nullptr) {
      detection->verdict = Verdict::kFalseAlarm;
    } else if (detection == nullptr) {
      object->verdict = Verdict::kMissed;
    } else if (detection->category == object->category) {
      detection->verdict = object->verdict = Verdict::kRight;
    } else {
      detection->verdict = object->verdict = Verdict::kConfused;
      detection->other = object->category;
      object->other = detection->category;
    }
  }
  std::erase_if(image.detections, [&](const JudgedBox& box) { return !(box.score >= score_threshold); });
}

}  // namespace

GalleryRanking::GalleryRanking(const std::vector<Category>& categories) : index_(index_of(categories)) {}

void GalleryRanking::add(GalleryImage image, const ImageGroundTruth& truth, const ImageDetections& found) {
  candidates_.push_back({std::move(image), coco_image(truth, found, index_)});
}

Gallery GalleryRanking::chosen(double score_threshold, int64_t count) && {
  const auto matches = [&](const Candidate& candidate) {
    return match_boxes(candidate.boxes, static_cast<int64_t>(index_.size()), score_threshold);
  };
  std::vector<Candidate*> order;
  for (Candidate& candidate : candidates_) {
    count_matches(candidate.image, candidate.boxes, matches(candidate));
    order.push_back(&candidate);
  }
  const auto take = [&](std::vector<GalleryImage>& images, const auto& may_be, const auto& rank) {
    std::ranges::stable_sort(order, std::ranges::greater(), rank);
    for (Candidate*& candidate : order) {
      if (static_cast<int64_t>(images.size()) == count) break;
      if (!may_be(candidate->image)) continue;
      judge(candidate->image, candidate->boxes, matches(*candidate), score_threshold);
      images.push_back(std::move(candidate->image));
      candidate = nullptr;
    }
    std::erase(order, nullptr);
  };
  Gallery gallery;
  take(
      gallery.worst, [](const GalleryImage& image) { return image.num_errors() > 0; },
      [](const Candidate* one) { return std::tuple(one->image.num_errors(), one->image.error_score); });
  std::ranges::sort(order);  // in the order of the data set again
  take(
      gallery.best, [](const GalleryImage& image) { return image.right > 0; },
      [](const Candidate* one) { return std::tuple(-one->image.num_errors(), one->image.right); });
  return gallery;
}

}  // namespace osprey::eval
