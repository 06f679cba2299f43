#include "osprey/data/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "csv_pictures.h"
#include "csv_rows.h"
#include "data/text_lines.h"
#include "osprey/base/error.h"
#include "picture_finder.h"
#include "split_index.h"
#include "upright_picture.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

// What a file may be called after: "train_labels.csv" and "train-annotations-bbox.csv" have pictures of train.
std::vector<std::string> subsets_of_csv(const std::string& file) {
  const std::string stem = fs::path(file).stem().string();
  std::vector<std::string> result{stem};
  for (const char* ending : {"_labels", "_annotations", "-annotations-bbox"})
    if (stem.ends_with(ending)) result.push_back(stem.substr(0, stem.size() - std::string_view(ending).size()));
  return result;
}

// The second column of class descriptions, by the first.
std::map<std::string, std::string> display_names(const std::string& file, Problems& problems) {
  std::map<std::string, std::string> result;
  char separator = ',';
  for_each_line(file, [&](const std::string& line, int64_t number) {
    if (number == 1) separator = csv_separator(line);
    if (without_blanks(line).empty()) return;
    const auto fields = csv_fields(line, separator);
    if (!fields || fields->size() < 2 || (*fields)[0].empty() || (*fields)[1].empty())
      problems.add("class description(s) left out, not being \"class,name\"", fmt::format("{}:{}", file, number));
    else
      result.emplace((*fields)[0], (*fields)[1]);
  });
  if (result.empty()) throw DataError(file + ": describes no classes");
  return result;
}

class Csv final : public AnnotationSource {
 public:
  Csv(CsvOptions options, Problems& problems)
      : options_(std::move(options)), finder_(options_.input, options_.image_dir, subsets_of_csv(options_.input)) {
    if (!options_.class_descriptions.empty())
      display_names_ = data::display_names(options_.class_descriptions, problems);
    csv_ = read_csv_pictures(options_.input, problems);
    for (const CsvPictures::Picture& picture : csv_.pictures)
      finder_.expect(csv_.is_open_images ? with_ending(picture.name) : picture.name);
    order_.resize(csv_.pictures.size());
    for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int64_t>(i);
    if (options_.split.empty()) return;
    std::vector<std::vector<std::string>> names;
    for (const CsvPictures::Picture& picture : csv_.pictures) {
      names.push_back(names_of_file(slashed(picture.name)));
      names.back().push_back(picture.name);
    }
    order_ = select_split(options_.split, names, problems);
  }

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }

  bool read(int64_t index, AnnotatedImage& image, Problems& problems) const override {
    const CsvPictures::Picture& picture = picture_at(index);
    image.source_id = image.file_name = picture.name;
    image.width = picture.width;
    image.height = picture.height;
    image.path = csv_.is_open_images ? finder_.find_any_ending(image.file_name, problems)  // an ImageID has none
                                     : finder_.find(image.file_name, problems);
    if (csv_.is_open_images && (image.path.empty() || !read_upright(image))) return true;  // is said later
    const float width = csv_.is_open_images ? static_cast<float>(image.width) : 1,
                height = csv_.is_open_images ? static_cast<float>(image.height) : 1;
    for (const CsvPictures::Row& row : picture.rows) {
      const auto [xmin, ymin, xmax, ymax] = row.corners;
      AnnotatedObject& object = image.objects.emplace_back();
      object.name = csv_.class_names[row.class_index];
      object.box_px = {ymin * height, xmin * width, ymax * height, xmax * width};
      object.truncated = row.truncated;
      object.group_of = row.group_of;
    }
    return true;
  }

  RecordOrigin origin(int64_t index) const override { return {options_.input, index, -1, picture_at(index).name}; }

  std::vector<std::pair<int, std::string>> classes() const override {
    std::vector<std::string> names = csv_.class_names;
    std::sort(names.begin(), names.end());
    std::vector<std::pair<int, std::string>> result;
    for (const std::string& name : names) result.emplace_back(static_cast<int>(result.size()) + 1, name);
    return result;
  }

  std::string display_name(const std::string& class_name) const override {
    const auto found = display_names_.find(class_name);
    return found == display_names_.end() ? "" : found->second;
  }

 private:
  const CsvPictures::Picture& picture_at(int64_t index) const {
    return csv_.pictures[static_cast<size_t>(order_.at(static_cast<size_t>(index)))];
  }

  CsvOptions options_;
  PictureFinder finder_;
  std::map<std::string, std::string> display_names_;
  CsvPictures csv_;
  std::vector<int64_t> order_;
};

}  // namespace

std::unique_ptr<AnnotationSource> open_csv(const CsvOptions& options, Problems& problems) {
  return std::make_unique<Csv>(options, problems);
}

}  // namespace osprey::data
