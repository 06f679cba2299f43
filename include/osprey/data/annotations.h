#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "osprey/core/box.h"

namespace osprey::data {

/// One object as an annotation file describes it.
struct AnnotatedObject {
  std::string name;   ///< class name as the data spells it
  Box box_px;         ///< pixels of the annotated size
  float area_px = 0;  ///< of the object's outline; 0 where only the box is known
  bool is_crowd = false, difficult = false, truncated = false;
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
  /// Of all kinds whose words begin so.
  int64_t count(const std::string& beginning) const;
  /// "3 box(es) left out, being empty: a.xml box 2, b.xml box 0, ..."; empty when all was well.
  std::vector<std::string> lines() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::pair<int64_t, std::vector<std::string>>> kinds_;
};

/// A set of annotated pictures.
class AnnotationSource {
 public:
  virtual ~AnnotationSource() = default;
  virtual int64_t size() const = 0;

  /// Picture `index` in [0, size()); for any number of threads. Problems are counted.
  /// returns false where nothing can be made of it
  virtual bool read(int64_t index, AnnotatedImage& image, Problems& problems) const = 0;

  /// Class names with the ids that a new label map gives them, from 1. Looks at all data, whatever split is read.
  virtual std::vector<std::pair<int, std::string>> classes() const = 0;
};

/// The names in a list file: one per line, with or without an ending or a second column, blank lines and double names
/// left out.
///
/// throws  DataError when the file cannot be read or names nothing
std::vector<std::string> read_split(const std::string& file);

}  // namespace osprey::data
