#include "boxes/image_suppression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>
#include <span>

#include "kernels/arithmetic/overlap.h"
#include "kernels/cpu/loops/box_overlap.h"

namespace osprey::boxes {
namespace {

using kernels::Corners;

/// Boxes one by one, kept coordinate by coordinate.
class BoxList {
 public:
  size_t size() const { return columns_[0].size(); }
  Corners operator[](size_t i) const {
    return {columns_[0][i], columns_[1][i], columns_[2][i], columns_[3][i], columns_[4][i]};
  }
  void push_back(const Corners& box) {
    const float values[] = {box.ymin, box.xmin, box.ymax, box.xmax, box.area};
    for (size_t k = 0; k < columns_.size(); ++k) columns_[k].push_back(values[k]);
  }
  /// Adds a box unless its overlap with one of those before is above `threshold`. Boxes that overlap tend to have
  /// similar scores, so the latest are looked at first.
  bool add_unless_overlapped(const Corners& box, float threshold) {
    push_back(box);
    const size_t last = size() - 1;
    if (!kernels::cpu::any_overlap_above(
            {columns_[0].data(), columns_[1].data(), columns_[2].data(), columns_[3].data(), columns_[4].data()}, last,
            last, threshold))
      return true;
    for (auto& column : columns_) column.pop_back();
    return false;
  }

 private:
  std::array<std::vector<float>, 5> columns_;
};

/// The boxes of candidates.
struct CandidateBoxes {
  const ImageBoxes& boxes;
  std::span<const int64_t> class_of_row;  ///< of candidates that are of no class; else empty

  int64_t label(const Candidate& of) const {
    return class_of_row.empty() ? of.label : class_of_row[static_cast<size_t>(of.row)];
  }
  void read(const Candidate& of, float* box) const { boxes.read(of.row, label(of), box); }
  Corners corners(const Candidate& of) const {
    float box[4];
    read(of, box);
    return kernels::ordered_corners(box);
  }
};

/// Which boxes keep others out.
struct Suppressing {
  float score_threshold, iou_threshold, soft_nms_sigma;
  size_t max_per_class;
};

/// Steps 1 to 3 of `batch_non_max_suppression`: kept boxes of all classes, best first, as many as are asked for.
class KeptBoxes {
 public:
  /// wanted  how many are likely to be asked for
  KeptBoxes(const CandidateBoxes& boxes, const ScoreTable& scores, const Suppressing& how, int64_t wanted)
      : boxes_(boxes),
        how_(how),
        order_(scores, how.score_threshold, std::max<int64_t>(4 * wanted, 64)),
        kept_(static_cast<size_t>(scores.classes)) {}

  std::optional<Candidate> next() {
    while (std::optional<Queued> candidate = take()) {
      BoxList& kept = kept_[static_cast<size_t>(candidate->label)];
      if (kept.size() >= how_.max_per_class) {
        order_.leave_out(candidate->label);
        continue;
      }
      const Corners box = boxes_.corners(*candidate);
      if (how_.soft_nms_sigma > 0 ? stays(*candidate, box, kept) : kept.add_unless_overlapped(box, how_.iou_threshold))
        return candidate;
    }
    return std::nullopt;
  }

 private:
  struct Queued : Candidate {
    size_t seen = 0;  ///< how many of the kept boxes its score has decayed by already
  };
  static bool worse(const Queued& a, const Queued& b) { return better(b, a); }

  std::optional<Queued> take() {
    const Candidate* const fresh = order_.peek();
    if (!decayed_.empty() && (fresh == nullptr || better(decayed_.front(), *fresh))) {
      std::ranges::pop_heap(decayed_, worse);
      const Queued best = decayed_.back();
      decayed_.pop_back();
      return best;
    }
    if (fresh == nullptr) return std::nullopt;
    const Queued best{*fresh};
    order_.take();
    return best;
  }

  /// Adds a box whose score does not decay further; else it waits until its new score is the best.
  bool stays(Queued& candidate, const Corners& box, BoxList& kept) {
    const float exponent = -0.5f / how_.soft_nms_sigma, before = candidate.score;
    for (size_t j = kept.size(); j > candidate.seen && candidate.score > how_.score_threshold; --j) {
      const float iou = kernels::suppressing_overlap(box, kept[j - 1]);
      candidate.score *= std::exp(exponent * iou * iou);
    }
    candidate.seen = kept.size();
    if (candidate.score == before) {
      kept.push_back(box);
      return true;
    }
    if (candidate.score > how_.score_threshold) {
      decayed_.push_back(candidate);
      std::ranges::push_heap(decayed_, worse);
    }
    return false;
  }

