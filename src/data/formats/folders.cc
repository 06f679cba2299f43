#include "osprey/data/folders.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "osprey/base/error.h"
#include "osprey/data/picture_files.h"
#include "split_index.h"
#include "upright_picture.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

class Folders final : public AnnotationSource {
 public:
  Folders(const FoldersOptions& options, Problems& problems) {
    std::error_code ignored;
    if (!fs::is_directory(options.input, ignored))
      throw DataError(options.input + (fs::exists(options.input, ignored) ? ": is no folder" : ": no such folder"));
    const fs::path input = fs::path(options.input).lexically_normal();  // as the pictures' paths are
    std::vector<std::vector<std::string>> names;
    for (std::string& path : pictures_below(options.input)) {
      const fs::path below = fs::path(path).lexically_relative(input);
      if (!below.has_parent_path()) {
        problems.add("picture(s) left out, lying in no folder of a class", path);
        continue;
      }
      if (std::ranges::any_of(below, [](const fs::path& part) { return part.string().starts_with('.'); })) {
        problems.add("picture(s) left out, being hidden", path);
        continue;
      }
      const std::string& name = *classes_.insert(below.begin()->string()).first;
      names.push_back(names_of_file(below.string()));
      order_.push_back(static_cast<int64_t>(pictures_.size()));
      pictures_.push_back({below.generic_string(), std::move(path), &name});
    }
    if (pictures_.empty())
      throw DataError(options.input + ": has no folders with pictures, one for each class" + problems.after_text());
    if (!options.split.empty()) order_ = select_split(options.split, names, problems);
  }

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }

  bool read(int64_t index, AnnotatedImage& image, Problems&) const override {
    const Picture& picture = picture_at(index);
    image.source_id = image.file_name = picture.name;
    image.path = picture.path;
    if (!read_upright(image)) return true;  // is said later
    AnnotatedObject whole;
    whole.name = *picture.class_name;
    whole.box_px = {0, 0, static_cast<float>(image.height), static_cast<float>(image.width)};
    image.objects = {whole};
    return true;
  }

  RecordOrigin origin(int64_t index) const override { return {picture_at(index).path, index, -1, ""}; }

  std::vector<std::pair<int, std::string>> classes() const override {
    std::vector<std::pair<int, std::string>> result;
    for (const std::string& name : classes_) result.emplace_back(static_cast<int>(result.size()) + 1, name);
    return result;
  }

 private:
  struct Picture {
    std::string name;  // below the input
    std::string path;
    const std::string* class_name;  // in classes_
  };

  const Picture& picture_at(int64_t index) const {
    return pictures_[static_cast<size_t>(order_.at(static_cast<size_t>(index)))];
  }

  std::set<std::string> classes_;
  std::vector<Picture> pictures_;
  std::vector<int64_t> order_;
};

}  // namespace

std::unique_ptr<AnnotationSource> open_folders(const FoldersOptions& options, Problems& problems) {
  return std::make_unique<Folders>(options, problems);
}

}  // namespace osprey::data
