#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace osprey::boxes {

/// The scores of one image, row by row.
struct ScoreTable {
  const float* values;
  int64_t rows;     ///< that are not padding
  int64_t classes;  ///< C
  int64_t stride;   ///< from one row to the next, >= C

  const float* row(int64_t index) const { return values + index * stride; }
};

/// The score of one class for one row.
struct Candidate {
  float score;
  int32_t label;
  int64_t row;
};

/// Higher scores first; equal ones by lower class, then by lower row.
inline bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.label != b.label ? a.label < b.label : a.row < b.row;
}

/// All scores above a threshold, best first. Usually only the first few of millions are looked at: they are read once
/// for the best one of every few rows, which says in which rows the best of all can be.
class BestFirst {
 public:
  /// scores         are kept, not copied; NaN is never a candidate
  /// first_portion  >= 1: how many are looked for at first; more, each time that is not enough
  BestFirst(const ScoreTable& scores, float threshold, int64_t first_portion);

  /// The best one of those that were not taken yet; null: there are no more.
  const Candidate* peek();
  void take() { ++position_; }

  /// No more of this class are looked for; those that were found already still come.
  void leave_out(int32_t label) { left_out_[static_cast<size_t>(label)] = true; }

 private:
  bool find_portion();
  int64_t end_of(int64_t block) const;
  template <class Work>
  void for_each_left(int64_t block, float at_least, Work work) const;

  ScoreTable scores_;
  float threshold_;
  size_t portion_, position_ = 0;
  int64_t rows_of_block_;
  std::vector<bool> left_out_;     ///< of each class
  std::vector<float> best_left_;   ///< no less than what each block of rows has left; -infinity: nothing
  std::vector<Candidate> found_;   ///< the portion, in order
  std::optional<Candidate> last_;  ///< the worst one found so far: all better ones were found before
};

}  // namespace osprey::boxes
