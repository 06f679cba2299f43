#include "boxes/best_first.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>

#include "osprey/kernels/parallel.h"

namespace osprey::boxes {
namespace {

constexpr int64_t kScoresOfBlock = 256;  // about
constexpr int64_t kBlocksOfTask = 64;
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// The greatest of `values` and `least`; NaN is less than all. Lane by lane, as compilers make vectors of it.
float greatest(const float* values, int64_t count, float least) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, least);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] = values[i + k] > lanes[k] ? values[i + k] : lanes[k];
  for (; i < count; ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

}  // namespace

BestFirst::BestFirst(const ScoreTable& scores, float threshold, int64_t first_portion)
    : scores_(scores),
      threshold_(threshold),
      portion_(static_cast<size_t>(first_portion)),
      rows_of_block_(std::max<int64_t>(1, kScoresOfBlock / std::max<int64_t>(1, scores.classes))),
      left_out_(static_cast<size_t>(scores.classes), false) {
  const int64_t blocks = (scores.rows + rows_of_block_ - 1) / rows_of_block_;
  best_left_.assign(static_cast<size_t>(blocks), kNone);
  kernels::parallel_for((blocks + kBlocksOfTask - 1) / kBlocksOfTask, [&](int64_t task) {
    for (int64_t b = task * kBlocksOfTask; b < std::min(blocks, (task + 1) * kBlocksOfTask); ++b) {
      float best = threshold;
      for (int64_t row = b * rows_of_block_; row < end_of(b); ++row)
        best = greatest(scores_.row(row), scores_.classes, best);
      if (best > threshold) best_left_[static_cast<size_t>(b)] = best;
    }
  });
}

const Candidate* BestFirst::peek() {
  while (position_ == found_.size())
    if (!find_portion()) return nullptr;
  return &found_[position_];
}

int64_t BestFirst::end_of(int64_t block) const { return std::min(scores_.rows, (block + 1) * rows_of_block_); }

/// Calls work(candidate) for those of a block that are looked for, were not found yet and are no less than `at_least`,
/// until it returns false.
template <class Work>
void BestFirst::for_each_left(int64_t block, float at_least, Work work) const {
  for (int64_t row = block * rows_of_block_; row < end_of(block); ++row) {
    const float* const scores = scores_.row(row);
    for (int64_t c = 0; c < scores_.classes; ++c) {
      if (!(scores[c] >= at_least && scores[c] > threshold_) || left_out_[static_cast<size_t>(c)]) continue;
      const Candidate candidate{scores[c], static_cast<int32_t>(c), row};
      if ((!last_ || better(*last_, candidate)) && !work(candidate)) return;
    }
  }
}

/// false: nothing is left. A portion may be empty: what its blocks promised was of classes left out since.
bool BestFirst::find_portion() {
  found_.clear();
  position_ = 0;
  std::vector<float> bests;
  std::ranges::copy_if(best_left_, std::back_inserter(bests), [](float best) { return best > kNone; });
  if (bests.empty()) return false;
  // So many blocks have a score of that much that the portion is found in them.
  float at_least = kNone;
  if (bests.size() > portion_) {
    std::nth_element(bests.begin(), bests.begin() + static_cast<std::ptrdiff_t>(portion_) - 1, bests.end(),
                     std::greater<>());
    at_least = bests[portion_ - 1];
  }
  std::vector<int64_t> blocks;
  for (size_t b = 0; b < best_left_.size(); ++b)
    if (best_left_[b] > kNone && best_left_[b] >= at_least) blocks.push_back(static_cast<int64_t>(b));

  std::optional<Candidate> worst;  // of a full portion: what is not better is for later
  float enough = at_least;
  for (const int64_t block : blocks)
    for_each_left(block, enough, [&](const Candidate& candidate) {
      if (worst && !better(candidate, *worst)) return true;
      found_.push_back(candidate);
      if (found_.size() < 4 * portion_) return true;
      const auto end = found_.begin() + static_cast<std::ptrdiff_t>(portion_);
      std::nth_element(found_.begin(), end - 1, found_.end(), better);
      found_.erase(end, found_.end());
      worst = found_.back();
      enough = worst->score;
      return true;
    });
  std::ranges::sort(found_, better);
  if (!found_.empty()) last_ = found_.back();
  for (const int64_t block : blocks) {
    float best = kNone;
    for_each_left(block, kNone, [&](const Candidate& candidate) {
      best = std::max(best, candidate.score);
      return best < last_->score;  // none that is left is better (the first portion has one, so there is a last)
    });
    best_left_[static_cast<size_t>(block)] = best;
  }
  portion_ *= 4;
  return true;
}

}  // namespace osprey::boxes
