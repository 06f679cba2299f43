#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// What became of a detection or an object at IoU 0.5 and one score threshold, matched as the confusion matrix is.
enum class Verdict {
  kRight,       ///< a detection and an object of the same class
  kConfused,    ///< ... of two classes
  kFalseAlarm,  ///< a detection where no object is that another one has not taken
  kMissed,      ///< an object that no detection took
  kLeftOut      ///< counts neither way: crowds, what lies in one, detections beyond the hundred best of a class
};

struct JudgedBox {
  std::array<double, 4> box_xywh;  ///< [x, y, width, height] in pixels of the original picture
  int64_t category = 0;            ///< index into the categories
  double score = -1;               ///< below 0: an object
  Verdict verdict = Verdict::kLeftOut;
  int64_t other = -1;  ///< kConfused: the category of the object (of a detection), of the detection (of an object)
};

/// An image of the gallery.
struct GalleryImage {
  std::string id;
  int64_t batch = 0, row = 0;              ///< where the source gives it
  double height = 0, width = 0;            ///< of the original picture, pixels
  std::vector<JudgedBox> detections = {};  ///< from the threshold up
  std::vector<JudgedBox> objects = {};     ///< of the classes evaluated
  int64_t right = 0, confused = 0, false_alarms = 0, missed = 0;
  double error_score = 0;  ///< sum of the scores of false alarms and confusions: how sure the detector was of them
  std::string jpeg = {};   ///< detections left, objects right, coloured by verdict

  int64_t num_errors() const { return confused + false_alarms + missed; }
};

/// The images that a detector does worst on, and those it does best on.
struct Gallery {
  std::vector<GalleryImage> worst = {};  ///< most errors first, of equals the highest error_score; all have an error
  std::vector<GalleryImage> best = {};   ///< fewest errors first, of equals the most right; all have something right
};                                       ///< and are not among the worst; of equals the earlier in the data set

struct EvaluationResult;

/// Writes `<eval_dir>/gallery_<step>/`: gallery.json, the pictures and index.html, one page without scripts that shows
/// them with the tables, the curves and the confusion matrix of the result. Pictures that an earlier, larger gallery of
/// that step has left are removed.
///
/// result  has `at_iou_50`
/// throws  DataError where a file cannot be written
void write_gallery(const EvaluationResult& result, const std::string& eval_dir, int64_t step);

}  // namespace osprey::eval
