#include "eval/look.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "osprey/base/error.h"
#include "osprey/data/collate.h"

namespace osprey::eval {
namespace {

bool is_finite(const Detection& found) {
  const Box& box = found.box;
  return std::isfinite(found.score) && std::isfinite(box.ymin + box.xmin + box.ymax + box.xmax);
}

/// Shows a model pictures as a source would: resized, and in batches of its shape.
class Shown {
 public:
  Shown(models::DetectionModel& model, const TiledPictures& tiled, const c10::Device& device)
      : model_(model), tiled_(tiled), device_(device) {}

  std::vector<std::vector<Detection>> operator()(const std::vector<at::Tensor>& pictures) {
    std::vector<std::vector<Detection>> result;
    const auto size = static_cast<size_t>(tiled_.shape.batch_size);
    for (size_t begin = 0; begin < pictures.size(); begin += size) {
      data::Collation collation(tiled_.shape, tiled_.resizer);
      const size_t end = std::min(begin + size, pictures.size());
      for (size_t i = begin; i < end; ++i) {
        Example part;
        part.image = pictures[i];
        collation.put(static_cast<int64_t>(i - begin), part, static_cast<int64_t>(i));
      }
      const Look look = look_at(model_, to(collation.finish(), device_));
      is_broken_ = is_broken_ || look.broken_images > 0;
      for (size_t i = begin; i < end; ++i)
        result.push_back(finite_of(look.detections, static_cast<int64_t>(i - begin)));
    }
    return result;
  }

  bool is_broken() const { return is_broken_; }
  /// Those that cannot be compared with others.
  const std::vector<Detection>& not_finite() const { return not_finite_; }

 private:
  std::vector<Detection> finite_of(const Detections& all, int64_t row) {
    const at::Tensor boxes = all.boxes[row].to(at::kFloat).contiguous(),
                     scores = all.scores[row].to(at::kFloat).contiguous(), classes = all.classes[row].contiguous();
    std::vector<Detection> result;
    for (int64_t d = 0; d < all.count[row].item<int64_t>(); ++d) {
      const float* box = boxes.const_data_ptr<float>() + 4 * d;
      Detection found{{box[0], box[1], box[2], box[3]},
                      scores.const_data_ptr<float>()[d],
                      classes.const_data_ptr<int64_t>()[d] + 1,
                      ""};
      (is_finite(found) ? result : not_finite_).push_back(std::move(found));
    }
    return result;
  }

  models::DetectionModel& model_;
  const TiledPictures& tiled_;
  c10::Device device_;
  bool is_broken_ = false;
  std::vector<Detection> not_finite_;
};

Detections padded(const std::vector<Detection>& list) {
  const auto count = static_cast<int64_t>(list.size());
  Detections result{at::empty({1, count, 4}), at::empty({1, count}), at::empty({1, count}, at::kLong),
                    at::full({1}, count, at::kLong)};
  for (int64_t d = 0; d < count; ++d) {
    const Detection& found = list[static_cast<size_t>(d)];
    float* box = result.boxes.data_ptr<float>() + 4 * d;
    box[0] = found.box.ymin;
    box[1] = found.box.xmin;
    box[2] = found.box.ymax;
    box[3] = found.box.xmax;
    result.scores.data_ptr<float>()[d] = found.score;
    result.classes.data_ptr<int64_t>()[d] = found.class_id - 1;
  }
  return result;
}

/// What `find` finds on the one picture of a batch; nothing on a record that was left out.
std::vector<Detection> found_on(const Batch& picture, const std::optional<boxes::TileOptions>& tiles,
                                const boxes::Find& find) {
  TORCH_CHECK(picture.size() == 1, "expected one picture at a time, got ", picture.size());
  if (picture.image_weights.defined() && picture.image_weights[0].item<float>() == 0) return {};
  const at::Tensor pixels = picture.images[0].permute({1, 2, 0});
  try {
    return tiles ? boxes::detect_in_tiles(pixels, *tiles, find) : find({pixels}).at(0);
  } catch (const DataError& error) {
    throw DataError(fmt::format("image {}: {}", picture.ids.front(), error.what()));
  }
}

}  // namespace

Look look_at(models::DetectionModel& model, const Batch& on_device) {
  Look look{.predictions = model.predict(model.preprocess(on_device)), .detections = {}};
  if (look.predictions.class_logits.defined()) {
    at::Tensor broken = look.predictions.class_logits.isfinite().flatten(1).all(1).logical_not();
    if (on_device.image_weights.defined()) broken = broken.logical_and(on_device.image_weights > 0);
    look.broken_images = broken.sum().item<int64_t>();
  }
  const Detections found = model.postprocess(look.predictions, on_device.true_shapes);
  look.detections = {found.boxes.cpu(), found.scores.cpu(), found.classes.cpu(), found.count.cpu()};
  return look;
}

Look look_by(const boxes::Find& find, const Batch& picture, const std::optional<boxes::TileOptions>& tiles) {
  return {.predictions = {}, .detections = padded(found_on(picture, tiles, find))};
}

Look look_in_tiles(models::DetectionModel& model, const Batch& picture, const TiledPictures& tiled,
                   const c10::Device& device) {
  Shown shown(model, tiled, device);
  std::vector<Detection> found = found_on(picture, tiled.tiles, std::ref(shown));
  found.insert(found.end(), shown.not_finite().begin(), shown.not_finite().end());
  return {.predictions = {}, .detections = padded(found), .broken_images = shown.is_broken() ? 1 : 0};
}

}  // namespace osprey::eval
