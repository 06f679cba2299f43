// COCO's evaluation of boxes in two stages, as in pycocotools: detections are matched image by image, then precision
// and recall are accumulated class by class. The stages keep, per detection, one bit per IoU threshold.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "eval/at_iou_50.h"
#include "eval/coco_rules.h"
#include "eval/parallel.h"
#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {
namespace {

constexpr int kThresholds = 10, kAreas = 4;
constexpr std::array<AreaRange, kAreas> kAreaRanges = {
    {kAllAreas, {0, 32. * 32}, {32. * 32, 96. * 96}, {96. * 96, 1e5 * 1e5}}};

// numpy.linspace(0.5, 0.95, 10), with the same rounding.
double iou_threshold(int t) { return t == kThresholds - 1 ? 0.95 : 0.5 + t * ((0.95 - 0.5) / 9); }

// What is left of a detection after matching: bit t of `matched` and `ignored` speaks for IoU threshold t.
struct Record {
  double score;
  uint8_t rank;  // among the detections of its class in its image
  std::array<uint16_t, kAreas> matched{}, ignored{};
};

// Part of the images: what the accumulation of each class needs from it.
struct Part {
  std::vector<std::vector<Record>> records;              // [K], images in order, best first within each
  std::vector<std::array<int64_t, kAreas>> num_objects;  // [K] objects that count
};

// The detections and objects of one class in one image.
class Cell {
 public:
  Cell(const CocoImage& image, std::vector<int>& detections, const std::vector<int>& objects)
      : image_(image), objects_(objects) {
    std::stable_sort(detections.begin(), detections.end(),
                     [&](int a, int b) { return image.detections[a].score > image.detections[b].score; });
    if (detections.size() > kMaxDetections) detections.resize(kMaxDetections);
    detections_ = detections;
    iou_.reserve(detections_.size() * objects_.size());
    for (int d : detections_)
      for (int g : objects_)
        iou_.push_back(overlap(image.detections[d].box_xywh, image.objects[g].box_xywh, image.objects[g].is_crowd));
  }

  void match(std::vector<Record>& records, std::array<int64_t, kAreas>& num_objects) const {
    const size_t first = records.size();
    for (size_t d = 0; d < detections_.size(); ++d)
      records.push_back({.score = image_.detections[detections_[d]].score, .rank = static_cast<uint8_t>(d)});
    for (int area = 0; area < kAreas; ++area) match(area, records.data() + first, num_objects[area]);
  }

 private:
  void match(int area, Record* records, int64_t& num_objects) const {
    const size_t num = objects_.size();
    // Objects that count first; both halves keep their order.
    std::vector<int> order(num);
    std::iota(order.begin(), order.end(), 0);
    auto ignored = [&](int g) {
      const auto& object = image_.objects[objects_[g]];
      return object.is_crowd || outside(object.area, kAreaRanges[area]);
    };
    const auto border = std::stable_partition(order.begin(), order.end(), [&](int g) { return !ignored(g); });
    const size_t num_counting = static_cast<size_t>(border - order.begin());
    num_objects += static_cast<int64_t>(num_counting);
    std::vector<uint16_t> taken(num, 0);
    for (size_t d = 0; d < detections_.size(); ++d) {
      const double* iou = iou_.data() + d * num;
      const auto& box = image_.detections[detections_[d]].box_xywh;
      const bool ignore_unmatched = outside(box[2] * box[3], kAreaRanges[area]);
      for (int t = 0; t < kThresholds; ++t) {
        const uint16_t bit = static_cast<uint16_t>(1 << t);
        double best = std::min(iou_threshold(t), 1 - 1e-10);
        size_t match = num;  // none
        for (size_t i = 0; i < num; ++i) {
          const int g = order[i];
          if ((taken[g] & bit) && !image_.objects[objects_[g]].is_crowd) continue;
          if (match < num_counting && i >= num_counting)
            break;  // an object that counts is not given up for one that does not
          if (iou[g] < best) continue;
          best = iou[g];
          match = i;
        }
        bool is_matched = false;
        if (match < num) {
          const int g = order[match];
          taken[g] |= bit;
          is_matched = !image_.objects[objects_[g]].id_is_zero;
          if (match >= num_counting) records[d].ignored[area] |= bit;
        }
        if (is_matched)
          records[d].matched[area] |= bit;
        else if (ignore_unmatched)
          records[d].ignored[area] |= bit;
      }
    }
  }

