#include "eval/findings.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

namespace osprey::eval {

using nlohmann::json;

// The library finds these by the types of their arguments.

static void to_json(json& to, const BoxPx& box) { to = {box.ymin, box.xmin, box.ymax, box.xmax}; }
static void from_json(const json& from, BoxPx& box) {
  from.at(0).get_to(box.ymin), from.at(1).get_to(box.xmin), from.at(2).get_to(box.ymax), from.at(3).get_to(box.xmax);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ImageGroundTruth, boxes_px, classes, is_crowd, difficult, group_of, area,
                                   image_classes, all_classes_annotated, height, width)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ImageDetections, boxes_px, scores, classes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricValue, name, value)

static void to_json(json& to, const ImageFindings& image) {
  to = {{"row", image.row}, {"id", image.id}, {"truth", image.truth}, {"found", image.found}};
  to["not_finite"] = image.not_finite;
  if (!image.picture.defined()) return;
  const at::Tensor pixels = image.picture.contiguous();
  const auto* bytes = pixels.const_data_ptr<uint8_t>();
  to["picture"] = {{"sizes", pixels.sizes().vec()},
                   {"bytes", json::binary(std::vector<uint8_t>(bytes, bytes + pixels.numel()))}};
}
static void from_json(const json& from, ImageFindings& image) {
  from.at("row").get_to(image.row);
  from.at("id").get_to(image.id);
  from.at("truth").get_to(image.truth);
  from.at("found").get_to(image.found);
  from.at("not_finite").get_to(image.not_finite);
  if (!from.contains("picture")) return;
  const json& picture = from.at("picture");
  const std::vector<uint8_t>& bytes = picture.at("bytes").get_binary();
  image.picture = at::tensor(bytes, at::kByte).view(picture.at("sizes").get<std::vector<int64_t>>());
}

static void to_json(json& to, const BatchFindings& batch) {
  to = {{"index", batch.index}, {"images", batch.images}, {"losses", batch.losses}};
  to["broken_images"] = batch.broken_images;
  if (batch.normalizer) to["normalizer"] = *batch.normalizer;
}
static void from_json(const json& from, BatchFindings& batch) {
  from.at("index").get_to(batch.index);
  from.at("images").get_to(batch.images);
  from.at("losses").get_to(batch.losses);
  from.at("broken_images").get_to(batch.broken_images);
  if (from.contains("normalizer")) batch.normalizer = from.at("normalizer").get<double>();
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShareFindings, stopped, num_skipped, batches)

std::string to_bytes(const ShareFindings& findings) {
  std::string bytes;
  json::to_msgpack(findings, bytes);
  return bytes;
}

ShareFindings findings_from(const std::string& bytes) { return json::from_msgpack(bytes).get<ShareFindings>(); }

}  // namespace osprey::eval
