#include <algorithm>
#include <vector>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// To one size, by one of several methods. Bicubic ones leave 0..255, and levels between whole ones are kept then.
class ResizeTo final : public Augmentation {
 public:
  ResizeTo(int64_t height, int64_t width, std::vector<ResizeMethod> methods)
      : height_(height), width_(width), methods_(std::move(methods)) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const int64_t choice = draws.integer(0, static_cast<int64_t>(methods_.size()));
    if (leaves_levels()) example.image = example.image.to(at::kFloat);
    resize(example, height_, width_, {methods_[choice]});
  }

  bool leaves_levels() const override {
    return std::find(methods_.begin(), methods_.end(), ResizeMethod::kBicubic) != methods_.end();
  }

 private:
  int64_t height_, width_;
  std::vector<ResizeMethod> methods_;
};

ResizeMethod method_of(proto::ResizeImage::Method method) {
  switch (method) {
    case proto::ResizeImage::AREA:
      return ResizeMethod::kArea;
    case proto::ResizeImage::BICUBIC:
      return ResizeMethod::kBicubic;
    case proto::ResizeImage::NEAREST_NEIGHBOR:
      return ResizeMethod::kNearest;
    default:
      return ResizeMethod::kBilinear;
  }
}

std::unique_ptr<Augmentation> make_resize(const ConfigNode<proto::ResizeImage>& cfg) {
  check_at_least(cfg, "new_height", cfg->new_height(), 1);
  check_at_least(cfg, "new_width", cfg->new_width(), 1);
  return std::make_unique<ResizeTo>(cfg->new_height(), cfg->new_width(), std::vector{method_of(cfg->method())});
}

std::unique_ptr<Augmentation> make_random_method(const ConfigNode<proto::RandomResizeMethod>& cfg) {
  check_at_least(cfg, "target_height", cfg->target_height(), 1);
  check_at_least(cfg, "target_width", cfg->target_width(), 1);
  return std::make_unique<ResizeTo>(
      cfg->target_height(), cfg->target_width(),
      std::vector{ResizeMethod::kBilinear, ResizeMethod::kNearest, ResizeMethod::kBicubic, ResizeMethod::kArea});
}
OSPREY_REGISTER(Augmentation, &make_resize);
OSPREY_REGISTER(Augmentation, &make_random_method);
}  // namespace
}  // namespace osprey::data
