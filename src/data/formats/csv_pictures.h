#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/data/annotations.h"

namespace osprey::data {

/// The pictures of a CSV file with the boxes in their rows; see `open_csv` for the forms.
struct CsvPictures {
  struct Row {
    std::array<float, 4> corners{};  ///< xmin, ymin, xmax, ymax
    uint32_t class_index = 0;        ///< into class_names
    bool truncated = false, group_of = false;
  };
  struct Picture {
    std::string name;               ///< as the file spells it
    int64_t width = 0, height = 0;  ///< as its first row says; 0: not said
    std::vector<Row> rows;
  };
  bool is_open_images = false;  ///< coordinates are fractions, names have no endings
  std::vector<Picture> pictures;
  std::vector<std::string> class_names;
};

/// Reads them. Rows and boxes that cannot be read are left out, counted with file and line.
/// throws  DataError: cannot be read, is none of the forms, has no pictures, has fractions where pixels belong
CsvPictures read_csv_pictures(const std::string& file, Problems& problems);

}  // namespace osprey::data
