#include "osprey/data/example_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "annotation_index.h"
#include "folder_walk.h"
#include "osprey/base/error.h"
#include "osprey/data/input_paths.h"
#include "osprey/data/picture_files.h"
#include "osprey/data/record_index.h"
#include "picture_label_index.h"
#include "text_lines.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

std::unique_ptr<ExampleIndex> open_annotated(const config::ConfigNode<proto::InputReader>& reader,
                                             std::shared_ptr<const config::LabelMap> label_map) {
  Problems problems;
  std::unique_ptr<AnnotationSource> source =
      open_annotations(reader.child("annotation_input_reader", reader->annotation_input_reader()), problems);
  if (label_map == nullptr)
    reader.fail("label_map_path", "must be set, or label_map, for annotations; derive_classes sets the latter");
  return std::make_unique<AnnotationIndex>(std::move(source), std::move(label_map), problems);
}

/// What the names of the files end in that annotations of a folder lie in, in small letters.
std::vector<std::string> endings(proto::AnnotationInputReader::Format format) {
  if (format == proto::AnnotationInputReader::VOC || format == proto::AnnotationInputReader::CVAT) return {".xml"};
  if (format == proto::AnnotationInputReader::FOLDERS) return {kPictureEndings.begin(), kPictureEndings.end()};
  return {".txt", ".yaml", ".yml", ".data", ".names"};
}

std::vector<std::string> annotation_files(const proto::AnnotationInputReader& reader, const std::string& name) {
  std::error_code ignored;
  if (!fs::exists(reader.input(), ignored))
    throw DataError(fmt::format("{}: there is no file or folder '{}'", name, reader.input()));
  std::vector<std::string> files;
  fs::path folder = reader.input();
  Links links = Links::kFollowed;
  if (!fs::is_directory(folder, ignored)) {
    files.push_back(folder.string());
    folder = reader.format() == proto::AnnotationInputReader::YOLO ? fs::absolute(folder).parent_path() : fs::path();
    links = Links::kPassedOver;  // beside the file may lie links to what is not of the data set
  }
  const std::vector<std::string> wanted = endings(reader.format());
  const auto is_wanted = [&](const fs::path& file) {
    return std::find(wanted.begin(), wanted.end(), lower_case(file.extension().string())) != wanted.end();
  };
  if (!folder.empty())
    for (std::string& file : files_below(folder, is_wanted, links)) files.push_back(std::move(file));
  if (fs::is_regular_file(reader.split(), ignored)) files.push_back(reader.split());
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

}  // namespace

std::unique_ptr<ExampleIndex> open_examples(const config::ConfigNode<proto::InputReader>& reader,
                                            std::shared_ptr<const config::LabelMap> label_map) {
  if (reader->has_annotation_input_reader()) return open_annotated(reader, std::move(label_map));
  const auto& paths = reader->tf_record_input_reader().input_path();
  std::unique_ptr<ExampleIndex> records = std::make_unique<RecordIndex>(
      std::vector<std::string>(paths.begin(), paths.end()), reader.path().empty() ? "input reader" : reader.path());
  if (reader->label_of_picture()) return std::make_unique<PictureLabelIndex>(std::move(records));
  return records;
}

std::vector<std::string> input_files(const proto::InputReader& reader, const std::string& name) {
  if (reader.has_annotation_input_reader()) return annotation_files(reader.annotation_input_reader(), name);
  if (!reader.has_tf_record_input_reader()) return {};
  const auto& paths = reader.tf_record_input_reader().input_path();
  return expand_input_paths({paths.begin(), paths.end()}, name);
}

}  // namespace osprey::data