  const CandidateBoxes& boxes_;
  const Suppressing how_;
  BestFirst order_;
  std::vector<BoxList> kept_;  ///< of each class
  std::vector<Queued> decayed_;
};

/// The same with equal scores in the order of TensorFlow's combined operator, which compares by score alone: which of
/// two comes first is settled within a class by the heap of std::priority_queue, filled row by row, and then by
/// std::sort of the places of all classes, those that stay empty included.
std::vector<Candidate> kept_by_heap(const CandidateBoxes& boxes, const ScoreTable& scores, const Suppressing& how) {
  struct Lower {
    bool operator()(const Candidate& a, const Candidate& b) const { return a.score < b.score; }
  };
  constexpr Candidate kEmpty{-1.0f, -1, 0};
  const size_t places_of_class = std::min(how.max_per_class, static_cast<size_t>(scores.rows));
  std::vector<Candidate> places(static_cast<size_t>(scores.classes) * places_of_class, kEmpty);
  for (int32_t label = 0; label < scores.classes; ++label) {
    std::priority_queue<Candidate, std::vector<Candidate>, Lower> queue;
    for (int64_t row = 0; row < scores.rows; ++row)
      if (const float score = scores.row(row)[label]; score > how.score_threshold) queue.push({score, label, row});
    Candidate* const own = places.data() + static_cast<size_t>(label) * places_of_class;
    for (BoxList kept; kept.size() < places_of_class && !queue.empty(); queue.pop())
      if (kept.add_unless_overlapped(boxes.corners(queue.top()), how.iou_threshold)) own[kept.size() - 1] = queue.top();
  }
  std::sort(places.begin(), places.end(), [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  std::erase_if(places, [](const Candidate& place) { return place.label < 0; });
  return places;
}

/// The best score of each row, and whose it is; the lowest of several classes.
struct BestOfRows {
  std::vector<float> scores;
  std::vector<int64_t> classes;

  explicit BestOfRows(const ScoreTable& all) {
    for (int64_t row = 0; row < all.rows; ++row) {
      const float* const first = all.row(row);
      int64_t best = 0;
      for (int64_t c = 1; c < all.classes; ++c)
        if (first[c] > first[best]) best = c;
      classes.push_back(best);
      scores.push_back(first[best]);
    }
  }
};

size_t limit_of(int64_t max_output_size) { return static_cast<size_t>(std::max<int64_t>(max_output_size, 0)); }

}  // namespace

void detect_in_image(const Image& image, const float* window, const NmsOptions& options, const Output& out) {
  const BestOfRows best(options.class_agnostic ? image.scores : ScoreTable{});
  const CandidateBoxes boxes{image.boxes, best.classes};
  const Suppressing how{
      options.score_threshold, options.iou_threshold, options.soft_nms_sigma,
      limit_of(options.class_agnostic ? options.max_total_detections : options.max_detections_per_class)};
  const float height = window[2] - window[0], width = window[3] - window[1];
  int64_t count = 0;
  const auto write = [&](const Candidate& found) {
    float box[4], clipped[4];
    boxes.read(found, box);
    for (int k = 0; k < 4; ++k) clipped[k] = std::max(std::min(box[k], window[2 + k % 2]), window[k % 2]);
    const bool has_area = (clipped[2] - clipped[0]) * (clipped[3] - clipped[1]) > 0;
    if (!options.combined && !(has_area && found.score >= 0)) return;
    for (int k = 0; k < 4; ++k)
      out.boxes[count * 4 + k] =
          options.change_coordinate_frame ? (clipped[k] - window[k % 2]) / (k % 2 == 0 ? height : width) : clipped[k];
    out.scores[count] = found.score;
    out.classes[count] = boxes.label(found);
    out.indices[count] = found.row;
    ++count;
  };
  if (options.combined && !options.class_agnostic && options.soft_nms_sigma <= 0) {
    for (const Candidate& found : kept_by_heap(boxes, image.scores, how))
      if (count < options.max_total_detections) write(found);
  } else {
    const auto rows = image.scores.rows;
    KeptBoxes kept(boxes, options.class_agnostic ? ScoreTable{best.scores.data(), rows, 1, 1} : image.scores, how,
                   options.max_total_detections);
    while (count < options.max_total_detections) {
      const std::optional<Candidate> found = kept.next();
      if (!found) break;
      write(*found);
    }
  }
  *out.count = count;
}

Kept non_max_suppression(const float* boxes, const float* scores, int64_t n, int64_t max_output_size,
                         float iou_threshold, float score_threshold, float soft_nms_sigma) {
  const ImageBoxes image{boxes};
  const CandidateBoxes all{image, {}};
  KeptBoxes kept(all, {scores, n, 1, 1}, {score_threshold, iou_threshold, soft_nms_sigma, limit_of(max_output_size)},
                 max_output_size);
  Kept result;
  while (result.indices.size() < limit_of(max_output_size)) {
    const std::optional<Candidate> found = kept.next();
    if (!found) break;
    result.indices.push_back(found->row);
    result.scores.push_back(found->score);
  }
  return result;
}

}  // namespace osprey::boxes
