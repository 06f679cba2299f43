#include "osprey/data/voc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <pugixml.hpp>
#include <set>

#include "data/folder_walk.h"
#include "data/text_lines.h"
#include "osprey/base/error.h"
#include "picture_index.h"
#include "split_index.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

constexpr const char* kPictureFolders[] = {"JPEGImages", "images", "data"};
constexpr std::array kCorners = {"ymin", "xmin", "ymax", "xmax"};  // of a <bndbox>

std::string child_text(const pugi::xml_node& node, const char* name) {
  return without_blanks(node.child(name).child_value());
}

std::vector<std::string> find_xml(const std::string& input) {
  std::error_code error;
  const auto is_xml = [](const fs::path& file) { return lower_case(file.extension().string()) == ".xml"; };
  if (fs::is_regular_file(input, error) && is_xml(input)) return {input};
  if (!fs::is_directory(input, error)) throw DataError(input + ": no such folder or XML file");
  std::vector<std::string> files = files_below(input, is_xml);
  if (files.empty()) throw DataError(input + ": 0 XML files in this folder and below");
  return files;
}

class Voc final : public AnnotationSource {
 public:
  Voc(VocOptions options, Problems& problems)
      : options_(std::move(options)), all_(find_xml(options_.input)), files_(all_) {
    const fs::path folder = fs::path(all_[0]).parent_path();
    has_one_folder_ = std::all_of(all_.begin(), all_.end(),
                                  [&](const std::string& file) { return fs::path(file).parent_path() == folder; });
    if (options_.split.empty()) return;
    std::vector<std::vector<std::string>> names;
    for (const std::string& file : all_) {
      names.push_back(names_of_file(fs::path(file).filename().string()));
      for (std::string& name : names_of_file(fs::path(file).lexically_relative(options_.input).string()))
        names.back().push_back(name);
    }
    files_.clear();
    for (int64_t index : select_split(options_.split, names, problems))
      files_.push_back(all_[static_cast<size_t>(index)]);
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }

  bool read(int64_t index, AnnotatedImage& image, Problems& problems) const override {
    const std::string& file = files_.at(static_cast<size_t>(index));
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_file(file.c_str());
    const pugi::xml_node root = document.child("annotation");
    if (!parsed || !root) {
      problems.add_unusable("XML file(s)", "being no annotation",
                            parsed ? file + ": no <annotation>"
                                   : fmt::format("{}: {} at byte {}", file, parsed.description(), parsed.offset));
      return false;
    }
    image.file_name = child_text(root, "filename");
    if (image.file_name.empty()) image.file_name = fs::path(file).stem().string();
    image.source_id = image.file_name;
    image.width = pixels_of(child_text(root.child("size"), "width"));
    image.height = pixels_of(child_text(root.child("size"), "height"));
    image.path = find_image(file, image.file_name, problems);
    int64_t number_of_object = 0;
    for (const pugi::xml_node& node : root.children("object"))
      read_object(node, fmt::format("{} object {}", file, number_of_object++), image, problems);
    return true;
  }

  RecordOrigin origin(int64_t index) const override { return {files_.at(static_cast<size_t>(index)), index, -1, ""}; }

  std::vector<std::pair<int, std::string>> classes() const override {
    std::set<std::string> names;
    for (const std::string& file : all_) {
      pugi::xml_document document;
      if (!document.load_file(file.c_str())) continue;
      for (const pugi::xml_node& node : document.child("annotation").children("object"))
        if (std::string name = child_text(node, "name"); !name.empty()) names.insert(std::move(name));
    }
    std::vector<std::pair<int, std::string>> result;
    for (const std::string& name : names) result.emplace_back(static_cast<int>(result.size()) + 1, name);
    return result;
  }

 private:
  static void read_object(const pugi::xml_node& node, const std::string& place, AnnotatedImage& image,
                          Problems& problems) {
    AnnotatedObject object;
    object.name = child_text(node, "name");
    if (object.name.empty()) return problems.add("object(s) left out, having no name", place);
    std::array<float, 4> corners{};
    for (size_t i = 0; i < corners.size(); ++i) {
      const std::string text = child_text(node.child("bndbox"), kCorners[i]);
      if (text.empty()) return problems.add("object(s) left out, having no box", place);
      corners[i] = static_cast<float>(number_of(text));
    }
    const auto [ymin, xmin, ymax, xmax] = corners;
    if (!std::isfinite(ymin + xmin + ymax + xmax))
      return problems.add("object(s) left out, their coordinates not being numbers", place);
    object.box_px = {ymin, xmin, ymax, xmax};
    object.difficult = says_yes(child_text(node, "difficult"));
    object.truncated = says_yes(child_text(node, "truncated"));
    image.objects.push_back(std::move(object));
  }

  /// A folder that may have folders of pictures in it.
  struct Base {
    fs::path folder, subset;  // "set/Annotations/train/a.xml" is of "train" in "set"; "": of none
    std::vector<std::string> picture_folders;
  };

  /// The nearest first.
  std::vector<Base> bases_of(const fs::path& folder) const {
    std::vector<Base> result;
    if (!options_.image_dir.empty()) {
      fs::path subset;
      for (const auto& [base, part] : annotation_bases(folder))
        if (!part.empty()) subset = part;
      return {{options_.input, subset, {options_.image_dir}}};
    }
    for (const auto& [base, subset] : annotation_bases(folder)) {
      result.push_back({base, subset, {}});
      for (const char* name : kPictureFolders)
        result.back().picture_folders.push_back((base / name).lexically_normal().string());
    }
    return result;
  }

