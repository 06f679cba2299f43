#include <algorithm>
#include <cmath>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
using Jitter = proto::RandomJitterBoxes;

struct Span {
  float center, size;

  // The factor by which the size may grow until an edge meets the border of the image.
  float room() const { return std::abs(std::min(2 * center / size, 2 * (1 - center) / size)); }
};

Span span_of(float low, float high) {
  const float size = high - low;
  return {low + size / 2, std::max(std::abs(size), 1e-6f)};
}

// Half the box's size, times a factor of its own for every edge, is how far the edge lies from the centre. Symmetric
// modes have one factor for opposite edges, those named XY one for all; there no box grows over the image's border.
class JitterBoxes final : public Augmentation {
 public:
  JitterBoxes(float ratio, Jitter::JitterMode mode) : mode_(mode) {
    const bool shrinks =
        mode == Jitter::SHRINK || mode == Jitter::SHRINK_SYMMETRIC || mode == Jitter::SHRINK_SYMMETRIC_XY;
    low_ = shrinks || mode == Jitter::DEFAULT ? -ratio : 0;
    high_ = shrinks ? 0 : ratio;
  }
  void apply(Example& example, RandomDraws& draws) const override {
    for (Box& box : example.boxes) {
      const Span y = span_of(box.ymin, box.ymax), x = span_of(box.xmin, box.xmax);
      const Box factors = symmetric() ? symmetric_factors(y, x, draws) : factors_of_edges(draws);
      const auto edge = [](float value) { return std::clamp(value, 0.0f, 1.0f); };
      box = {edge(y.center - y.size * factors.ymin / 2), edge(x.center - x.size * factors.xmin / 2),
             edge(y.center + y.size * factors.ymax / 2), edge(x.center + x.size * factors.xmax / 2)};
    }
  }

 private:
  bool same_for_both() const { return mode_ == Jitter::EXPAND_SYMMETRIC_XY || mode_ == Jitter::SHRINK_SYMMETRIC_XY; }
  bool symmetric() const {
    return same_for_both() || mode_ == Jitter::EXPAND_SYMMETRIC || mode_ == Jitter::SHRINK_SYMMETRIC;
  }
  float factor(RandomDraws& draws) const { return 1 + draws.uniform(low_, high_); }

  Box factors_of_edges(RandomDraws& draws) const {
    Box factors;
    for (float* edge : {&factors.ymin, &factors.xmin, &factors.ymax, &factors.xmax}) *edge = factor(draws);
    return factors;
  }
  Box symmetric_factors(const Span& y, const Span& x, RandomDraws& draws) const {
    const auto within = [](float value, float most) { return std::clamp(value, -most, most); };
    if (same_for_both()) {
      const float both = within(factor(draws), std::min(y.room(), x.room()));
      return {both, both, both, both};
    }
    const float height = factor(draws), width = factor(draws);
    const float rows = within(height, y.room()), columns = within(width, x.room());
    return {rows, columns, rows, columns};
  }

  Jitter::JitterMode mode_;
  float low_, high_;
};

std::unique_ptr<Augmentation> make_jitter(const config::ConfigNode<Jitter>& cfg) {
  if (!(cfg->ratio() >= 0)) cfg.fail("ratio", "must be >= 0, got " + std::to_string(cfg->ratio()));
  return std::make_unique<JitterBoxes>(cfg->ratio(), cfg->jitter_mode());
}
OSPREY_REGISTER(Augmentation, &make_jitter);
}  // namespace
}  // namespace osprey::data
