#include "osprey/eval/draw.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

namespace osprey::eval {
namespace {

void check_picture(const at::Tensor& image) {
  TORCH_CHECK(image.dim() == 3 && image.size(2) == 3 && image.scalar_type() == at::kByte && image.device().is_cpu(),
              "image: expected [H, W, 3] uint8 on the CPU, got ", image.sizes(), " ", image.scalar_type());
}

cv::Scalar scalar(const std::array<uint8_t, 3>& rgb) { return {double(rgb[0]), double(rgb[1]), double(rgb[2])}; }

// Pixel index of a normalised coordinate, kept inside the picture.
int pixel(float fraction, int64_t size) {
  if (!(fraction > 0)) return 0;  // NaN as well
  return static_cast<int>(std::min<double>(std::lround(static_cast<double>(fraction) * static_cast<double>(size)),
                                           static_cast<double>(size - 1)));
}

std::string caption(const DrawnBox& box, const DrawOptions& options) {
  std::string text = options.show_labels ? box.label : "";
  if (options.show_scores && box.score >= 0)
    text += fmt::format("{}{}%", text.empty() ? "" : ": ", std::lround(100 * box.score));
  return text;
}

// The caption on a plate of the box's colour: above the box, or inside it where there is no room above.
void draw_caption(cv::Mat& picture, const std::string& text, cv::Point corner, const cv::Scalar& color, double scale) {
  constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
  int baseline = 0;
  const cv::Size size = cv::getTextSize(text, kFont, scale, 1, &baseline);
  const int height = size.height + baseline + 2;
  const int top = corner.y >= height ? corner.y - height : std::min(corner.y, std::max(0, picture.rows - height));
  const int left = std::clamp(corner.x, 0, std::max(0, picture.cols - size.width - 2));
  cv::rectangle(picture, cv::Rect(left, top, size.width + 2, height), color, cv::FILLED);
  cv::putText(picture, text, {left + 1, top + size.height + 1}, kFont, scale, cv::Scalar(0, 0, 0), 1, cv::LINE_AA);
}

}  // namespace

std::array<uint8_t, 3> class_color(int64_t class_index) {
  // Hues a golden section apart, so that neighbours differ; saturation changes every eleven classes.
  const double hue = std::fmod(0.33 + 0.61803398875 * static_cast<double>(class_index), 1.0) * 6;
  const double saturation = class_index / 11 % 2 == 0 ? 0.8 : 0.5;
  std::array<uint8_t, 3> rgb{};
  for (int channel = 0; channel < 3; ++channel) {
    const double k = std::fmod(5.0 - 2 * channel + hue, 6.0);
    const double value = 1 - saturation * std::clamp(std::min(k, 4 - k), 0.0, 1.0);
    rgb[channel] = static_cast<uint8_t>(std::lround(255 * value));
  }
  return rgb;
}

at::Tensor draw_boxes(const at::Tensor& image, const std::vector<DrawnBox>& boxes, const DrawOptions& options) {
  check_picture(image);
  at::Tensor result = image.contiguous().clone();
  const int64_t height = result.size(0), width = result.size(1);
  if (height == 0 || width == 0) return result;
  cv::Mat picture(static_cast<int>(height), static_cast<int>(width), CV_8UC3, result.data_ptr<uint8_t>());

  std::vector<const DrawnBox*> shown;
  for (const DrawnBox& box : boxes)
    if (box.score < 0 || box.score >= options.min_score) shown.push_back(&box);
  std::stable_sort(shown.begin(), shown.end(),
                   [](const DrawnBox* a, const DrawnBox* b) { return a->score > b->score; });
  if (shown.size() > static_cast<size_t>(std::max(options.max_boxes, 0)))
    shown.resize(static_cast<size_t>(std::max(options.max_boxes, 0)));
  std::reverse(shown.begin(), shown.end());  // the best on top

  const double side = static_cast<double>(std::max(height, width));
  const int thickness = std::max(1, static_cast<int>(std::lround(side / 300)));
  const double letters = std::clamp(side / 1000, 0.35, 2.0);
  for (const DrawnBox* box : shown) {
    const cv::Scalar color = scalar(box->color ? *box->color : class_color(box->class_index));
    const cv::Point corner(pixel(box->box.xmin, width), pixel(box->box.ymin, height));
    cv::rectangle(picture, corner, {pixel(box->box.xmax, width), pixel(box->box.ymax, height)}, color, thickness);
    const std::string text = caption(*box, options);
    if (!text.empty()) draw_caption(picture, text, corner, color, letters);
  }
  return result;
}

at::Tensor side_by_side(const at::Tensor& left, const at::Tensor& right) {
  check_picture(left);
  check_picture(right);
  TORCH_CHECK(left.size(0) == right.size(0), "pictures beside each other: heights differ, ", left.sizes(), " and ",
              right.sizes());
  constexpr int64_t kGap = 4;
  return at::cat({left, at::full({left.size(0), kGap, 3}, 255, left.options()), right}, 1);
}

at::Tensor resize_for_view(const at::Tensor& image, int64_t height, int64_t width) {
  check_picture(image);
  if (image.size(0) == height && image.size(1) == width) return image;
  at::Tensor result = at::empty({height, width, 3}, image.options());
  if (result.numel() == 0 || image.numel() == 0) return result.zero_();
  const at::Tensor source = image.contiguous();
  const cv::Mat from(static_cast<int>(image.size(0)), static_cast<int>(image.size(1)), CV_8UC3,
                     source.data_ptr<uint8_t>());
  cv::Mat to(static_cast<int>(height), static_cast<int>(width), CV_8UC3, result.data_ptr<uint8_t>());
  const bool smaller = height < image.size(0) && width < image.size(1);
  cv::resize(from, to, to.size(), 0, 0, smaller ? cv::INTER_AREA : cv::INTER_LINEAR);
  return result;
}

}  // namespace osprey::eval
