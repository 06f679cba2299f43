#include "annotation_index.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <utility>

#include "osprey/base/error.h"
#include "osprey/data/read_report.h"
#include "record_of_image.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

AnnotationFormat format_of(proto::AnnotationInputReader::Format format) {
  switch (format) {
    case proto::AnnotationInputReader::VOC:
      return AnnotationFormat::kVoc;
    case proto::AnnotationInputReader::COCO:
      return AnnotationFormat::kCoco;
    case proto::AnnotationInputReader::YOLO:
      return AnnotationFormat::kYolo;
    case proto::AnnotationInputReader::CSV:
      return AnnotationFormat::kCsv;
    case proto::AnnotationInputReader::CVAT:
      return AnnotationFormat::kCvat;
    case proto::AnnotationInputReader::KITTI:
      return AnnotationFormat::kKitti;
    case proto::AnnotationInputReader::FOLDERS:
      return AnnotationFormat::kFolders;
  }
  throw std::logic_error("a format of annotations that has no reader");
}

}  // namespace

AnnotationIndex::AnnotationIndex(std::unique_ptr<AnnotationSource> source,
                                 std::shared_ptr<const config::LabelMap> label_map, const Problems& problems)
    : source_(std::move(source)), label_map_(std::move(label_map)), counted_(static_cast<size_t>(source_->size())) {
  problems_.add(problems);
}

std::string AnnotationIndex::read(int64_t index) const {
  Problems met;
  AnnotatedImage image;
  std::map<std::string, int64_t> classes;
  std::optional<std::string> record;
  const bool is_read = source_->read(index, image, met), has_picture = !image.path.empty();
  if (is_read) record = record_of_image(std::move(image), *label_map_, RecordCheck::kWhenDecoded, met, classes);
  if (!counted_[static_cast<size_t>(index)].exchange(true)) problems_.add(met);
  if (!record)
    throw BadRecord(fmt::format("{}: {}{}", origin(index).describe(), met.first_unusable(),
                                is_read && !has_picture ? "; image_dir says where the pictures lie" : ""),
                    BadRecord::Cause::kNoPicture);
  return *std::move(record);
}

std::unique_ptr<AnnotationSource> open_annotations(const config::ConfigNode<proto::AnnotationInputReader>& reader,
                                                   Problems& problems) {
  const AnnotationSet set{format_of(reader->format()), reader->input(), reader->image_dir(), reader->split(),
                          reader->class_descriptions()};
  std::error_code ignored;
  if (!set.image_dir.empty() && !fs::is_directory(set.image_dir, ignored))
    reader.fail("image_dir", fmt::format("there is no folder '{}'", set.image_dir));
  const bool has_named_splits = set.format == AnnotationFormat::kYolo || set.format == AnnotationFormat::kCvat;
  if (!has_named_splits && !set.split.empty() && !fs::exists(set.split, ignored))
    reader.fail("split", fmt::format("there is no list '{}' of pictures", set.split));
  if (!set.class_descriptions.empty() && !fs::exists(set.class_descriptions, ignored))
    reader.fail("class_descriptions", fmt::format("there is no file '{}'", set.class_descriptions));
  try {
    return open_annotations(set, problems);
  } catch (const ConfigError& error) {
    reader.fail("", error.what());
  }
}

}  // namespace osprey::data
