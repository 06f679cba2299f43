#include "osprey/data/shapes.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "osprey/base/error.h"
#include "osprey/data/image_codec.h"

namespace osprey::data {
namespace {

constexpr std::array<const char*, 3> kClasses{"circle", "rectangle", "triangle"};
constexpr double kSmallest = 1.0 / 12, kLargest = 1.0 / 2;  // of the side
constexpr double kTurn = 0.35;                              // radians to either side
constexpr double kSeen = 0.7;                               // of an object's pixels
constexpr int kTries = 40;                                  // for a place where nothing is hidden too much

// SplitMix64 (Steele, Lea and Flood 2014): the same numbers on every machine.
class Draws {
 public:
  explicit Draws(uint64_t state) : state_(state) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53; }
  int whole(int low, int high) { return low + static_cast<int>(bits() % static_cast<uint64_t>(high - low + 1)); }
  cv::Scalar colour() { return {uniform(0, 255), uniform(0, 255), uniform(0, 255)}; }

 private:
  uint64_t state_;
};

// Smooth noise of one grain: few random values, enlarged.
cv::Mat noise(Draws& draws, int size, int grain, double strength) {
  cv::Mat coarse(grain, grain, CV_32FC3);
  for (int y = 0; y < grain; ++y)
    for (int x = 0; x < grain; ++x)
      for (int c = 0; c < 3; ++c)
        coarse.at<cv::Vec3f>(y, x)[c] = static_cast<float>(draws.uniform(-strength, strength));
  cv::Mat fine;
  cv::resize(coarse, fine, {size, size}, 0, 0, cv::INTER_CUBIC);
  return fine;
}

// Blotches of three grains, then thin lines, arcs and specks that are no objects.
cv::Mat background(Draws& draws, int size) {
  cv::Mat texture(size, size, CV_32FC3, draws.colour());
  texture += noise(draws, size, 4, 50);
  texture += noise(draws, size, size / 12, 25);
  texture += noise(draws, size, size / 3, 18);
  cv::Mat picture;
  texture.convertTo(picture, CV_8UC3);
  const auto point = [&] { return cv::Point(draws.whole(0, size - 1), draws.whole(0, size - 1)); };
  const int clutter = draws.whole(6, 18);
  for (int i = 0; i < clutter; ++i) {
    const cv::Scalar colour = draws.colour();
    const cv::Point from = point(), to = point();
    const int radius = draws.whole(size / 16, size / 4), turn = draws.whole(0, 359), sweep = draws.whole(20, 120);
    switch (draws.whole(0, 2)) {
      case 0:
        cv::line(picture, from, to, colour, 1, cv::LINE_AA);
        break;
      case 1:
        cv::ellipse(picture, from, {radius, radius}, turn, 0, sweep, colour, 1, cv::LINE_AA);
        break;
      default:
        cv::circle(picture, from, std::max(1, size / 96), colour, cv::FILLED);
        break;
    }
  }
  return picture;
}

struct Shape {
  int kind = 0;
  std::vector<cv::Point> outline;
};

// An object of a kind around a centre that may lie close to the border.
Shape draw_shape(Draws& draws, int size) {
  Shape shape;
  shape.kind = draws.whole(0, static_cast<int>(kClasses.size()) - 1);
  const double side = size * draws.uniform(kSmallest, kLargest);
  const double aspect = shape.kind == 0 ? draws.uniform(0.85, 1) : draws.uniform(0.6, 1);
  const double turn = draws.uniform(-kTurn, kTurn);
  const cv::Point2d centre(draws.uniform(0, size), draws.uniform(0, size));
  std::vector<cv::Point2d> unit;  // longest extent 1
  if (shape.kind == 0) {
    for (int i = 0; i < 64; ++i)
      unit.emplace_back(0.5 * std::cos(i * M_PI / 32), 0.5 * aspect * std::sin(i * M_PI / 32));
  } else if (shape.kind == 1) {
    const double length = 1 / std::hypot(1, aspect);
    unit = {{-length / 2, -length * aspect / 2},
            {length / 2, -length * aspect / 2},
            {length / 2, length * aspect / 2},
            {-length / 2, length * aspect / 2}};
  } else {
    for (int i = 0; i < 3; ++i)
      unit.emplace_back(0.5 * std::cos(i * 2 * M_PI / 3 + 0.3 * (1 - aspect)), 0.5 * std::sin(i * 2 * M_PI / 3));
  }
  for (const cv::Point2d& p : unit)
    shape.outline.emplace_back(
        cv::Point(static_cast<int>(std::lround(centre.x + side * (p.x * std::cos(turn) - p.y * std::sin(turn)))),
                  static_cast<int>(std::lround(centre.y + side * (p.x * std::sin(turn) + p.y * std::cos(turn))))));
  return shape;
}

struct Placed {
  Shape shape;
  cv::Rect box;
  int pixels = 0;  // in the picture
};

class Shapes final : public AnnotationSource {
 public:
  explicit Shapes(const ShapesOptions& options) : options_(options) {
    if (options.num_images < 1) throw ConfigError(fmt::format("--num_images must be >= 1, got {}", options.num_images));
    if (options.image_size < 48 || options.image_size > 4096)
      throw ConfigError(fmt::format("shapes: the image size must be in 48..4096, got {}", options.image_size));
    if (options.max_objects < 1)
      throw ConfigError(fmt::format("shapes: max_objects must be >= 1, got {}", options.max_objects));
  }

