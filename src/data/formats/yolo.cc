#include "osprey/data/yolo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "data/text_lines.h"
#include "osprey/base/error.h"
#include "picture_index.h"
#include "split_index.h"
#include "upright_picture.h"
#include "yolo_dataset.h"
#include "yolo_paths.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

class Yolo final : public AnnotationSource {
 public:
  Yolo(YoloOptions options, Problems& problems)
      : options_(std::move(options)), set_(read_yolo_dataset(options_.input, problems)), folders_(set_.folders) {
    if (!options_.image_dir.empty())
      folders_.insert(folders_.begin(), fs::path(options_.image_dir).lexically_normal().string());
    choose(problems);
    look_for_labels();
  }

  int64_t size() const override { return static_cast<int64_t>(pictures_.size()); }

  bool read(int64_t index, AnnotatedImage& image, Problems& problems) const override {
    const Picture& picture = pictures_.at(static_cast<size_t>(index));
    image.file_name = picture.spelled;
    image.path = picture.path;
    image.source_id = image.path.empty() ? picture.spelled : relative(image.path);
    if (image.path.empty() || !read_upright(image)) return true;
    const std::string labels = labels_of(picture);
    if (labels.empty()) {
      problems.add("picture(s) without a label file, taken to have no objects", image.path);
      return true;
    }
    std::vector<std::string> lines;
    try {
      lines = text_lines(labels);
    } catch (const DataError& error) {
      problems.add_unusable("picture(s)", "their label files not being readable", error.what());
      return false;
    }
    if (std::all_of(lines.begin(), lines.end(), [](const std::string& line) { return without_blanks(line).empty(); }))
      problems.add("picture(s) with an empty label file, taken to have no objects", labels);
    image.objects = yolo_objects(lines, labels, image.height, image.width, set_.labels, problems);
    return true;
  }

  RecordOrigin origin(int64_t index) const override {
    return {set_.file, index, -1, pictures_.at(static_cast<size_t>(index)).spelled};
  }

  std::vector<std::pair<int, std::string>> classes() const override {
    std::vector<std::pair<int, std::string>> result;
    std::unordered_set<std::string> seen;
    for (const auto& [id, name] : set_.labels.names)
      if (!name.empty() && seen.insert(name).second) result.emplace_back(static_cast<int>(id) + 1, name);
    return result;
  }

 private:
  struct Picture {
    std::string spelled;  // in a list, or below a folder of the data set
    std::string path;     // "" of a list: not found, or not looked for yet
  };

  void choose(Problems& problems) {
    const bool has_splits = !(set_.splits.size() == 1 && set_.splits[0].name.empty());
    const std::string wanted = options_.split.empty() && has_splits ? "train" : options_.split;
    std::vector<std::string> known;
    for (const YoloDataset::Split& split : set_.splits) {
      if (same_split(split.name, wanted)) {
        add(split);
        return find_listed();
      }
      if (!split.name.empty()) known.push_back(split.name);
    }
    std::error_code ignored;
    if (!fs::is_regular_file(options_.split, ignored))
      throw ConfigError(fmt::format("--split {}: is neither a split of {} ({}) nor a file that lists pictures", wanted,
                                    set_.file,
                                    known.empty() ? "which has none" : fmt::format("{}", fmt::join(known, ", "))));
    for (const YoloDataset::Split& split : set_.splits) {
      try {
        add(split);
      } catch (const DataError& error) {
        problems.add("split(s) left out, without pictures", error.what());
      }
    }
    find_listed();
    std::vector<std::vector<std::string>> names;
    for (const Picture& picture : pictures_) {
      names.push_back(names_of_file(slashed(picture.spelled)));
      names.back().push_back(picture.spelled);
    }
    std::vector<Picture> chosen;
    for (int64_t index : select_split(options_.split, names, problems))
      chosen.push_back(pictures_[static_cast<size_t>(index)]);
    pictures_ = std::move(chosen);
  }

  void add(const YoloDataset::Split& split) {
    for (const std::string& place : split.places) {
      const std::string found = find_yolo_place(place, folders_);
      if (found.empty())
        throw DataError(fmt::format("{}: {}: no such folder or list of pictures: {} (looked for in {})", split.origin,
                                    split.name, place, fmt::join(folders_, ", ")));
      std::error_code ignored;
      if (fs::is_directory(found, ignored)) {
        for (const std::string& path : pictures_below(found)) pictures_.push_back({relative(path), path});
      } else if (fs::path(found).extension() == ".txt") {
        const std::string folder = fs::path(found).parent_path().string();
        if (std::find(folders_.begin(), folders_.end(), folder) == folders_.end()) folders_.push_back(folder);
        for (const std::string& line : text_lines(found))
          if (const std::string name = without_blanks(line); !name.empty()) pictures_.push_back({name, ""});
      } else {
        throw DataError(
            fmt::format("{}: {}: {} is neither a folder nor a .txt list of pictures", split.origin, split.name, found));
      }
    }
    if (pictures_.empty())
      throw DataError(fmt::format("{}: {}: no pictures in {}", split.origin,
                                  split.name.empty() ? "pictures" : split.name, fmt::join(split.places, ", ")));
  }

  // Looks for what lists name, now that all folders are known that their paths may begin in. A picture of several
  // spellings stays once, as the first spells it.
  void find_listed() {
    std::unordered_set<std::string> seen;
    std::vector<Picture> once;
    std::error_code ignored;
    for (Picture& picture : pictures_) {
      if (picture.path.empty()) picture.path = find_yolo_file(picture.spelled, folders_);
      const fs::path plain =
          picture.path.empty() ? fs::path(slashed(picture.spelled)) : fs::absolute(picture.path, ignored);
      if (seen.insert(plain.lexically_normal().string()).second) once.push_back(std::move(picture));
    }
    pictures_ = std::move(once);
  }

  // Pictures without labels are usual; a data set without any is one whose labels lie elsewhere.
  void look_for_labels() const {
    std::string without;
    for (const Picture& picture : pictures_) {
      if (picture.path.empty()) continue;
      if (!labels_of(picture).empty()) return;
      if (without.empty()) without = picture.path;
    }
    if (!without.empty())
      throw DataError(fmt::format("{}: none of {} pictures has a label file; that of {} would be {}", options_.input,
                                  pictures_.size(), without, fmt::join(label_files(without), " or ")));
  }

  std::string labels_of(const Picture& picture) const {
    std::error_code ignored;
    for (const std::string& file : label_files(picture.path))
      if (fs::exists(file, ignored)) return file;
    if (options_.image_dir.empty()) return "";
    // The pictures lie elsewhere than the labels do.
    for (const std::string& name : label_files(slashed(picture.spelled)))
      for (const std::string& spelled : {name, "labels/" + name})
        if (const std::string file = find_yolo_file(spelled, set_.folders); !file.empty()) return file;
    return "";
  }

  std::string relative(const std::string& path) const {
    for (const std::string& folder : folders_)
      if (const std::string below = fs::path(path).lexically_relative(folder).generic_string();
          !below.empty() && !below.starts_with(".."))
        return below;
    return path;
  }

  YoloOptions options_;
  YoloDataset set_;
  std::vector<std::string> folders_;  // that paths may begin in: image_dir, those of the data set, those of its lists
  std::vector<Picture> pictures_;
};

}  // namespace

std::unique_ptr<AnnotationSource> open_yolo(const YoloOptions& options, Problems& problems) {
  return std::make_unique<Yolo>(options, problems);
}

}  // namespace osprey::data
