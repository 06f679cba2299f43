#include "boxes/image_suppression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>

#include "kernels/arithmetic/overlap.h"
#include "kernels/cpu/loops/box_overlap.h"

namespace osprey::boxes {
namespace {

struct Candidate {
  float score;
  int64_t index;
  size_t seen = 0;  ///< how many of the kept boxes its score has decayed by already
};

/// Better candidates first; equal scores by lower index.
bool better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.index < b.index;
}

using kernels::Corners;

/// Boxes one by one, kept coordinate by coordinate.
class BoxList {
 public:
  void push_back(const Corners& box) {
    const float values[] = {box.ymin, box.xmin, box.ymax, box.xmax, box.area};
    for (size_t k = 0; k < columns_.size(); ++k) columns_[k].push_back(values[k]);
  }
  void pop_back() {
    for (auto& column : columns_) column.pop_back();
  }
  /// Whether the last box has an overlap above `threshold` with one before it. Boxes that overlap tend to have similar
  /// scores, so the latest are looked at first.
  bool last_overlaps_one_before(float threshold) const {
    const size_t last = columns_[0].size() - 1;
    return kernels::cpu::any_overlap_above(
        {columns_[0].data(), columns_[1].data(), columns_[2].data(), columns_[3].data(), columns_[4].data()}, last,
        last, threshold);
  }

 private:
  std::array<std::vector<float>, 5> columns_;
};

/// Candidates in order, of which usually only the first few are looked at: they are sorted in growing portions.
class SortedLazily {
 public:
  explicit SortedLazily(std::vector<Candidate> candidates, int64_t first_portion)
      : candidates_(std::move(candidates)), portion_(static_cast<size_t>(first_portion)) {}

  const Candidate* next() {
    if (position_ == candidates_.size()) return nullptr;
    if (position_ == sorted_) {
      const size_t end = std::min(candidates_.size(), sorted_ + portion_);
      const auto first = candidates_.begin();
      if (end < candidates_.size()) std::nth_element(first + sorted_, first + end, candidates_.end(), better);
      std::sort(first + sorted_, first + end, better);
      sorted_ = end;
      portion_ *= 4;
    }
    return &candidates_[position_++];
  }

 private:
  std::vector<Candidate> candidates_;
  size_t position_ = 0, sorted_ = 0, portion_;
};

/// Candidates in the order of std::priority_queue, filled one by one and compared by score alone: which of two equal
/// scores comes first is settled by the heap.
class HeapOrder {
 public:
  explicit HeapOrder(const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) queue_.push(candidate);
  }

  const Candidate* next() {
    if (queue_.empty()) return nullptr;
    current_ = queue_.top();
    queue_.pop();
    return &current_;
  }

 private:
  struct Lower {
    bool operator()(const Candidate& a, const Candidate& b) const { return a.score < b.score; }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, Lower> queue_;
  Candidate current_;
};

/// The boxes of one class.
struct ClassBoxes {
  const ImageBoxes& boxes;
  int64_t label = 0;

  Corners of(int64_t row) const {
    float box[4];
    boxes.read(row, label, box);
    return kernels::ordered_corners(box);
  }
};

template <class Sorted>
Kept hard(const ClassBoxes& boxes, Sorted sorted, size_t limit, float iou_threshold) {
  Kept kept;
  BoxList corners;
  while (kept.indices.size() < limit) {
    const Candidate* candidate = sorted.next();
    if (candidate == nullptr) break;
    corners.push_back(boxes.of(candidate->index));
    if (corners.last_overlaps_one_before(iou_threshold)) {
      corners.pop_back();
      continue;
    }
    kept.indices.push_back(candidate->index);
    kept.scores.push_back(candidate->score);
  }
  return kept;
}

Kept soft(const ClassBoxes& boxes, std::vector<Candidate> queue, size_t limit, float score_threshold, float sigma) {
  const auto worse = [](const Candidate& a, const Candidate& b) { return better(b, a); };
  const float exponent = -0.5f / sigma;
  Kept kept;
  std::vector<Corners> corners;
  std::make_heap(queue.begin(), queue.end(), worse);
  while (kept.indices.size() < limit && !queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), worse);
    Candidate candidate = queue.back();
    queue.pop_back();
    const float score_before = candidate.score;
    const Corners box = boxes.of(candidate.index);
    for (size_t j = corners.size(); j > candidate.seen && candidate.score > score_threshold; --j) {
      const float iou = kernels::suppressing_overlap(box, corners[j - 1]);
      candidate.score *= std::exp(exponent * iou * iou);
    }
    candidate.seen = corners.size();
    if (candidate.score == score_before) {
      kept.indices.push_back(candidate.index);
      kept.scores.push_back(candidate.score);
      corners.push_back(box);
    } else if (candidate.score > score_threshold) {
      queue.push_back(candidate);
      std::push_heap(queue.begin(), queue.end(), worse);
    }
  }
  return kept;
}

