#include "data/augmentations/autoaugment_operations.h"

#include <ATen/ATen.h>

#include <map>
#include <stdexcept>

#include "data/augmentations/cut_out.h"
#include "data/augmentations/inside_boxes.h"
#include "data/augmentations/level_ops.h"
#include "data/augmentations/warp.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
// What is done to an image or to the part of it in a box.
using ChangeOfPixels = std::function<at::Tensor(const at::Tensor& image, double amount, RandomDraws& draws)>;

bool happens(float probability, RandomDraws& draws) { return draws.uniform(0, 1) < probability; }

// Moves go either way with equal chances.
float signed_amount(double amount, RandomDraws& draws) {
  return static_cast<float>(happens(0.5f, draws) ? -amount : amount);
}

void move(Example& example, const Warp& warp, float amount) {
  const ImageSize size{example.image.size(0), example.image.size(1)};
  const PixelMap map = warp.map(amount, size);
  example.image = warped(example.image, map, kFillLevel);
  for (Box& box : example.boxes) box = warp.moved(box, amount, size);
  if (example.masks.defined() && example.masks.size(0) > 0)
    example.masks = warped(example.masks.permute({1, 2, 0}), map, 0).permute({2, 0, 1}).contiguous();
  if (!example.keypoints.defined()) return;
  example.keypoints = moved_keypoints(example.keypoints, map, size);
  prune_keypoints(example);
}

// The amount is base + range * level / 10.
struct Change {
  ChangeOfPixels pixels;
  double base, range, range_in_boxes;
};

ChangeOfPixels without_amount(at::Tensor (*change)(const at::Tensor&)) {
  return [change](const at::Tensor& image, double, RandomDraws&) { return change(image); };
}
ChangeOfPixels by_whole_number(at::Tensor (*change)(const at::Tensor&, int)) {
  return [change](const at::Tensor& image, double amount, RandomDraws&) {
    return change(image, static_cast<int>(amount));
  };
}
ChangeOfPixels by_factor(at::Tensor (*change)(const at::Tensor&, float)) {
  return [change](const at::Tensor& image, double amount, RandomDraws&) {
    return change(image, static_cast<float>(amount));
  };
}
at::Tensor cut_out_somewhere(const at::Tensor& image, double amount, RandomDraws& draws) {
  return cut_out_anywhere(image, static_cast<int64_t>(amount), draws);
}
at::Tensor mirrored(const at::Tensor& image) { return image.flip(1); }

const Change* change_named(std::string_view name) {
  static const std::map<std::string_view, Change> changes = {
      {"AutoContrast", {without_amount(&auto_contrast), 0, 0, 0}},
      {"Equalize", {without_amount(&equalize), 0, 0, 0}},
      {"Flip", {without_amount(&mirrored), 0, 0, 0}},
      {"Posterize", {by_whole_number(&posterize), 0, 4, 4}},
      {"Solarize", {by_whole_number(&solarize), 0, 256, 256}},
      {"SolarizeAdd", {by_whole_number(&solarize_add), 0, 110, 110}},
      {"Color", {by_factor(&enhance_color), 0.1, 1.8, 1.8}},
      {"Contrast", {by_factor(&enhance_contrast), 0.1, 1.8, 1.8}},
      {"Brightness", {by_factor(&enhance_brightness), 0.1, 1.8, 1.8}},
      {"Sharpness", {by_factor(&enhance_sharpness), 0.1, 1.8, 1.8}},
      {"Cutout", {&cut_out_somewhere, 0, 100, 50}}};
  const auto found = changes.find(name);
  return found == changes.end() ? nullptr : &found->second;
}

// The amount is range * level / 10, to either side.
struct Move {
  Warp warp;
  double range, range_in_boxes;
};

const Move* move_named(std::string_view name) {
  static const std::map<std::string_view, Move> moves = {{"Rotate", {kRotation, 30, 30}},
                                                         {"ShearX", {kShearX, 0.3, 0.3}},
                                                         {"ShearY", {kShearY, 0.3, 0.3}},
                                                         {"TranslateX", {kTranslationX, 250, 120}},
                                                         {"TranslateY", {kTranslationY, 250, 120}}};
  const auto found = moves.find(name);
  return found == moves.end() ? nullptr : &found->second;
}

PolicyOperation on_whole_image(const PolicyStep& step, const Change& change) {
  const double amount = step.level / 10.0 * change.range + change.base;
  return [change, amount, probability = step.probability](Example& example, RandomDraws& draws) {
    if (happens(probability, draws)) example.image = change.pixels(example.image, amount, draws);
  };
}
PolicyOperation on_whole_image(const PolicyStep& step, const Move& moving) {
  const double amount = step.level / 10.0 * moving.range;
  return [moving, amount, probability = step.probability](Example& example, RandomDraws& draws) {
    if (happens(probability, draws)) move(example, moving.warp, signed_amount(amount, draws));
  };
}

// Boxes close to each other would be distorted too often otherwise.
float probability_in_boxes(const PolicyStep& step) { return step.probability / 3; }

PolicyOperation inside_boxes(const PolicyStep& step, const Change& change) {
  const double amount = step.level / 10.0 * change.range_in_boxes + change.base;
  return [change, amount, probability = probability_in_boxes(step)](Example& example, RandomDraws& draws) {
    change_inside_boxes(
        example, probability, [&](const at::Tensor& image) { return change.pixels(image, amount, draws); }, draws);
  };
}
// All boxes of an image to the same side.
PolicyOperation inside_boxes(const PolicyStep& step, const Move& moving) {
  const double amount = step.level / 10.0 * moving.range_in_boxes;
  return [warp = moving.warp, amount, probability = probability_in_boxes(step)](Example& example, RandomDraws& draws) {
    const float by = signed_amount(amount, draws);
    const auto moved = [&](const at::Tensor& image) {
      return warped(image, warp.map(by, {image.size(0), image.size(1)}), kFillLevel);
    };
    change_inside_boxes(example, probability, moved, draws);
  };
}

// Removes a suffix from a name; whether it was there.
bool takes(std::string_view& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return true;
}
}  // namespace

PolicyOperation policy_operation(const PolicyStep& step) {
  std::string_view name = step.operation;
  if (name == "BBox_Cutout")
    return [share = step.level / 10.0 * 0.75, probability = step.probability](Example& example, RandomDraws& draws) {
      if (happens(probability, draws)) cut_out_of_a_box(example, share, draws);
    };
  const bool in_boxes = takes(name, "_Only_BBoxes"), moves_boxes = takes(name, "_BBox");
  if (const Change* change = change_named(name); change != nullptr && !moves_boxes && (in_boxes || name != "Flip"))
    return in_boxes ? inside_boxes(step, *change) : on_whole_image(step, *change);
  if (const Move* move = move_named(name); move != nullptr && in_boxes != moves_boxes)
    return in_boxes ? inside_boxes(step, *move) : on_whole_image(step, *move);
  throw std::logic_error("no policy has an operation " + std::string(step.operation));
}

}  // namespace osprey::data
