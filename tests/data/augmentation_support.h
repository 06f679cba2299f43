#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "osprey/config/parse.h"
#include "osprey/core/example.h"
#include "osprey/data/augmentation.h"
#include "support/golden.h"

namespace osprey::testing {

/// Gives the numbers of a list, one by one, whatever is asked for; fails the test where one is out of range or missing.
class ScriptedDraws final : public data::RandomDraws {
 public:
  explicit ScriptedDraws(std::vector<double> script) : script_(std::move(script)) {}
  float uniform(float low, float high) override { return static_cast<float>(take(low, high)); }
  int64_t integer(int64_t low, int64_t high) override {
    return high - low <= 1 ? low : static_cast<int64_t>(take(static_cast<double>(low), static_cast<double>(high)));
  }
  bool used_up() const { return next_ == script_.size(); }

 private:
  double take(double low, double high) {
    if (next_ == script_.size()) {
      ADD_FAILURE() << "draw " << next_ << " in [" << low << ", " << high << ") is not in the script";
      return low;
    }
    const double value = script_[next_++];
    EXPECT_TRUE(value >= low - 1e-6 && value <= high)
        << "draw " << value << " is not in [" << low << ", " << high << ")";
    return value;
  }
  std::vector<double> script_;
  size_t next_ = 0;
};

/// One augmentation from a line of config text, e.g. "random_horizontal_flip {}".
inline std::unique_ptr<data::Augmentation> augmentation(const std::string& text) {
  const auto step = config::parse<proto::PreprocessingStep>(text, "test");
  return data::build_augmentation(step.node());
}

/// Applies it with these draws and expects that all of them were used.
inline void apply(const std::string& text, const std::vector<double>& script, Example& example) {
  ScriptedDraws draws(script);
  augmentation(text)->apply(example, draws);
  EXPECT_TRUE(draws.used_up()) << text;
}

/// (7 y^2 + 3 x^2 + 13 x y + 11 c x + 41 c) modulo 256: a picture that any program can make.
inline at::Tensor formula_image(int64_t height, int64_t width) {
  at::Tensor image = at::empty({height, width, 3}, at::kByte);
  uint8_t* value = image.data_ptr<uint8_t>();
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t c = 0; c < 3; ++c)
        *value++ = static_cast<uint8_t>(7 * y * y + 3 * x * x + 13 * x * y + 11 * c * x + 41 * c);
  return image;
}

/// Sum of values times 1 + (their index modulo 97), so that places count: the numbers that tests expect of whole
/// pictures.
inline int64_t checksum(const at::Tensor& image) {
  const at::Tensor values = image.to(at::kLong).flatten();
  return (values * (at::arange(values.numel()).remainder(97) + 1)).sum().item<int64_t>();
}

inline std::vector<Box> boxes_of(const nlohmann::json& rows) {
  std::vector<Box> boxes;
  for (const auto& row : rows) boxes.push_back({row[0], row[1], row[2], row[3]});
  return boxes;
}

inline at::Tensor tensor_of(const std::vector<Box>& boxes) {
  at::Tensor rows = at::empty({static_cast<int64_t>(boxes.size()), 4});
  for (size_t i = 0; i < boxes.size(); ++i)
    rows[static_cast<int64_t>(i)].copy_(at::tensor({boxes[i].ymin, boxes[i].xmin, boxes[i].ymax, boxes[i].xmax}));
  return rows;
}

/// float32 arithmetic in another order: a few units in the last place of numbers around 1.
inline void expect_boxes(const std::vector<Box>& actual, const nlohmann::json& expected, const std::string& what) {
  expect_close(tensor_of(actual), tensor_of(boxes_of(expected)), 1e-5, 1e-6, what + " boxes");
}

}  // namespace osprey::testing
