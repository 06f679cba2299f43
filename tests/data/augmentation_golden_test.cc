#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "augmentation_support.h"
#include "osprey/data/color_ops.h"
#include "osprey/data/example_ops.h"

namespace osprey::testing {
namespace {
using data::crop;
using nlohmann::json;

// Colours go through a few float32 operations on values of up to 255.
constexpr double kLevels = 2e-3;

// The numbers in a case's name, in their order: "hue_-0.2" -> {-0.2}.
std::vector<double> numbers_in(const std::string& name) {
  static const std::regex number(R"(-?[0-9]*\.?[0-9]+)");
  std::vector<double> numbers;
  for (std::sregex_iterator at(name.begin(), name.end(), number), end; at != end; ++at)
    numbers.push_back(std::stod(at->str()));
  return numbers;
}

Example input_example(const json& inputs) {
  Example example;
  example.image = tensor(inputs["image_hwc"]);
  example.boxes = boxes_of(inputs["boxes"]);
  for (const auto& label : inputs["labels"]) example.classes.push_back(label.get<int64_t>() - 1);
  for (const auto& weight : inputs["weights"]) example.weights.push_back(weight);
  example.keypoints = tensor(inputs["keypoints"]);
  return example;
}

// A picture whose channels are row, column and 0.
Example ramp_example(const json& inputs, int64_t height, int64_t width) {
  Example example = input_example(inputs);
  example.image = at::zeros({height, width, 3});
  example.image.select(2, 0).copy_(at::arange(height, at::kFloat).unsqueeze(1).expand({height, width}));
  example.image.select(2, 1).copy_(at::arange(width, at::kFloat).expand({height, width}));
  return example;
}

// Compares what the case gives: image, image_shape, boxes, labels, weights, keypoints.
void expect_example(const Example& actual, const json& expected, const std::string& what) {
  if (expected.contains("image")) expect_close(actual.image, tensor(expected["image"]), 1e-5, kLevels, what + " image");
  if (expected.contains("image_shape")) {
    EXPECT_EQ(actual.image.sizes().vec(), expected["image_shape"].get<std::vector<int64_t>>()) << what;
  }
  if (expected.contains("boxes")) expect_boxes(actual.boxes, expected["boxes"], what);
  if (expected.contains("labels")) {
    std::vector<int64_t> labels;
    for (int64_t label : actual.classes) labels.push_back(label + 1);
    EXPECT_EQ(labels, expected["labels"].get<std::vector<int64_t>>()) << what;
  }
  if (expected.contains("weights")) {
    EXPECT_EQ(actual.weights, expected["weights"].get<std::vector<float>>()) << what;
  }
  if (expected.contains("keypoints"))
    expect_close(actual.keypoints, tensor(expected["keypoints"]), 1e-5, 1e-6, what + " keypoints");
}

void check_color(const json& inputs, const std::string& name, const json& expected) {
  SCOPED_TRACE(name);
  Example example = input_example(inputs);
  const std::vector<double> n = numbers_in(name);
  const auto is = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  json wanted = expected;
  if (is("brightness_delta"))
    apply("random_adjust_brightness { max_delta: 1 }", {n[0]}, example);
  else if (is("contrast_"))
    apply("random_adjust_contrast { min_delta: 0 max_delta: 9 }", {n[0]}, example);
  else if (is("hue_"))
    apply("random_adjust_hue { max_delta: 1 }", {n[0]}, example);
  else if (is("saturation_"))
    apply("random_adjust_saturation { min_delta: 0 max_delta: 9 }", {n[0]}, example);
  else if (is("distort_color_ordering_0"))
    example.image = data::adjust_contrast(
        data::adjust_hue(data::adjust_saturation(data::adjust_brightness(example.image, 0.15f), 0.6f), 0.07f), 1.2f);
  else if (is("distort_color_ordering_1"))
    example.image = data::adjust_hue(
        data::adjust_saturation(data::adjust_contrast(data::adjust_brightness(example.image, 0.15f), 1.2f), 0.6f),
        0.07f);
  else if (is("rgb_to_gray_random"))
    apply("random_rgb_to_gray {}", {0}, example);
  else if (is("rgb_to_gray(1"))
    apply("rgb_to_gray {}", {}, example), example.image = example.image.slice(2, 0, 1);  // the original's one channel
  else if (is("pixel_value_scale")) {
    const at::Tensor factors = tensor(expected["coef"]).flatten().to(at::kDouble);
    apply("random_pixel_value_scale {}", {factors.data_ptr<double>(), factors.data_ptr<double>() + factors.numel()},
          example);
    wanted = expected["out"];
  } else if (is("adjust_gamma"))
    apply(fmt::format("adjust_gamma {{ gamma: {} gain: {} }}", n[0], n[1]), {}, example);
  else if (is("normalize_image"))
    apply(
        fmt::format("normalize_image {{ original_minval: {} original_maxval: {} target_minval: {} target_maxval: {} }}",
                    n[0], n[1], n[2], n[3]),
        {}, example);
  else if (is("subtract_channel_mean"))
    apply(fmt::format("subtract_channel_mean {{ means: [{}, {}, {}] }}", n[0], n[1], n[2]), {}, example);
  else if (is("black_patch"))
    apply(fmt::format("random_black_patches {{ max_black_patches: {} size_to_image_ratio: {} probability: 1 }}", n[0],
                      n[1]),
          {0, n[2], n[3]}, example);
  else
    FAIL() << "nobody consumed the colour case " << name;
  expect_close(example.image, tensor(wanted), 1e-5, kLevels, name);
}

void check_strict_crop(const json& inputs, const json& cases) {
  for (const json& one : cases["cases"]) {
    const std::string what = one.dump();
    Example example = ramp_example(inputs, cases["image_hw"][0], cases["image_hw"][1]);
    const auto window = one["window_pixels"].get<std::vector<int64_t>>();
    crop(example, {window[0], window[1], window[2], window[3]}, one["overlap_thresh"], one["clip_boxes"]);
    expect_example(example, one, what);
    const json& first = one["image_first_pixel(y,x of origin)"];
    EXPECT_EQ(example.image[0][0][0].item<float>(), first[0].get<float>());
    EXPECT_EQ(example.image[0][0][1].item<float>(), first[1].get<float>());
  }
}

void check_square_crop(const json& inputs, const json& cases) {
  for (const json& one : cases["cases"]) {
    Example example = ramp_example(inputs, cases["image_hw"][0], cases["image_hw"][1]);
    const double scale = one["scale"];
    apply(fmt::format("random_square_crop_by_scale {{ max_border: 8 num_scales: 1 scale_min: {0} scale_max: {0} }}",
                      scale),
          {one["y_center"], one["x_center"]}, example);
    expect_example(example, one, one.dump());
    expect_close(example.image.sum(at::IntArrayRef{0, 1}), tensor(one["channel_sums"]), 1e-6, 0,
                 "sums of " + one.dump());
  }
}

void check_to_square(const json& inputs, const json& cases) {
  for (const json& one : cases) {
    Example example = ramp_example(inputs, 60, 80);
    apply(fmt::format("random_scale_crop_and_pad_to_square {{ output_size: {} scale_min: 0.1 scale_max: 9 }}",
                      one["output_size"].get<int>()),
          {one["scale"], one["uniform_y"], one["uniform_x"]}, example);
    expect_example(example, one, one.dump());
    expect_close(example.image.to(at::kDouble).sum(at::IntArrayRef{0, 1}), tensor(one["image_sums"], at::kDouble), 1e-6,
                 0, "sums");
    for (const auto& entry : one.items()) {
      if (entry.key().rfind("pixel_", 0) != 0) continue;
      static const std::regex place(R"(\[(\d+),(\d+)\])");
      std::smatch match;
      const std::string key = entry.key();
      ASSERT_TRUE(std::regex_search(key, match, place)) << key;
      expect_close(example.image[std::stol(match[1])][std::stol(match[2])], tensor(entry.value()), 1e-5, kLevels, key);
    }
  }
}

// The frame of boxes is changed here; the other operations are part of crop(), checked above, or of the room `boxes`.
void check_box_operations(const json& ops) {
  Example example;
  example.boxes = boxes_of(ops["boxes"]);
  data::change_frame(example, boxes_of(json::array({ops["window"]}))[0]);
  expect_boxes(example.boxes, ops["change_coordinate_frame"], "change_coordinate_frame");
}

void check_example(const json& examples, const std::string& name, const json& expected) {
  SCOPED_TRACE(name);
  const json& inputs = examples["inputs"];
  const std::vector<double> n = numbers_in(name);
  Example example = input_example(inputs);
  const auto is = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  std::string permutation;
  for (const auto& value : inputs["keypoint_flip_permutation"])
    permutation += fmt::format(" keypoint_flip_permutation: {}", value.get<int>());
  if (is("horizontal_flip"))
    apply("random_horizontal_flip {" + permutation + " }", {0}, example);
  else if (is("vertical_flip"))
    apply("random_vertical_flip {}", {0}, example);
  else if (is("rotation90"))
    apply("random_rotation90 {}", {0}, example);
  else if (is("image_scale")) {
    apply("random_image_scale { min_scale_ratio: 0.1 max_scale_ratio: 9 }", {n[0]}, example);
    expect_close(example.image, tensor(expected), 1e-5, kLevels, name);
    return;
  } else if (is("pad_image_target")) {
    const auto size = std::vector<double>{10, 12};
    apply("random_pad_image { max_image_height: 99 max_image_width: 99 }", {size[0], size[1], 3, 1}, example);
  } else if (is("pad_image_same"))
    apply(fmt::format("random_pad_image {{ max_image_height: 99 max_image_width: 99 pad_color: [{}, {}, {}] }}", n[0],
                      n[1], n[2]),
          {10, 12, 3, 1}, example);
  else if (is("crop_to_aspect_ratio"))
    apply(fmt::format("random_crop_to_aspect_ratio {{ aspect_ratio: {} }}", n[0]), {n[2]}, example);
  else if (is("pad_to_aspect_ratio"))
    apply(fmt::format("ssd_random_crop_pad_fixed_aspect_ratio {{ aspect_ratio: {} operations {{ min_object_covered: 0 "
                      "min_aspect_ratio: 1 "
                      "max_aspect_ratio: 1 min_area: 1 max_area: 1 random_coef: 1 }} }}",
                      n[0]),
          {0, n[1]}, example);
  else if (is("self_concat"))
    apply("random_self_concat_image {}",
          is("self_concat_vertical") ? std::vector<double>{0, 1} : std::vector<double>{1, 0}, example);
  else if (is("retain_boxes_weight_above"))
    data::keep_weights_above(example, static_cast<float>(n[0]));
  else if (is("remap_labels")) {
    apply(fmt::format("remap_labels {{ original_labels: {} original_labels: {} new_label: {} }}", n[0], n[1], n[2]), {},
          example);
    expect_example(example, {{"labels", expected}}, name);
    return;
  } else
    FAIL() << "nobody consumed the example " << name;
  expect_example(example, expected, name);
}

TEST(Augmentations, AgreeWithTheOriginalInEveryExample) {
  for (const auto& file : golden_files("augmentations.json")) {
    SCOPED_TRACE(file.string());
    const json examples = read_json(file)["examples"];
    for (const auto& [name, expected] : examples.items()) {
      if (name == "inputs") continue;
      if (name == "colour")
        for (const auto& [color, values] : expected.items()) check_color(examples["inputs"], color, values);
      else if (name == "strict_crop")
        check_strict_crop(examples["inputs"], expected);
      else if (name == "square_crop_by_scale")
        check_square_crop(examples["inputs"], expected);
      else if (name == "scale_crop_and_pad_to_square")
        check_to_square(examples["inputs"], expected);
      else if (name == "box_list_ops")
        check_box_operations(expected);
      else
        check_example(examples, name, expected);
    }
  }
}

TEST(Augmentations, EveryStepOfTheOriginalIsBuilt) {
  for (const auto& file : golden_files("augmentations.json")) {
    for (const json& step : read_json(file).value("steps", json::array())) {
      const std::string message = "osprey.protos." + step["message"].get<std::string>();
      EXPECT_TRUE(data::Augmentation::Registry::instance().has(message)) << step["step"];
    }
  }
}

// The crops that the original uses where a config lists none, spelt out, do the same as the empty message.
TEST(Augmentations, EmptySsdCropsUseTheOriginalsOperations) {
  for (const auto& file : golden_files("augmentations.json")) {
    const json all = read_json(file), crops = all.value("ssd_crop_code_defaults", json::object());
    for (const auto& [step, defaults] : crops.items()) {
      std::string text = step + " {";
      for (size_t i = 0; i < defaults["min_object_covered"].size(); ++i) {
        text += fmt::format(
            " operations {{ min_object_covered: {} min_area: {} max_area: {} overlap_thresh: {} clip_boxes: {} "
            "random_coef: {}",
            defaults["min_object_covered"][i].get<double>(), defaults["area_range"][i][0].get<double>(),
            defaults["area_range"][i][1].get<double>(), defaults["overlap_thresh"][i].get<double>(),
            defaults["clip_boxes"][i].get<bool>(), defaults["random_coef"][i].get<double>());
        if (defaults.contains("aspect_ratio_range"))
          text += fmt::format(" min_aspect_ratio: {} max_aspect_ratio: {}",
                              defaults["aspect_ratio_range"][i][0].get<double>(),
                              defaults["aspect_ratio_range"][i][1].get<double>());
        text += " }";
      }
      text += " }";
      const auto empty = augmentation(step + " {}"), spelt_out = augmentation(text);
      for (uint64_t key = 0; key < 100; ++key) {
        Example a = ramp_example(all["examples"]["inputs"], 60, 80),
                b = ramp_example(all["examples"]["inputs"], 60, 80);
        data::KeyedDraws draws_a({0, 0, key, 0}), draws_b({0, 0, key, 0});
        empty->apply(a, draws_a);
        spelt_out->apply(b, draws_b);
        EXPECT_EQ(a.boxes, b.boxes) << step;
        EXPECT_EQ(a.image.sizes(), b.image.sizes()) << step;
      }
    }
  }
}

// Arguments that the original's builder hands on for an empty message, for the fields that the message has.
TEST(Augmentations, DefaultsOfTheConfigAreThoseOfTheOriginalsBuilder) {
  const auto* steps = proto::PreprocessingStep::descriptor();
  for (const auto& file : golden_files("augmentations.json")) {
    for (const json& step : read_json(file).value("builder_arguments_for_empty_step", json::array())) {
      const auto* field = steps->FindFieldByName(step["step"].get<std::string>());
      ASSERT_NE(field, nullptr) << step.dump();
      for (const auto& [name, value] : step["kwargs"].items()) {
        const auto* option = field->message_type()->FindFieldByName(name);
        if (option == nullptr || option->is_repeated() || !value.is_number_float()) continue;
        EXPECT_EQ(option->default_value_float(), value.get<float>()) << step["step"] << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace osprey::testing
