#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace osprey::eval {

/// The value of a metric that does not exist, such as the AP of a class without ground truth. "n/a" in tables, null in
/// JSON.
inline constexpr double kNotAvailable = std::numeric_limits<double>::quiet_NaN();

/// A class as files name it.
struct Category {
  int64_t id = 0;    ///< as in the label map: 1 is class 0 inside
  std::string name;  ///< display name
};

/// A box in pixels of the original picture; double, so that a metric equals its reference to the last digits.
struct BoxPx {
  double ymin = 0, xmin = 0, ymax = 0, xmax = 0;
};

/// The annotations of one image. Lists other than boxes and classes may be empty, which means false (or no area)
/// throughout.
struct ImageGroundTruth {
  std::vector<BoxPx> boxes_px = {};
  std::vector<int64_t> classes = {};        ///< category ids
  std::vector<uint8_t> is_crowd = {};       ///< one box for many objects (COCO)
  std::vector<uint8_t> difficult = {};      ///< need not be found (Pascal VOC)
  std::vector<uint8_t> group_of = {};       ///< one box for many objects (Open Images)
  std::vector<double> area = {};            ///< pixels; 0 where not annotated: the box's area is taken
  std::vector<int64_t> image_classes = {};  ///< category ids the picture as a whole is labelled with (Open Images)
  bool all_classes_annotated = false;       ///< every class was looked for, not only those of boxes and of the picture
  double height = 0, width = 0;             ///< of the original picture; 0 where not known
};

/// What a detector found on one image, in any order; ties keep the order given.
struct ImageDetections {
  std::vector<BoxPx> boxes_px = {};
  std::vector<double> scores = {};
  std::vector<int64_t> classes = {};  ///< category ids
};

/// One number of an evaluation under the tag that TensorBoard shows, e.g. "DetectionBoxes_Precision/mAP".
struct MetricValue {
  std::string name;
  double value = kNotAvailable;
};

/// One row of the per-class table.
struct ClassMetrics {
  Category category;
  double ap = kNotAvailable;     ///< the metric's own average precision (COCO: mean over IoU 0.50:0.95)
  double ap50 = kNotAvailable;   ///< at IoU 0.5
  double ar = kNotAvailable;     ///< average recall (COCO: 100 detections)
  int64_t num_ground_truth = 0;  ///< objects that have to be found
  int64_t num_detections = 0;
};

/// What `eval_config` says about metrics beside their names.
struct MetricsOptions {
  bool include_metrics_per_category = false;                 ///< also one value per class
  bool all_metrics_per_category = false;                     ///< also every COCO number per class
  std::map<std::string, std::string> super_categories = {};  ///< name -> class names joined by ','
  double recall_lower_bound = 0, recall_upper_bound = 1;     ///< of precision_at_recall_detection_metrics
  int num_threads = 0;                                       ///< 0: one per core
};

struct AtIou50;

/// A detection metric: is told every image once, then computes.
///
///     auto metrics = make_metrics("coco_detection_metrics", categories);
///     metrics->add_image("000001", truth, found);
///     for (const MetricValue& value : metrics->values()) ...
///
/// The numbers do not depend on the order of images: they are sorted by id first. Not thread safe.
class DetectionMetrics {
 public:
  virtual ~DetectionMetrics() = default;

  /// Detections and annotations of classes outside the categories are left out.
  /// throws DataError where an image is added twice, or lists differ in length
  virtual void add_image(const std::string& image_id, const ImageGroundTruth& truth, const ImageDetections& found) = 0;

  /// Every number of the metric, main number first; kNotAvailable where one does not exist.
  virtual std::vector<MetricValue> values() const = 0;

  /// One row per category, in their order.
  virtual std::vector<ClassMetrics> per_class() const = 0;

  /// The matches at IoU 0.5 in detail, classes in the order of the categories; null where the metric does not know
  /// them. Valid until the next image is added.
  virtual const AtIou50* at_iou_50() const { return nullptr; }
};

/// Builds the metric of an `eval_config.metrics_set` entry, e.g. "coco_detection_metrics",
/// "pascal_voc_detection_metrics".
///
/// throws  ConfigError for an unknown name, with the list of the known ones; for a name of the OD API that is not built
///         yet it says so
std::unique_ptr<DetectionMetrics> make_metrics(const std::string& name, const std::vector<Category>& categories,
                                               const MetricsOptions& options = {});

/// The names that `make_metrics` knows, sorted.
std::vector<std::string> known_metrics();

}  // namespace osprey::eval
