#include "csv_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <utility>

#include "csv_rows.h"
#include "data/text_lines.h"
#include "osprey/base/error.h"

namespace osprey::data {
namespace {

class Reader {
 public:
  Reader(const std::string& file, Problems& problems) : file_(file), problems_(problems) {}

  CsvPictures read() && {
    std::error_code ignored;
    if (std::filesystem::is_directory(file_, ignored))
      throw DataError(file_ + ": is a folder; the input of this format is a CSV file");
    for_each_line(file_, [&](const std::string& line, int64_t number) { add_line(line, number); });
    if (result_.pictures.empty())
      throw DataError(fmt::format("{}: has no row of a picture{}", file_, problems_.after_text()));
    if (!result_.is_open_images && largest_ > 0 && largest_ <= 1)
      throw DataError(file_ +
                      ": all its coordinates are between 0 and 1, but this form has pixels; fractions are read from a "
                      "file whose column of pictures is called ImageID");
    return std::move(result_);
  }

 private:
  void add_line(const std::string& line, int64_t number) {
    if (without_blanks(line).empty()) return;
    if (!separator_) separator_ = csv_separator(line);
    const auto fields = csv_fields(line, *separator_);
    if (!is_open_) {
      const auto columns = fields ? csv_columns(*fields) : std::nullopt;
      if (!columns)
        throw DataError(fmt::format(
            "{}:{}: is neither a header with filename (or ImageID), class (or LabelName), xmin, ymin, xmax and ymax "
            "nor a row \"path,x1,y1,x2,y2,class\": '{}'",
            file_, number, shown(line)));
      columns_ = *columns;
      result_.is_open_images = columns_.is_open_images;
      is_open_ = true;
      if (columns_.has_header) return;
    }
    const size_t needed =
        std::max({columns_.picture, columns_.class_name, columns_.xmin, columns_.ymin, columns_.xmax, columns_.ymax}) +
        1;
    if (!fields || fields->size() < needed || (*fields)[columns_.picture].empty())
      return problems_.add("row(s) left out, having too few fields, no picture or an open quote", place(line, number));
    add_row(*fields, line, number);
  }

  void add_row(const std::vector<std::string>& fields, const std::string& line, int64_t number) {
    const auto flag = [&](size_t column) { return column < fields.size() && fields[column] == "1"; };
    const auto size = [&](size_t column) { return column < fields.size() ? pixels_of(fields[column]) : 0; };
    const auto [known, is_new] = index_of_.emplace(fields[columns_.picture], result_.pictures.size());
    if (is_new) result_.pictures.push_back({fields[columns_.picture], size(columns_.width), size(columns_.height), {}});
    const std::array<const std::string*, 4> corners = {&fields[columns_.xmin], &fields[columns_.ymin],
                                                       &fields[columns_.xmax], &fields[columns_.ymax]};
    if (std::all_of(corners.begin(), corners.end(), [](const std::string* text) { return text->empty(); })) return;
    CsvPictures::Row row;
    for (size_t i = 0; i < corners.size(); ++i) row.corners[i] = static_cast<float>(number_of(*corners[i]));
    if (!std::all_of(row.corners.begin(), row.corners.end(), [](float v) { return std::isfinite(v); }))
      return problems_.add("object(s) left out, their coordinates not being numbers", place(line, number));
    const std::string& name = fields[columns_.class_name];
    if (name.empty()) return problems_.add("object(s) left out, having no class", place(line, number));
    const auto [class_index, is_new_class] =
        index_of_class_.emplace(name, static_cast<uint32_t>(result_.class_names.size()));
    if (is_new_class) result_.class_names.push_back(name);
    row.class_index = class_index->second;
    row.truncated = flag(columns_.is_truncated);
    row.group_of = flag(columns_.is_group_of);
    for (const float corner : row.corners) largest_ = std::max(largest_, std::abs(corner));
    result_.pictures[known->second].rows.push_back(row);
  }

  std::string place(const std::string& line, int64_t number) const {
    return fmt::format("{}:{}: '{}'", file_, number, shown(line));
  }

  static std::string shown(const std::string& line) {
    constexpr size_t kShown = 80;
    return line.size() > kShown ? line.substr(0, kShown) + "..." : line;
  }

  const std::string& file_;
  Problems& problems_;
  std::optional<char> separator_;
  CsvColumns columns_;
  bool is_open_ = false;                              // the columns are known
  float largest_ = 0;                                 // coordinate
  std::unordered_map<std::string, size_t> index_of_;  // of pictures
  std::unordered_map<std::string, uint32_t> index_of_class_;
  CsvPictures result_;
};

}  // namespace

CsvPictures read_csv_pictures(const std::string& file, Problems& problems) { return Reader(file, problems).read(); }

}  // namespace osprey::data