/// Steps 1 and 2 of `batch_non_max_suppression`, of one class.
/// scores  [n]
Kept kept_of_class(const ClassBoxes& boxes, const float* scores, int64_t n, int64_t max_output_size,
                   float iou_threshold, float score_threshold, float soft_nms_sigma, bool combined) {
  std::vector<Candidate> candidates;
  for (int64_t i = 0; i < n; ++i)
    if (scores[i] > score_threshold) candidates.push_back({scores[i], i});
  const auto limit = static_cast<size_t>(std::max<int64_t>(max_output_size, 0));
  if (soft_nms_sigma > 0) return soft(boxes, std::move(candidates), limit, score_threshold, soft_nms_sigma);
  if (combined) return hard(boxes, HeapOrder(candidates), limit, iou_threshold);
  const int64_t portion = std::max<int64_t>(4 * static_cast<int64_t>(limit), 64);
  return hard(boxes, SortedLazily(std::move(candidates), portion), limit, iou_threshold);
}

/// A kept box on its way to the result.
struct Found {
  float score;
  int64_t row, label;
};

std::vector<Found> kept_per_class(const Image& image, const NmsOptions& options) {
  std::vector<Found> found;
  for (int64_t c = 0; c < image.C; ++c) {
    const Kept kept =
        kept_of_class({image.boxes, c}, image.scores + c * image.A, image.num_rows, options.max_detections_per_class,
                      options.iou_threshold, options.score_threshold, options.soft_nms_sigma, options.combined);
    for (size_t i = 0; i < kept.indices.size(); ++i) found.push_back({kept.scores[i], kept.indices[i], c});
  }
  return found;
}

std::vector<Found> kept_class_agnostic(const Image& image, const NmsOptions& options) {
  std::vector<float> best_scores(image.num_rows), best_boxes(image.num_rows * 4);
  std::vector<int64_t> best_classes(image.num_rows);
  for (int64_t i = 0; i < image.num_rows; ++i) {
    int64_t best = 0;
    for (int64_t c = 1; c < image.C; ++c)
      if (image.scores[c * image.A + i] > image.scores[best * image.A + i]) best = c;
    best_classes[i] = best;
    best_scores[i] = image.scores[best * image.A + i];
    if (best_scores[i] > options.score_threshold) image.boxes.read(i, best, &best_boxes[i * 4]);
  }
  const Kept kept =
      non_max_suppression(best_boxes.data(), best_scores.data(), image.num_rows, options.max_total_detections,
                          options.iou_threshold, options.score_threshold, options.soft_nms_sigma);
  std::vector<Found> found;
  for (size_t i = 0; i < kept.indices.size(); ++i)
    found.push_back({kept.scores[i], kept.indices[i], best_classes[kept.indices[i]]});
  return found;
}

}  // namespace

void detect_in_image(const Image& image, const float* window, const NmsOptions& options, const Output& out) {
  std::vector<Found> found =
      options.class_agnostic ? kept_class_agnostic(image, options) : kept_per_class(image, options);
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  const float height = window[2] - window[0], width = window[3] - window[1];
  int64_t count = 0;
  for (const Found& f : found) {
    if (count == options.max_total_detections) break;
    float box[4], clipped[4];
    image.boxes.read(f.row, f.label, box);
    for (int k = 0; k < 4; ++k) clipped[k] = std::max(std::min(box[k], window[2 + k % 2]), window[k % 2]);
    const bool has_area = (clipped[2] - clipped[0]) * (clipped[3] - clipped[1]) > 0;
    if (!options.combined && !(has_area && f.score >= 0)) continue;
    for (int k = 0; k < 4; ++k)
      out.boxes[count * 4 + k] =
          options.change_coordinate_frame ? (clipped[k] - window[k % 2]) / (k % 2 == 0 ? height : width) : clipped[k];
    out.scores[count] = f.score;
    out.classes[count] = f.label;
    out.indices[count] = f.row;
    ++count;
  }
  *out.count = count;
}

Kept non_max_suppression(const float* boxes, const float* scores, int64_t n, int64_t max_output_size,
                         float iou_threshold, float score_threshold, float soft_nms_sigma) {
  const ImageBoxes all{boxes};
  return kept_of_class({all}, scores, n, max_output_size, iou_threshold, score_threshold, soft_nms_sigma,
                       /*combined=*/false);
}

}  // namespace osprey::boxes
