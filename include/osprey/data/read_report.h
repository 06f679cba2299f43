#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "osprey/base/error.h"

namespace osprey::data {

/// A record that cannot be used although its framing is sound: an undecodable image, lists that disagree. Whoever reads
/// may skip and count it; any other DataError ends the run.
class BadRecord : public DataError {
 public:
  using DataError::DataError;
};

/// What a reader met that a user should hear of. Counts each thing once however often the record is read; any number of
/// threads may add.
class ReadReport {
 public:
  enum class Problem {
    kClippedBox,            ///< cut to the image
    kDroppedBox,            ///< left out: NaN, inverted, empty, outside the image
    kRotatedImage,          ///< turned upright as its EXIF orientation says, to agree with the annotated size
    kAmbiguousOrientation,  ///< EXIF orientation that the annotated size does not decide; the picture is taken as
                            ///< stored
    kTextDisagrees,         ///< class text and class label name different classes; the text was taken
  };
  static constexpr int kNumProblems = 5;

  /// place    what makes it one thing: record and box, as `RecordOrigin::describe` and a box index
  /// details  what was found there
  void add(Problem problem, const std::string& place, const std::string& details);

  int64_t count(Problem problem) const;

  /// One line for each kind of problem that was met, with its count and the first three places; empty when all was
  /// well.
  std::vector<std::string> lines() const;

 private:
  struct Entry {
    std::unordered_set<uint64_t> places;  // hashes
    std::vector<std::string> first;
  };
  mutable std::mutex mutex_;
  std::array<Entry, kNumProblems> entries_;
};

}  // namespace osprey::data
