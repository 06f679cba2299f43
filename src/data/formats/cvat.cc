#include "osprey/data/cvat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <pugixml.hpp>
#include <set>
#include <unordered_set>

#include "cvat_shapes.h"
#include "data/text_lines.h"
#include "data/whole_file.h"
#include "osprey/base/error.h"
#include "picture_finder.h"
#include "split_index.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

std::string file_at(const std::string& input) {
  std::error_code ignored;
  if (!fs::is_directory(input, ignored)) return input;
  for (const char* name : {"annotations.xml", "labels.xml"})
    if (fs::is_regular_file(fs::path(input) / name, ignored)) return (fs::path(input) / name).string();
  throw DataError(input +
                  ": has no annotations.xml or labels.xml; a folder with one of them or an XML file is expected");
}

class Cvat final : public AnnotationSource {
 public:
  Cvat(CvatOptions options, Problems& problems)
      : options_(std::move(options)),
        file_(file_at(options_.input)),
        finder_(file_, options_.image_dir, {fs::path(file_).stem().string()}) {
    read_file(problems);
    for (const Picture& picture : pictures_) finder_.expect(with_ending(picture.name));
    choose(problems);
  }

  int64_t size() const override { return static_cast<int64_t>(order_.size()); }

  bool read(int64_t index, AnnotatedImage& image, Problems& problems) const override {
    const Picture& picture = picture_at(index);
    image.source_id = image.file_name = picture.name;
    image.width = picture.width;
    image.height = picture.height;
    image.path = finder_.find_any_ending(image.file_name, problems);  // names of a video's frames have none
    image.objects = picture.objects;
    return true;
  }

  RecordOrigin origin(int64_t index) const override { return {file_, index, -1, picture_at(index).name}; }

  std::vector<std::pair<int, std::string>> classes() const override {
    std::vector<std::pair<int, std::string>> result;
    const auto add = [&](const std::string& name) { result.emplace_back(static_cast<int>(result.size()) + 1, name); };
    std::set<std::string> others;
    for (const Picture& picture : pictures_)
      for (const AnnotatedObject& object : picture.objects) others.insert(object.name);
    for (const std::string& name : labels_) {
      add(name);
      others.erase(name);
    }
    for (const std::string& name : others) add(name);
    return result;
  }

 private:
  struct Picture {
    std::string name, id, subset;
    int64_t width = 0, height = 0;
    std::vector<AnnotatedObject> objects;
  };

  const Picture& picture_at(int64_t index) const {
    return pictures_[static_cast<size_t>(order_.at(static_cast<size_t>(index)))];
  }

  void read_file(Problems& problems) {
    std::optional<std::string> bytes = bytes_of_file(file_);
    if (!bytes) throw DataError(fmt::format("{}: cannot be read: {}", file_, std::strerror(errno)));
    if (bytes->starts_with("PK\x03\x04")) throw DataError(file_ + ": is a ZIP archive; unpack it");
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer_inplace(bytes->data(), bytes->size());
    if (!parsed)
      throw DataError(fmt::format("{}: is no XML: {} at byte {}", file_, parsed.description(), parsed.offset));
    const pugi::xml_node root = document.child("annotations");
    if (!root)
      throw DataError(fmt::format("{}: <annotations> is expected, found <{}>; is it \"CVAT for images 1.1\"?", file_,
                                  document.document_element().name()));
    if (root.child("track"))
      throw DataError(
          file_ +
          ": is \"CVAT for video\" (it has a <track>), whose frames are not read; export the task as \"CVAT "
          "for images 1.1\" with its pictures");
    read_labels(root.child("meta"));
    std::unordered_set<std::string> seen;
    for (const pugi::xml_node& node : root.children("image")) {
      Picture picture = read_picture(node, problems);
      if (!picture.name.empty() && !seen.insert(picture.name).second)
        problems.add("picture(s) left out, having the name of another", fmt::format("{}: {}", file_, picture.name));
      else if (!picture.name.empty())
        pictures_.push_back(std::move(picture));
    }
    if (pictures_.empty())
      throw DataError(fmt::format("{}: has no <image> with a name{}", file_, problems.after_text()));
  }

  /// Those that <meta> has of a task, a project or a job.
  void read_labels(const pugi::xml_node& meta) {
    static const std::set<std::string> boxless{"tag", "points", "polyline", "skeleton", "cuboid"};
    std::set<std::string> seen;
    for (const pugi::xml_node& owner : meta.children())
      for (const pugi::xml_node& label : owner.child("labels").children("label"))
        if (std::string name = without_blanks(label.child_value("name"));
            !name.empty() && !label.child("parent") && boxless.count(label.child_value("type")) == 0 &&
            seen.insert(name).second)
          labels_.push_back(std::move(name));
  }

  Picture read_picture(const pugi::xml_node& node, Problems& problems) const {
    Picture picture;
    picture.id = node.attribute("id").value();
    picture.subset = node.attribute("subset").value();
    const std::string name = without_blanks(node.attribute("name").value());
    if (name.empty()) {
      problems.add("picture(s) left out, having no name", fmt::format("{}: image {}", file_, picture.id));
      return {};
    }
    picture.name =
        picture.subset.empty() || name.starts_with(picture.subset + "/") ? name : picture.subset + "/" + name;
    picture.width = pixels_of(node.attribute("width").value());
    picture.height = pixels_of(node.attribute("height").value());
    int64_t number = 0;
    for (const pugi::xml_node& shape : node.children()) {
      if (shape.type() != pugi::node_element) continue;
      const std::string place = fmt::format("{}: {} object {}", file_, picture.name, number++);
      if (auto object = cvat_object(shape, place, problems)) picture.objects.push_back(*std::move(object));
    }
    return picture;
  }

  void choose(Problems& problems) {
    std::set<std::string> subsets;
    for (const Picture& picture : pictures_)
      if (!picture.subset.empty()) subsets.insert(picture.subset);
    if (options_.split.empty() || subsets.count(options_.split) > 0) {
      for (size_t i = 0; i < pictures_.size(); ++i)
        if (options_.split.empty() || pictures_[i].subset == options_.split) order_.push_back(static_cast<int64_t>(i));
      return;
    }
    std::error_code ignored;
    if (!fs::is_regular_file(options_.split, ignored))
      throw ConfigError(fmt::format("--split {}: is neither a subset of {} ({}) nor a file that lists pictures",
                                    options_.split, file_,
                                    subsets.empty() ? "which has none" : fmt::format("{}", fmt::join(subsets, ", "))));
    std::vector<std::vector<std::string>> names;
    for (const Picture& picture : pictures_) {
      names.push_back(names_of_file(slashed(picture.name)));
      names.back().push_back(picture.name);
    }
    order_ = select_split(options_.split, names, problems);
  }

  CvatOptions options_;
  std::string file_;
  PictureFinder finder_;
  std::vector<std::string> labels_;  // of <meta>
  std::vector<Picture> pictures_;
  std::vector<int64_t> order_;
};

}  // namespace

std::unique_ptr<AnnotationSource> open_cvat(const CvatOptions& options, Problems& problems) {
  return std::make_unique<Cvat>(options, problems);
}

}  // namespace osprey::data
