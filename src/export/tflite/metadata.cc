#include "export/tflite/metadata.h"

#include <minizip/zip.h>

#include <memory>
#include <utility>
#include <vector>

#include "export/tflite/network.h"
#include "osprey/base/error.h"
#include "tflite_metadata_schema_generated.h"

namespace osprey::tflite {
namespace {

constexpr const char* kLabelsFile = "labels.txt";

template <class Properties>
std::unique_ptr<TensorMetadataT> tensor(const char* name, const char* description, Properties properties) {
  auto result = std::make_unique<TensorMetadataT>();
  result->name = name;
  result->description = description;
  result->content = std::make_unique<ContentT>();
  result->content->content_properties.Set(std::move(properties));
  return result;
}

/// What a tensor says of each detection.
template <class Properties = FeaturePropertiesT>
std::unique_ptr<TensorMetadataT> of_detections(const char* name, const char* description, Properties properties = {}) {
  auto result = tensor(name, description, std::move(properties));
  result->content->range = std::make_unique<ValueRangeT>();
  result->content->range->min = result->content->range->max = 2;
  return result;
}

void name_classes(TensorMetadataT& tensor, AssociatedFileType type) {
  auto file = std::make_unique<AssociatedFileT>();
  file->name = kLabelsFile;
  file->description = "Names of the classes.";
  file->type = type;
  tensor.associated_files.push_back(std::move(file));
}

std::unique_ptr<TensorMetadataT> picture() {
  ImagePropertiesT properties;
  properties.color_space = ColorSpaceType_RGB;
  auto result = tensor("image", "The picture, resized.", properties);
  NormalizationOptionsT options;
  options.mean = options.std = {kHalfRange};
  auto unit = std::make_unique<ProcessUnitT>();
  unit->options.Set(std::move(options));
  result->process_units.push_back(std::move(unit));
  return result;
}

std::string bytes_of(const char* name, std::vector<std::unique_ptr<TensorMetadataT>> outputs) {
  ModelMetadataT model;
  model.name = name;
  model.description = "Made by Osprey " OSPREY_VERSION;
  model.min_parser_version = "1.0.0";
  auto graph = std::make_unique<SubGraphMetadataT>();
  graph->input_tensor_metadata.push_back(picture());
  graph->output_tensor_metadata = std::move(outputs);
  model.subgraph_metadata.push_back(std::move(graph));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(ModelMetadata::Pack(builder, &model), ModelMetadataIdentifier());
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

}  // namespace

std::string detector_metadata() {
  BoundingBoxPropertiesT corners;
  corners.index = {1, 0, 3, 2};  // left, top, right and bottom in ymin, xmin, ymax, xmax
  corners.type = BoundingBoxType_BOUNDARIES;
  corners.coordinate_type = CoordinateType_RATIO;
  std::vector<std::unique_ptr<TensorMetadataT>> outputs;
  outputs.push_back(of_detections("location", "The corners of the boxes.", corners));
  outputs.push_back(of_detections("category", "The classes of the boxes."));
  name_classes(*outputs.back(), AssociatedFileType_TENSOR_VALUE_LABELS);
  outputs.push_back(of_detections("score", "The scores of the boxes."));
  outputs.push_back(tensor("number of detections", "The number of the boxes.", FeaturePropertiesT()));
  return bytes_of("ObjectDetector", std::move(outputs));
}

std::string classifier_metadata() {
  std::vector<std::unique_ptr<TensorMetadataT>> outputs;
  outputs.push_back(tensor("probability", "The scores of the classes.", FeaturePropertiesT()));
  name_classes(*outputs.back(), AssociatedFileType_TENSOR_AXIS_LABELS);
  return bytes_of("ImageClassifier", std::move(outputs));
}

void attach_labels(const std::string& path, const config::LabelMap& labels, int64_t num_classes) {
  std::string text;
  for (int id = 1; id <= num_classes; ++id) {
    const config::LabelMap::Item* item = labels.find(id);
    text += (item == nullptr ? "???" : item->shown()) + "\n";  // as TensorFlow's own lists have it
  }
  zipFile archive = zipOpen64(path.c_str(), APPEND_STATUS_CREATEAFTER);
  const zip_fileinfo no_date{};
  bool written = archive != nullptr &&
                 zipOpenNewFileInZip(archive, kLabelsFile, &no_date, nullptr, 0, nullptr, 0, nullptr, /*method=*/0,
                                     /*level=*/0) == ZIP_OK &&
                 zipWriteInFileInZip(archive, text.data(), static_cast<unsigned>(text.size())) == ZIP_OK &&
                 zipCloseFileInZip(archive) == ZIP_OK;
  if (archive != nullptr) written = zipClose(archive, nullptr) == ZIP_OK && written;
  if (!written) throw DataError(path + ": the names of the classes cannot be attached");
}

}  // namespace osprey::tflite