  int64_t size() const override { return options_.num_images; }

  bool read(int64_t index, AnnotatedImage& image, Problems&) const override {
    Draws seeds(options_.seed);
    Draws draws(seeds.bits() ^ Draws(static_cast<uint64_t>(index) + 0x5368617065730000u).bits());
    const int side = static_cast<int>(options_.image_size);
    cv::Mat picture = background(draws, side);
    image.source_id = fmt::format("shapes-{}-{}", options_.seed, index);
    image.file_name = image.source_id + ".jpg";
    image.height = image.width = side;
    for (const Placed& placed : place(draws, side)) {
      paint(draws, picture, placed);
      AnnotatedObject object;
      object.name = kClasses[static_cast<size_t>(placed.shape.kind)];
      object.box_px = {static_cast<float>(placed.box.y), static_cast<float>(placed.box.x),
                       static_cast<float>(placed.box.y + placed.box.height),
                       static_cast<float>(placed.box.x + placed.box.width)};
      object.area_px = static_cast<float>(placed.pixels);
      object.truncated = placed.box.x == 0 || placed.box.y == 0 || placed.box.x + placed.box.width == side ||
                         placed.box.y + placed.box.height == side;
      image.objects.push_back(object);
    }
    cv::cvtColor(picture, picture, cv::COLOR_BGR2RGB);
    image.encoded = encode_jpeg(at::from_blob(picture.data, {side, side, 3}, at::kByte), 92);
    return true;
  }

  RecordOrigin origin(int64_t index) const override { return {"shapes", index, -1, std::to_string(index)}; }

  std::vector<std::pair<int, std::string>> classes() const override {
    std::vector<std::pair<int, std::string>> result;
    for (const char* name : kClasses) result.emplace_back(static_cast<int>(result.size()) + 1, name);
    return result;
  }

 private:
  // Later objects lie on top. A new one is taken only where it hides no earlier one too much, and lies in the picture
  // for the larger part.
  std::vector<Placed> place(Draws& draws, int side) const {
    const int wanted = draws.whole(1, options_.max_objects);
    std::vector<Placed> all;
    cv::Mat owner(side, side, CV_8U, cv::Scalar(255));
    for (int tries = 0; static_cast<int>(all.size()) < wanted && tries < kTries; ++tries) {
      Placed placed{draw_shape(draws, side), {}, 0};
      const cv::Rect whole = cv::boundingRect(placed.shape.outline);
      cv::Mat mask = cv::Mat::zeros(side, side, CV_8U);
      cv::fillPoly(mask, std::vector<std::vector<cv::Point>>{placed.shape.outline}, cv::Scalar(255));
      placed.pixels = cv::countNonZero(mask);
      placed.box = cv::boundingRect(mask);
      if (placed.pixels == 0 || placed.box.area() < kSeen * whole.area()) continue;
      if (std::min(placed.box.width, placed.box.height) < side / 16) continue;
      cv::Mat after = owner.clone();
      after.setTo(cv::Scalar(static_cast<double>(all.size())), mask);
      bool seen = true;
      for (size_t i = 0; i < all.size() && seen; ++i)
        seen = cv::countNonZero(after == static_cast<double>(i)) >= kSeen * all[i].pixels;
      if (!seen) continue;
      owner = after;
      all.push_back(std::move(placed));
    }
    return all;
  }

  // A colour that stands out from what lies below, with stripes or an outline on it.
  static void paint(Draws& draws, cv::Mat& picture, const Placed& placed) {
    const cv::Scalar below = cv::mean(picture(placed.box));
    cv::Scalar colour = draws.colour();
    while (cv::norm(colour - below) < 110) colour = draws.colour();
    const std::vector<std::vector<cv::Point>> outline{placed.shape.outline};
    cv::Mat mask = cv::Mat::zeros(picture.size(), CV_8U), face(picture.size(), CV_8UC3, colour);
    cv::fillPoly(mask, outline, cv::Scalar(255));
    const int style = draws.whole(0, 2);
    if (style == 1) {
      const int gap = draws.whole(4, 9);
      const cv::Scalar stripe = colour * draws.uniform(0.7, 0.9);
      for (int x = -picture.rows; x < picture.cols; x += gap)
        cv::line(face, {x, 0}, {x + picture.rows, picture.rows}, stripe, 1);
    }
    face.copyTo(picture, mask);
    if (style == 2) cv::polylines(picture, outline, true, draws.colour(), 1, cv::LINE_AA);
  }

  ShapesOptions options_;
};

}  // namespace

std::unique_ptr<AnnotationSource> make_shapes(const ShapesOptions& options) {
  return std::make_unique<Shapes>(options);
}

}  // namespace osprey::data
