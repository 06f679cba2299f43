#include "eval/gallery_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "eval/evaluation_picture.h"
#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"
#include "osprey/eval/draw.h"

namespace osprey::eval {
namespace {

// Errors lie on top of what is right.
at::Tensor drawn(at::Tensor picture, const std::vector<JudgedBox>& boxes, const GalleryImage& image,
                 const std::vector<Category>& categories) {
  for (const bool errors : {false, true}) {
    std::vector<DrawnBox> layer;
    for (const JudgedBox& box : boxes) {
      const bool is_error = box.verdict != Verdict::kRight && box.verdict != Verdict::kLeftOut;
      if (is_error != errors) continue;
      const auto [x, y, width, height] = box.box_xywh;
      layer.push_back({.box = normalised({y, x, y + height, x + width}, image.height, image.width),
                       .label = verdict_text(box, categories),
                       .score = box.score,
                       .color = verdict_color(box.verdict)});
    }
    picture = draw_boxes(picture, layer, {.max_boxes = std::numeric_limits<int>::max(), .min_score = 0});
  }
  return picture;
}

}  // namespace

std::array<uint8_t, 3> verdict_color(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return {80, 220, 100};
    case Verdict::kConfused:
      return {255, 190, 40};
    case Verdict::kFalseAlarm:
      return {255, 110, 100};
    case Verdict::kMissed:
      return {240, 130, 255};
    case Verdict::kLeftOut:
      return {190, 190, 190};
  }
  TORCH_CHECK(false, "no such verdict: ", static_cast<int>(verdict));
}

std::string verdict_text(const JudgedBox& box, const std::vector<Category>& categories) {
  const std::string& name = categories[box.category].name;
  switch (box.verdict) {
    case Verdict::kRight:
      return name;
    case Verdict::kConfused:
      return fmt::format("{}, {} {}", name, box.score < 0 ? "found as" : "is", categories[box.other].name);
    case Verdict::kFalseAlarm:
      return "false " + name;
    case Verdict::kMissed:
      return "missed " + name;
    case Verdict::kLeftOut:
      return name + " (left out)";
  }
  TORCH_CHECK(false, "no such verdict: ", static_cast<int>(box.verdict));
}

void draw_gallery(Gallery& gallery, data::BatchSource& source, const std::vector<Category>& categories) {
  constexpr int kQuality = 85;
  std::vector<GalleryImage*> images;
  for (std::vector<GalleryImage>* const list : {&gallery.worst, &gallery.best})
    for (GalleryImage& image : *list) images.push_back(&image);
  std::ranges::sort(images, {}, [](const GalleryImage* image) { return image->batch; });
  std::optional<Batch> batch;
  int64_t index = -1;
  for (GalleryImage* image : images) {
    if (index != image->batch) {
      index = image->batch;
      source.seek(index);
      batch = source.next();
    }
    if (!batch) throw DataError(fmt::format("image {} cannot be read again: the data set has changed", image->id));
    const at::Tensor picture = picture_for_view(*batch, image->row, image->height, image->width);
    image->jpeg = data::encode_jpeg(side_by_side(drawn(picture, image->detections, *image, categories),
                                                 drawn(picture, image->objects, *image, categories)),
                                    kQuality);
  }
}

}  // namespace osprey::eval
