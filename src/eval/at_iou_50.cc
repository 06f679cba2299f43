#include "eval/at_iou_50.h"

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

}  // namespace

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

AtIou50 at_iou_50(const std::vector<CocoImage>& images, const std::vector<Verdicts>& verdicts,
                  std::vector<std::vector<double>> precision, int num_threads) {
  AtIou50 result;
  result.precision_recall.resize(verdicts.size());
  int64_t num_means = 0;
  for (size_t k = 0; k < verdicts.size(); ++k) {
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
