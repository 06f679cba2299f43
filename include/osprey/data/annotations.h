#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "osprey/config/label_map.h"
#include "osprey/core/box.h"
#include "osprey/data/record_file.h"

namespace osprey::data {

/// How annotations are written down; kShapes: not at all, pictures are made with their objects.
enum class AnnotationFormat { kVoc, kCoco, kYolo, kCsv, kCvat, kKitti, kFolders, kShapes };

/// Annotations in files.
struct AnnotationSet {
  AnnotationFormat format = AnnotationFormat::kVoc;
  std::string input;  ///< folder of VOC's or KITTI's files or of classes; JSON, CSV or CVAT's XML file; YOLO data set
  std::string image_dir;  ///< where the pictures lie, if not in the usual places
  std::string split;      ///< list of names to use, split of YOLO's or subset of CVAT's set; "" for all (YOLO: train)
  std::string class_descriptions;  ///< CSV: class and display name, two columns; "" for none
};

/// One object as an annotation file describes it.
struct AnnotatedObject {
  std::string name;   ///< class name as the data spells it
  Box box_px;         ///< pixels of the annotated size
  float area_px = 0;  ///< of the object's outline; 0 where only the box is known
  bool is_crowd = false, difficult = false, truncated = false;
  bool group_of = false;  ///< one box around several objects, as in Open Images
  /// Its weight is 0: of anchors that match it training learns nothing; others are background, as beside any box.
  /// Metrics leave out what is found in it where it is a crowd (COCO) and difficult (Pascal), too.
  bool ignored = false;
};

/// One picture with its objects.
struct AnnotatedImage {
  std::string source_id;
  std::string file_name;          ///< as the annotation spells it
  std::string path;               ///< where the picture lies; "" where it was not found
  std::string encoded;            ///< the picture itself, of sources that make or have read it; else empty
  int64_t height = 0, width = 0;  ///< as annotated; 0: not said
  std::vector<AnnotatedObject> objects;
};

/// Counts what was wrong with a data set, by kind, and keeps the first places of each. For any number of threads.
class Problems {
 public:
  void add(const std::string& kind, const std::string& place);
  /// The same for a picture of which nothing can be made, as "<what> left out, <why>".
  void add_unusable(const std::string& what, const std::string& why, const std::string& place);
  /// All that another has counted, but for pictures of which nothing can be made.
  void add(const Problems& other);
  /// Of all kinds whose words begin so.
  int64_t count(const std::string& beginning) const;
  /// "3 box(es) left out, being empty: a.xml box 2, b.xml box 0, ..."; empty when all was well.
  std::vector<std::string> lines() const;
  /// These after what they led to: "; 3 box(es) left out, ..."; empty when all was well.
  std::string after_text() const;
  /// "not found: a.jpg": why nothing could be made of the first such picture; "" where there was none.
  std::string first_unusable() const;

 private:
  struct Kind {
    int64_t count = 0;
    std::vector<std::string> first;  // places
    bool is_unusable = false;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Kind> kinds_;
  std::string first_unusable_;
};

/// A set of annotated pictures.
class AnnotationSource {
 public:
  virtual ~AnnotationSource() = default;
  virtual int64_t size() const = 0;

  /// Picture `index` in [0, size()); for any number of threads. Problems are counted.
  /// returns false where nothing can be made of it
  virtual bool read(int64_t index, AnnotatedImage& image, Problems& problems) const = 0;

  /// The annotation file of picture `index`, and its name there where the file has several; without looking at the
  /// disk.
  virtual RecordOrigin origin(int64_t index) const = 0;

  /// Class names with the ids that a new label map gives them, from 1. Looks at all data, whatever split is read.
  /// throws  DataError where objects are there but none can be read
  virtual std::vector<std::pair<int, std::string>> classes() const = 0;

  /// What people read for a class; "" where the set does not say.
  virtual std::string display_name(const std::string& /*class_name*/) const { return ""; }
};

/// Opens annotations of any format but kShapes; see `open_voc`, `open_coco`, `open_yolo`, `open_csv`, `open_cvat`,
/// `open_kitti` and `open_folders` for what each reads and throws.
std::unique_ptr<AnnotationSource> open_annotations(const AnnotationSet& set, Problems& problems);

/// A new label map: the classes of a source with their ids.
/// input     what messages call the source
/// problems  that the source met, for the message where it has no classes
/// throws    DataError where it has none, or one whose name is not UTF-8
config::LabelMap new_label_map(const AnnotationSource& source, const std::string& input, const Problems& problems);

/// The names in a list file: one per line, with or without an ending or a second column, blank lines and double names
/// left out.
///
/// throws  DataError when the file cannot be read or names nothing
std::vector<std::string> read_split(const std::string& file);

}  // namespace osprey::data
