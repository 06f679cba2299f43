#pragma once
#include <optional>
#include <string>
#include <vector>

namespace osprey::data {

/// The fields of a line of CSV (RFC 4180), without blanks around them and without their quotes; nothing where a quote
/// is not closed in the line, or is followed by other than a separator.
std::optional<std::vector<std::string>> csv_fields(const std::string& line, char separator);

/// What separates the fields of a file whose first line this is: a comma where it has one, else a semicolon or a tab.
char csv_separator(const std::string& first_line);

/// Where the fields of a row of boxes stand.
struct CsvColumns {
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t picture = 0, class_name = 5, xmin = 1, ymin = 2, xmax = 3, ymax = 4;  ///< of a file without header
  size_t width = kNone, height = kNone, is_group_of = kNone, is_truncated = kNone;
  bool has_header = false;
  bool is_open_images = false;  ///< coordinates are fractions, pictures have no endings
};

/// The columns of a file by the fields of its first line; nothing where that is neither a header nor a row.
std::optional<CsvColumns> csv_columns(const std::vector<std::string>& first_line);

}  // namespace osprey::data
