#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace osprey::data {

/// What is needed of a COCO instances file.
struct CocoContents {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();  ///< a number that the file does not give

  struct Image {
    int64_t id = kNone, width = 0, height = 0;
    std::string file_name;
  };
  struct Annotation {
    int64_t image_id = kNone, category_id = kNone;
    std::array<double, 4> xywh{};
    int box_numbers = 0;  ///< how many its box has, which should be four
    double area = 0;
    bool is_crowd = false;
  };
  struct Category {
    int64_t id = kNone;
    std::string name;
  };
  std::vector<Image> images;
  std::vector<Annotation> annotations;
  std::vector<Category> categories;
};

/// Reads it as a stream. NaN and Infinity, which Python writes although JSON has neither, are numbers of a box, and
/// elsewhere what null is: not given.
/// throws  DataError: cannot be read, not JSON (with the byte offset), a number that has to be whole and is not, no
///         images
CocoContents read_coco_contents(const std::string& file);

}  // namespace osprey::data