  const CocoImage& image_;
  const std::vector<int>& objects_;
  std::vector<int> detections_;
  std::vector<double> iou_;  // [detections, objects]
};

Part match_images(const std::vector<CocoImage>& images, size_t begin, size_t end, int64_t num_categories) {
  Part part;
  part.records.resize(num_categories);
  part.num_objects.resize(num_categories, {});
  std::vector<std::vector<int>> detections(num_categories), objects(num_categories);
  for (size_t i = begin; i < end; ++i) {
    std::vector<int64_t> present;
    auto put = [&](std::vector<std::vector<int>>& lists, int64_t category, int index) {
      if (category < 0 || category >= num_categories) return;
      if (detections[category].empty() && objects[category].empty()) present.push_back(category);
      lists[category].push_back(index);
    };
    for (size_t d = 0; d < images[i].detections.size(); ++d)
      put(detections, images[i].detections[d].category, static_cast<int>(d));
    for (size_t g = 0; g < images[i].objects.size(); ++g)
      put(objects, images[i].objects[g].category, static_cast<int>(g));
    for (int64_t category : present) {
      Cell(images[i], detections[category], objects[category])
          .match(part.records[category], part.num_objects[category]);
      detections[category].clear();
      objects[category].clear();
    }
  }
  return part;
}

// What COCO averages for one class: precision at each recall threshold, and recall, at each IoU threshold. Of an area
// range without objects both are empty.
struct Curves {
  std::array<std::vector<double>, kAreas> precision;  // [thresholds * recalls], at most 100 detections per image
  std::array<std::vector<double>, kAreas> recall;     // [thresholds], at most 100 detections per image
  std::array<std::vector<double>, 2> recall_at;       // [thresholds], all areas, at most 1 and 10 detections per image
  Verdicts verdicts;                                  // at IoU 0.5, all areas
};

Verdicts verdicts_at_iou_50(const std::vector<const Record*>& sorted, int64_t num_objects) {
  Verdicts verdicts{.num_objects = num_objects};
  verdicts.wrong.reserve(sorted.size());
  for (const Record* record : sorted) {
    if (record->ignored[0] & 1) continue;
    (record->matched[0] & 1 ? verdicts.right : verdicts.wrong).push_back(record->score);
  }
  return verdicts;
}

// Appends to both lists; `after_each` is memory to work in.
void accumulate(const std::vector<const Record*>& sorted, int area, int max_detections, double num_objects,
                std::vector<double>& after_each, std::vector<double>* precision, std::vector<double>& recall) {
  for (int t = 0; t < kThresholds; ++t) {
    const uint16_t bit = static_cast<uint16_t>(1 << t);
    after_each.clear();  // precision after each true positive
    int64_t seen = 0;
    for (const Record* record : sorted) {
      if (record->rank >= max_detections || (record->ignored[area] & bit)) continue;
      ++seen;
      if (!(record->matched[area] & bit)) continue;
      const double found = static_cast<double>(after_each.size() + 1);
      after_each.push_back(found / (static_cast<double>(seen) + std::numeric_limits<double>::epsilon()));
    }
    recall.push_back(static_cast<double>(after_each.size()) / num_objects);
    if (precision == nullptr) continue;
    for (size_t i = after_each.size(); i-- > 1;) after_each[i - 1] = std::max(after_each[i - 1], after_each[i]);
    size_t at = 0;
    for (int r = 0; r < kRecalls; ++r) {
      while (at < after_each.size() && static_cast<double>(at + 1) / num_objects < recall_threshold(r)) ++at;
      precision->push_back(at < after_each.size() ? after_each[at] : 0);
    }
  }
}

Curves accumulate_category(const std::vector<Part>& parts, int64_t category) {
  std::vector<const Record*> sorted;
  std::array<int64_t, kAreas> num_objects{};
  for (const Part& part : parts) {
    for (const Record& record : part.records[category]) sorted.push_back(&record);
    for (int area = 0; area < kAreas; ++area) num_objects[area] += part.num_objects[category][area];
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const Record* a, const Record* b) { return a->score > b->score; });
  Curves curves;
  curves.verdicts = verdicts_at_iou_50(sorted, num_objects[0]);
  std::vector<double> buffer;
  for (int area = 0; area < kAreas; ++area) {
    const double objects = static_cast<double>(num_objects[area]);
    if (objects == 0) continue;
    accumulate(sorted, area, kMaxDetections, objects, buffer, &curves.precision[area], curves.recall[area]);
    if (area > 0) continue;
    accumulate(sorted, area, 1, objects, buffer, nullptr, curves.recall_at[0]);
    accumulate(sorted, area, 10, objects, buffer, nullptr, curves.recall_at[1]);
  }
  return curves;
}

