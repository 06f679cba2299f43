#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "osprey/core/example.h"
#include "osprey/data/read_report.h"
#include "osprey/data/record_file.h"

namespace osprey::config {
struct LabelMap;
}

namespace osprey::data {

class ImageResizer;

struct DecoderOptions {
  enum class InvalidBox { kClip, kDrop, kFail };
  enum class Masks { kNone, kNumerical, kPng };
  enum class Exif { kAuto, kIgnore, kApply };

  int64_t num_classes = 0;  ///< labels in the record are 1..num_classes; 0: any id >= 1 that the label map has
  InvalidBox invalid_boxes = InvalidBox::kClip;
  bool allow_unknown_classes = false;  ///< they are reported and become class -1, instead of a ConfigError
  Exif exif = Exif::kAuto;
  Masks masks = Masks::kNone;
  int64_t num_keypoints = 0;  ///< per object; 0: keypoints are not read
  bool multiclass_scores = false;
  bool use_display_name =
      false;  ///< class texts are looked up among display names first, then names; else the other way
  /// Pictures that are much larger than this makes of them are decoded smaller, see `decode_image`; null: whole.
  std::shared_ptr<const ImageResizer> reduce_for;
  bool decode_image = true;   ///< false: `Example::image` stays undefined and `encoded` holds the picture
  bool only_picture = false;  ///< only the picture and what it is turned by is read; objects are not looked at
};

/// Turns serialized tf.Example messages into Examples. Immutable, for any number of threads.
///
/// Keys: image/{encoded, format, filename, source_id, key/sha256, height, width, class/{label, text, confidence},
/// neg_category_ids, not_exhaustive_category_ids}, image/object/{bbox/{xmin, ymin, xmax, ymax}, class/{label, text,
/// multiclass_scores}, area, is_crowd, difficult, group_of, weight, keypoint/{x, y, visibility}, mask, mask/weight}. A
/// missing key takes its default; lists of objects may be missing; others are ignored.
///
/// Classes: ids are 1-based in records and 0-based in Examples. With a label map a class text that the map has decides,
/// as in the original; else the label does.
///
/// A text that the map lacks counts as a disagreement. Image-level ids that are unknown become -1.
///
/// Boxes: a coordinate may leave the image by at most one pixel, unnoticed, and is clipped. Beyond that, and for NaN,
/// inverted and empty boxes and pixel values in a normalised field, the policy decides. kClip cuts to the image, swaps
/// nothing, and drops what is left empty; kDrop drops the box; kFail ends the run.
class ExampleDecoder {
 public:
  /// label_map may be null
  ExampleDecoder(DecoderOptions options, std::shared_ptr<const config::LabelMap> label_map);
  ~ExampleDecoder();

  /// record  one serialized tf.Example
  /// origin  where it lies, for messages
  /// report  counts clipped and dropped boxes, turned pictures
  /// throws  BadRecord for a record that cannot be used; ConfigError for a class that label map or num_classes do not
  ///         have; DataError for an invalid box under kFail; each names file, record, source id, key and value
  Example decode(std::string_view record, const RecordOrigin& origin, ReadReport& report) const;

 private:
  class Classes;
  DecoderOptions options_;
  std::shared_ptr<const config::LabelMap> label_map_;
  std::unique_ptr<const Classes> classes_;
};

}  // namespace osprey::data
