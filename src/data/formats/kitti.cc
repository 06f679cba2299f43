#include "osprey/data/kitti.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "data/folder_walk.h"
#include "data/text_lines.h"
#include "kitti_rows.h"
#include "osprey/base/error.h"
#include "picture_index.h"
#include "split_index.h"
#include "upright_picture.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

std::vector<fs::path> label_folders(const std::string& input) {
  static const std::set<std::string> names{"label_2", "label_02", "labels"};
  std::error_code ignored;
  if (!fs::is_directory(input, ignored)) throw DataError(input + ": no such folder");
  const auto is_one = [&](const fs::path& folder) {
    return names.count((folder / "").parent_path().filename().string()) > 0 && fs::is_directory(folder, ignored);
  };
  if (is_one(fs::absolute(input).lexically_normal())) return {(fs::path(input) / "").parent_path()};
  std::vector<fs::path> found;
  for_each_below(input, [&](const fs::path& path, fs::file_type) {
    if (is_one(path)) found.push_back(path);
  });
  if (found.empty())
    throw DataError(input + ": has no folder label_2 or labels, itself or below, in which the .txt files of KITTI lie");
  // One that has several names is taken by that which is no link, if there is one, else by the first.
  std::sort(found.begin(), found.end());
  std::stable_partition(found.begin(), found.end(),
                        [&](const fs::path& folder) { return !fs::is_symlink(folder, ignored); });
  std::set<fs::path> taken;
  std::vector<fs::path> result;
  for (const fs::path& folder : found)
    if (taken.insert(fs::canonical(folder, ignored)).second) result.push_back(folder);
  std::sort(result.begin(), result.end());
  return result;
}

class Kitti final : public AnnotationSource {
 public:
  Kitti(KittiOptions options, Problems& problems) : options_(std::move(options)) {
    const std::vector<fs::path> folders = label_folders(options_.input);
    for (const fs::path& folder : folders) add(folder, folders.size() == 1, problems);
    bool has_labels = false;
    for (size_t i = 0; i < pictures_.size(); ++i) {
      order_.push_back(static_cast<int64_t>(i));
      has_labels = has_labels || !pictures_[i].labels.empty();
    }
    if (!has_labels) throw DataError(folders[0].string() + ": has no .txt files of labels");
    if (options_.split.empty()) return;
    std::vector<std::vector<std::string>> names;
    for (const Picture& picture : pictures_) {
      names.push_back(names_of_file(picture.name));
      for (const std::string& path : {picture.path, picture.labels})
        for (std::string& name : names_of_file(fs::path(path).lexically_relative(options_.input).string()))
          names.back().push_back(std::move(name));
    }
    order_ = select_split(options_.split, names, problems);
  }

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }

  bool read(int64_t index, AnnotatedImage& image, Problems& problems) const override {
    const Picture& picture = picture_at(index);
    image.source_id = image.file_name = picture.name;
    image.path = picture.path;
    if (image.path.empty() || !read_upright(image)) return true;  // is said later
    if (picture.labels.empty()) {
      problems.add("picture(s) without a label file, taken to have no objects", image.path);
      return true;
    }
    try {
      const std::vector<std::string> lines = text_lines(picture.labels);
      if (std::all_of(lines.begin(), lines.end(), [](const std::string& line) { return without_blanks(line).empty(); }))
        problems.add("picture(s) with an empty label file, taken to have no objects", picture.labels);
      image.objects = kitti_objects(lines, picture.labels, problems);
    } catch (const DataError& error) {
      problems.add_unusable("picture(s)", "their label files not being readable", error.what());
      return false;
    }
    return true;
  }

  RecordOrigin origin(int64_t index) const override {
    const Picture& picture = picture_at(index);
    return {picture.labels.empty() ? picture.path : picture.labels, index, -1, ""};
  }

  std::vector<std::pair<int, std::string>> classes() const override {
    std::set<std::string> names;
    Problems problems;  // said again when pictures are read
    for (const Picture& picture : pictures_) {
      if (picture.labels.empty()) continue;
      try {
        for (AnnotatedObject& object : kitti_objects(text_lines(picture.labels), picture.labels, problems))
          names.insert(std::move(object.name));
      } catch (const DataError&) {
      }
    }
    if (names.empty() && problems.count("object(s) left out") > 0)
      throw DataError(options_.input + ": has no objects, so no classes for a label map" + problems.after_text());
    std::vector<std::pair<int, std::string>> result;
    for (const std::string& name : names) result.emplace_back(static_cast<int>(result.size()) + 1, name);
    return result;
  }

 private:
  struct Picture {
    std::string name;          // below the folder of pictures, behind that of the set where there are several
    std::string path, labels;  // "": not there
  };

  const Picture& picture_at(int64_t index) const {
    return pictures_[static_cast<size_t>(order_.at(static_cast<size_t>(index)))];
  }

  /// Pictures that have labels here, or might have.
  void add(const fs::path& labels, bool is_only, Problems& problems) {
    const fs::path set = labels.lexically_relative(options_.input).parent_path();  // "" where the input is one
    const std::string pictures = picture_folder((labels / "..").lexically_normal(), set, is_only);
    std::map<std::string, Picture> found;  // by their names without endings
    const auto name_of = [](const std::string& file, const fs::path& folder) {
      return fs::path(file).lexically_relative(folder);
    };
    const auto add_to = [&](fs::path name) -> Picture& { return found[name.replace_extension().string()]; };
    const std::vector<std::string> files = pictures.empty() ? std::vector<std::string>() : pictures_below(pictures);
    for (const std::string& file : files) {
      Picture& picture = add_to(name_of(file, pictures));
      if (picture.path.empty())
        picture = {(set / name_of(file, pictures)).generic_string(), file, ""};
      else
        problems.add("picture(s) left out, having the name of another", file);
    }
    const fs::path ending = files.empty() ? ".png" : fs::path(files[0]).extension();  // of one that is not there
    for (const std::string& file :
         files_below(labels, [](const fs::path& path) { return path.extension() == ".txt"; })) {
      Picture& picture = add_to(name_of(file, labels));
      picture.labels = file;
      if (picture.name.empty()) picture.name = (set / name_of(file, labels).replace_extension(ending)).generic_string();
    }
    for (auto& [name, picture] : found) pictures_.push_back(std::move(picture));
  }

  /// "": there is none.
  std::string picture_folder(const fs::path& beside, const fs::path& set, bool is_only) const {
    std::vector<fs::path> places;
    const auto add_below = [&](const fs::path& base) {
      for (const char* name : {"image_2", "image_02", "images", "data"}) places.push_back(base / name);
    };
    if (options_.image_dir.empty()) {
      add_below(beside);
    } else {
      const fs::path image_dir(options_.image_dir);
      if (!set.empty()) {
        add_below(image_dir / set);
        places.push_back(image_dir / set);
      }
      if (is_only) {
        add_below(image_dir);
        places.push_back(image_dir);
      }
    }
    std::error_code ignored;
    for (const fs::path& place : places)
      if (fs::is_directory(place, ignored)) return place.lexically_normal().string();
    return "";
  }

  KittiOptions options_;
  std::vector<Picture> pictures_;
  std::vector<int64_t> order_;
};

}  // namespace

std::unique_ptr<AnnotationSource> open_kitti(const KittiOptions& options, Problems& problems) {
  return std::make_unique<Kitti>(options, problems);
}

}  // namespace osprey::data
