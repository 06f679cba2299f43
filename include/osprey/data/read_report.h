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
  enum class Cause {
    kOther,
    kNotAnExample,  ///< bytes that are no tf.Example
    kPicture,       ///< cannot be decoded
    kNoPicture,     ///< an annotation that cannot be read, or whose picture cannot
    kLengths,       ///< lists that should have a value for every box and do not
    kPixels,        ///< pixel values where fractions belong
  };
  explicit BadRecord(const std::string& message, Cause cause = Cause::kOther) : DataError(message), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
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
    kUnknownClass,          ///< a class that label map or num_classes do not have, where the decoder lets it pass
  };
  static constexpr int kNumProblems = 6;

  /// What makes a thing one thing.
  struct Place {
    std::string record;  ///< as `RecordOrigin::describe`, with the source id
    int64_t box = -1;    ///< index in the record; -1: the whole record
  };
  struct Finding {
    Problem problem = Problem::kDroppedBox;
    Place place;
    std::string details;
  };

  /// keep_findings  every finding is kept for `findings`; else counts and the first places are
  explicit ReadReport(bool keep_findings = false) : keep_findings_(keep_findings) {}

  /// details  what was found there
  void add(Problem problem, const Place& place, const std::string& details);

  int64_t count(Problem problem) const;

  /// One line for each kind of problem that was met, with its count and the first three places; empty when all was
  /// well.
  std::vector<std::string> lines() const;

  /// In the order in which they were met; empty unless they are kept.
  std::vector<Finding> findings() const;

 private:
  struct Entry {
    std::unordered_set<uint64_t> places;  // hashes
    std::vector<std::string> first;
  };
  mutable std::mutex mutex_;
  std::array<Entry, kNumProblems> entries_;
  bool keep_findings_;
  std::vector<Finding> findings_;
};

}  // namespace osprey::data
