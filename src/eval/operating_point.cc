#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "eval/at_iou_50.h"
#include "eval/box_matches.h"
#include "eval/parallel.h"

namespace osprey::eval {
namespace {

// Only the score of a right detection can be the best threshold: with a wrong one more, F1 is smaller.
double best_threshold(const std::vector<Verdicts>& verdicts) {
  std::vector<double> candidates;  // scores of right detections, best first
  for (const Verdicts& own : verdicts) candidates.insert(candidates.end(), own.right.begin(), own.right.end());
  std::sort(candidates.begin(), candidates.end(), std::greater<>());
  if (candidates.empty()) {
    double lowest = kNotAvailable;
    for (const Verdicts& own : verdicts)
      if (!own.wrong.empty()) lowest = std::fmin(lowest, own.wrong.back());
    return lowest;
  }
  std::vector<int64_t> wrong(candidates.size(), 0);  // that come in with this candidate, the first of equal ones
  for (const Verdicts& own : verdicts) {
    auto at = candidates.begin();
    for (double score : own.wrong) {
      at = std::lower_bound(at, candidates.end(), score, std::greater<>());
      if (at == candidates.end()) break;
      ++wrong[at - candidates.begin()];
    }
  }
  // F1 is 2 right / (right + wrong + objects); two of them are compared as fractions of whole numbers.
  int64_t num_objects = 0;
  for (const Verdicts& own : verdicts) num_objects += own.num_objects;
  double best = kNotAvailable;
  int64_t best_right = 0, best_sum = 1, num_wrong = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    num_wrong += wrong[i];
    if (i + 1 < candidates.size() && candidates[i + 1] == candidates[i]) continue;
    const int64_t right = static_cast<int64_t>(i) + 1, sum = right + num_wrong + num_objects;
    if (right * best_sum < best_right * sum) continue;
    best = candidates[i];
    best_right = right;
    best_sum = sum;
  }
  return best;
}

std::vector<std::vector<int64_t>> confusion(const std::vector<CocoImage>& images, int64_t num_categories,
                                            double score_threshold, int num_threads) {
  constexpr int64_t kPart = 256;
  const int64_t num_images = static_cast<int64_t>(images.size());
  using Place = std::array<int64_t, 2>;  // row and column
  std::vector<std::vector<Place>> parts((num_images + kPart - 1) / kPart);
  parallel_for(static_cast<int64_t>(parts.size()), num_threads, [&](int64_t p) {
    for (int64_t i = p * kPart; i < std::min(num_images, (p + 1) * kPart); ++i)
      for (const BoxMatch& match : match_boxes(images[i], num_categories, score_threshold))
        parts[p].push_back({match.object < 0 ? num_categories : images[i].objects[match.object].category,
                            match.detection < 0 ? num_categories : images[i].detections[match.detection].category});
  });
  std::vector<std::vector<int64_t>> counts(num_categories + 1, std::vector<int64_t>(num_categories + 1, 0));
  for (const std::vector<Place>& part : parts)
    for (const auto& [row, column] : part) ++counts[row][column];
  return counts;
}

}  // namespace

OperatingPoint best_operating_point(const std::vector<CocoImage>& images, const std::vector<Verdicts>& verdicts,
                                    int num_threads) {
  OperatingPoint point;
  point.score_threshold = best_threshold(verdicts);
  for (const Verdicts& of_class : verdicts) {
    point.per_category.push_back(counts_from(of_class, point.score_threshold));
    point.all += point.per_category.back();
  }
  point.confusion = confusion(images, static_cast<int64_t>(verdicts.size()), point.score_threshold, num_threads);
  return point;
}

}  // namespace osprey::eval
