#include "eval/at_iou_50.h"

#include <algorithm>

#include "eval/coco_rules.h"

namespace osprey::eval {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? kNotAvailable : static_cast<double>(part) / static_cast<double>(whole);
}

// The score of the right detection with which each recall is reached.
std::vector<double> scores_at_recalls(const Verdicts& verdicts) {
  std::vector<double> scores(kRecalls, kNotAvailable);
  const double num_objects = static_cast<double>(verdicts.num_objects);
  size_t at = 0;
  for (int r = 0; r < kRecalls; ++r) {
    while (at < verdicts.right.size() && static_cast<double>(at + 1) / num_objects < recall_threshold(r)) ++at;
    if (at < verdicts.right.size()) scores[r] = verdicts.right[at];
  }
  return scores;
}

int64_t num_from(const std::vector<double>& scores, double threshold) {
  return std::partition_point(scores.begin(), scores.end(), [&](double score) { return score >= threshold; }) -
         scores.begin();
}

}  // namespace

DetectionCounts& DetectionCounts::operator+=(const DetectionCounts& other) {
  true_positives += other.true_positives;
  false_positives += other.false_positives;
  false_negatives += other.false_negatives;
  return *this;
}
double DetectionCounts::precision() const { return ratio(true_positives, true_positives + false_positives); }
double DetectionCounts::recall() const { return ratio(true_positives, true_positives + false_negatives); }
double DetectionCounts::f1() const {
  if (true_positives + false_negatives == 0) return kNotAvailable;
  return ratio(2 * true_positives, 2 * true_positives + false_positives + false_negatives);
}

std::vector<double> coco_recalls() {
  std::vector<double> recalls;
  for (int r = 0; r < kRecalls; ++r) recalls.push_back(recall_threshold(r));
  return recalls;
}

DetectionCounts counts_from(const Verdicts& verdicts, double score_threshold) {
  DetectionCounts counts;
  counts.true_positives = num_from(verdicts.right, score_threshold);
  counts.false_positives = num_from(verdicts.wrong, score_threshold);
  counts.false_negatives = verdicts.num_objects - counts.true_positives;
  return counts;
}

AtIou50 at_iou_50(const std::vector<CocoImage>& images, const std::vector<Verdicts>& verdicts,
                  std::vector<std::vector<double>> precision, int num_threads) {
  AtIou50 result;
  result.precision_recall.resize(verdicts.size());
  result.at_scores.resize(verdicts.size());
  int64_t num_means = 0;
  for (size_t k = 0; k < verdicts.size(); ++k) {
    for (int i = 0; i < AtIou50::kScores; ++i)
      result.at_scores[k].push_back(counts_from(verdicts[k], static_cast<double>(i) / (AtIou50::kScores - 1)));
    if (precision[k].empty()) continue;
    result.mean_precision.resize(kRecalls, 0);
    for (int r = 0; r < kRecalls; ++r) result.mean_precision[r] += precision[k][r];
    ++num_means;
    result.precision_recall[k] = {std::move(precision[k]), scores_at_recalls(verdicts[k])};
  }
  for (double& mean : result.mean_precision) mean /= static_cast<double>(num_means);
  result.operating_point = best_operating_point(images, verdicts, num_threads);
  return result;
}

}  // namespace osprey::eval