  /// What bases_of gives, without the folders of pictures.
  std::vector<std::pair<fs::path, fs::path>> annotation_bases(const fs::path& folder) const {
    const fs::path input(options_.input);
    std::vector<std::pair<fs::path, fs::path>> result{{folder / "..", ""}, {folder, ""}};
    const fs::path below = folder.lexically_relative(input);
    if (folder == input || below.empty() || below == "." || *below.begin() == "..") return result;
    fs::path base = folder, way;  // from base to the folder
    for (int64_t i = std::distance(below.begin(), below.end()); i > 0; --i) {
      const fs::path subset = way;
      way = way.empty() ? base.filename() : base.filename() / way;
      base = base.parent_path();
      if (!subset.empty()) result.emplace_back(base, subset);
    }
    // Where the input is the folder of annotations, pictures are beside it; else what is beside it is another set.
    std::error_code error;
    for (const char* name : kPictureFolders)
      if (fs::is_directory(input / name, error)) return result;
    result.emplace_back(input / "..", way);
    return result;
  }

  /// Whether a picture of this name that lies in no folder of the subset can only be that of this XML, or of others in
  /// its folder: no XML elsewhere asks for the name.
  bool is_only_claim(const fs::path& xml, const std::string& name, const fs::path& base, const fs::path& subset) const {
    const fs::path folder = xml.parent_path(), plain = base.lexically_normal();
    if (has_one_folder_ || plain == folder.lexically_normal()) return true;
    const auto competes = [&](const fs::path& other) {
      if (other == folder) return false;
      const fs::path below = other.lexically_normal().lexically_relative(plain);
      return subset.empty() ? other.parent_path() == folder.parent_path() : below.empty() || *below.begin() != "..";
    };
    std::call_once(claims_read_, [this] { read_claims(); });
    const fs::path last = fs::path(slashed(name)).filename();
    for (const fs::path& asked : {last, last.stem()})
      if (const auto found = claims_.find(asked.string());
          found != claims_.end() && std::any_of(found->second.begin(), found->second.end(), competes))
        return false;
    return true;
  }

  void read_claims() const {
    for (const std::string& file : all_) {
      const fs::path path(file);
      std::set<std::string> names{path.stem().string()};
      pugi::xml_document document;
      if (document.load_file(file.c_str()))
        names.insert(fs::path(slashed(child_text(document.child("annotation"), "filename"))).filename().string());
      for (const std::string& name : names) {
        std::vector<fs::path>& folders = claims_[name];
        if (std::find(folders.begin(), folders.end(), path.parent_path()) == folders.end())
          folders.push_back(path.parent_path());
      }
    }
  }

  /// Where a picture of this name may lie without a folder of its own.
  std::vector<fs::path> folders_for(const fs::path& xml, const std::string& name,
                                    const std::vector<Base>& bases) const {
    std::vector<fs::path> result;
    for (const Base& base : bases) {
      const bool takes_all = is_only_claim(xml, name, base.folder, base.subset);
      for (const std::string& folder : base.picture_folders) {
        if (!base.subset.empty()) result.push_back(folder / base.subset);
        if (takes_all) result.emplace_back(folder);
      }
    }
    if (options_.image_dir.empty()) {
      result.push_back(xml.parent_path());
      if (is_only_claim(xml, name, options_.input, "input")) result.emplace_back(options_.input);
    }
    return result;
  }

  std::string find_image(const std::string& xml, const std::string& file_name, Problems& problems) const {
    const std::vector<Base> bases = bases_of(fs::path(xml).parent_path());
    // Some tools write Windows paths, names without ending, or the name of another file.
    const std::string plain = fs::path(slashed(file_name)).filename().string();
    std::vector<std::string> names{file_name, slashed(file_name), plain};
    for (const std::string& stem : {plain, fs::path(xml).stem().string()}) {
      for (const char* ending : kPictureEndings) names.push_back(stem + ending);
      for (const char* ending : kPictureEndings) names.push_back(stem + upper_case(ending));
    }
    std::error_code error;
    for (const std::string& name : names)
      for (const fs::path& place : folders_for(xml, name, bases))
        if (fs::is_regular_file(place / name, error)) return (place / name).lexically_normal().string();
    return find_below(xml, folder_name(slashed(file_name)), bases, names, problems);
  }

  /// At any depth, if only one has its name and lies in a folder that it may lie in.
  /// named  the folder that the XML says, if any
  std::string find_below(const fs::path& xml, const std::string& named, const std::vector<Base>& bases,
                         const std::vector<std::string>& names, Problems& problems) const {
    for (const Base& base : bases) {
      std::set<std::string> folders;
      if (!named.empty()) folders.insert(named);
      for (const fs::path& part : base.subset) folders.insert(part.string());
      const PictureIndex& index = index_of(base.picture_folders);
      for (const std::string& name : names) {
        const std::vector<std::string> places = index.places(name);
        if (places.empty()) continue;
        if (folders.empty() && places.size() == 1 && !is_only_claim(xml, name, base.folder, base.subset))
          folders.insert(xml.parent_path().filename().string());
        return only_place(name, places, folders, problems);
      }
    }
    return "";
  }

  const PictureIndex& index_of(const std::vector<std::string>& folders) const {
    const std::lock_guard lock(mutex_);
    return indices_.try_emplace(folders, folders).first->second;
  }

  VocOptions options_;
  std::vector<std::string> all_, files_;
  bool has_one_folder_ = true;  // all XMLs lie in it
  mutable std::once_flag claims_read_;
  mutable std::map<std::string, std::vector<fs::path>> claims_;  // name -> folders of XMLs that say it or are called so
  mutable std::mutex mutex_;
  mutable std::map<std::vector<std::string>, PictureIndex> indices_;  // of folders in which pictures were looked for
};

}  // namespace

std::unique_ptr<AnnotationSource> open_voc(const VocOptions& options, Problems& problems) {
  return std::make_unique<Voc>(options, problems);
}

}  // namespace osprey::data