// The sum in the order in which numpy adds, so that the means are pycocotools' to the last bit.
double pairwise_sum(const double* values, size_t n) {
  if (n < 8) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += values[i];
    return sum;
  }
  if (n <= 128) {
    std::array<double, 8> lanes;
    std::copy_n(values, 8, lanes.begin());
    size_t i = 8;
    for (; i < n - n % 8; i += 8)
      for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += values[i + lane];
    double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    for (; i < n; ++i) sum += values[i];
    return sum;
  }
  size_t half = n / 2;
  half -= half % 8;
  return pairwise_sum(values, half) + pairwise_sum(values + half, n - half);
}

/// Numpy reads what it adds up in pieces.
double buffered_sum(const std::vector<double>& values) {
  constexpr size_t kPiece = 8192;
  double sum = 0;
  for (size_t begin = 0; begin < values.size(); begin += kPiece)
    sum += pairwise_sum(values.data() + begin, std::min(kPiece, values.size() - begin));
  return sum;
}

CocoStats summarize(const std::vector<const Curves*>& categories) {
  // Mean over entries [begin, end) of a list that each class has; entry by entry, class by class within it.
  auto mean = [&](const auto& list, size_t begin, size_t end) {
    std::vector<double> values;
    for (size_t i = begin; i < end; ++i)
      for (const Curves* curves : categories)
        if (!list(*curves).empty()) values.push_back(list(*curves)[i]);
    return values.empty() ? kNotAvailable : buffered_sum(values) / static_cast<double>(values.size());
  };
  auto precision = [&](int area, size_t begin, size_t end) {
    return mean(
        [&](const Curves& curves) -> auto& { return curves.precision[area]; }, begin* kRecalls, end* kRecalls);
  };
  auto recall = [&](int area) {
    return mean(
        [&](const Curves& curves) -> auto& { return curves.recall[area]; }, 0, kThresholds);
  };
  auto recall_at = [&](int which) {
    return mean(
        [&](const Curves& curves) -> auto& { return curves.recall_at[which]; }, 0, kThresholds);
  };
  return {precision(0, 0, kThresholds),
          precision(0, 0, 1),
          precision(0, 5, 6),
          precision(1, 0, kThresholds),
          precision(2, 0, kThresholds),
          precision(3, 0, kThresholds),
          recall_at(0),
          recall_at(1),
          recall(0),
          recall(1),
          recall(2),
          recall(3)};
}

}  // namespace

CocoResult evaluate_coco(const std::vector<CocoImage>& images, int64_t num_categories, int num_threads) {
  const size_t num_parts =
      std::clamp<size_t>(images.size() / 16, 1, static_cast<size_t>(thread_count(num_threads)) * 8);
  std::vector<Part> parts(num_parts);
  parallel_for(static_cast<int64_t>(num_parts), num_threads, [&](int64_t p) {
    parts[p] = match_images(images, images.size() * p / num_parts, images.size() * (p + 1) / num_parts, num_categories);
  });
  CocoResult result;
  std::vector<Curves> curves(num_categories);
  result.per_category.resize(num_categories);
  parallel_for(num_categories, num_threads, [&](int64_t k) {
    curves[k] = accumulate_category(parts, k);
    result.per_category[k] = summarize({&curves[k]});
  });
  std::vector<const Curves*> all;
  for (const Curves& category : curves) all.push_back(&category);
  result.stats = summarize(all);
  std::vector<Verdicts> verdicts;
  std::vector<std::vector<double>> precision_at_iou_50;
  for (Curves& category : curves) {
    result.num_ground_truth.push_back(category.verdicts.num_objects);
    verdicts.push_back(std::move(category.verdicts));
    category.precision[0].resize(std::min<size_t>(category.precision[0].size(), kRecalls));
    precision_at_iou_50.push_back(std::move(category.precision[0]));
  }
  result.at_iou_50 = at_iou_50(images, verdicts, std::move(precision_at_iou_50), num_threads);
  result.num_detections.resize(num_categories, 0);
  for (const CocoImage& image : images)
    for (const auto& detection : image.detections)
      if (detection.category >= 0 && detection.category < num_categories) ++result.num_detections[detection.category];
  return result;
}

}  // namespace osprey::eval
