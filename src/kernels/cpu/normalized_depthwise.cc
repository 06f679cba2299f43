#include <ATen/ATen.h>

#include <vector>

#include "kernels/cpu/depthwise_lines.h"
#include "kernels/cpu/normalized_steps.h"
#include "kernels/maps.h"

namespace osprey::kernels::cpu {
namespace {

/// Some successive lines that are made when they are first asked for, the latest few of them.
class LatestLines {
 public:
  LatestLines(int64_t lines, int64_t line_size)
      : line_size_(line_size), memory_(scratch(lines * line_size)), held_(static_cast<size_t>(lines), -1) {}

  template <class Make>  // make(memory of the line)
  const float* line(int64_t number, Make make) {
    const auto slot = static_cast<size_t>(number) % held_.size();
    float* const memory = memory_.get() + static_cast<int64_t>(slot) * line_size_;
    if (held_[slot] != number) make(memory);
    held_[slot] = number;
    return memory;
  }

 private:
  int64_t line_size_;
  std::unique_ptr<float[]> memory_;
  std::vector<int64_t> held_;
};

}  // namespace

Convolved normalized_depthwise(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                               const Sides& sides) {
  const DepthwiseLines convolution(sides, weights);
  const int64_t depth = x.size(1);
  const at::Tensor y = empty_map({x.size(0), depth, sides.lines.to, sides.pixels.to}, x);
  const auto* const in = x.const_data_ptr<float>();
  auto* const out = y.mutable_data_ptr<float>();
  TaskSums sums(x.size(0) * line_tasks(sides.lines.to), depth);
  for_lines(x.size(0), sides.lines.to, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const Picture picture(x, number), result(y, number);
    LatestLines latest(convolution.window(), picture.line_size);
    const auto line = [&](int64_t source) {
      const float* const here = in + picture.at(source);
      if (!affine) return here;
      return latest.line(source,
                         [&](float* to) { normalize_rows(here, sides.pixels.from, depth, affine->channels, to); });
    };
    TaskMoments moments(out + result.at(begin), depth, sums, task);
    for (int64_t target = begin; target < end; ++target) {
      convolution.forward(line, target, out + result.at(target));
      moments.add(out + result.at(target), sides.pixels.to);
    }
    moments.finish();
  });
  return {y, sums.total()};
}

ConvolvedGradients normalized_depthwise_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                                 const std::optional<Affine>& affine, const at::Tensor& weights,
                                                 const Sides& sides, bool of_x) {
  const DepthwiseLines convolution(sides, weights);
  const int64_t depth = x.size(1), tasks = x.size(0) * line_tasks(sides.lines.to);
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  const auto* const in = x.const_data_ptr<float>();
  float* const out = of_x ? result.x.mutable_data_ptr<float>() : nullptr;
  const at::Tensor weight_sums = at::zeros({tasks, convolution.weight_numbers()}, x.options());
  auto* const of_weights = weight_sums.mutable_data_ptr<float>();
  TaskSums sums(tasks, depth);
  for_lines(x.size(0), sides.lines.to, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const Picture picture(x, number), wanted(gradient.y, number);
    LatestLines latest(convolution.window(), picture.line_size), totals(convolution.window(), wanted.line_size);
    const auto space = scratch(2 * depth);
    const auto own = sums.begin(task);
    const auto line = [&](int64_t source) {
      const float* const here = in + picture.at(source);
      if (!affine) return here;
      return latest.line(source,
                         [&](float* to) { normalize_rows(here, sides.pixels.from, depth, affine->channels, to); });
    };
    const auto total = [&](int64_t target) {
      return totals.line(target, [&](float* to) { make_total(gradient, wanted.at(target), sides.pixels.to, to); });
    };
    for (int64_t target = begin; target < end; ++target) {
      convolution.add_weight_gradient(line, total(target), target, of_weights + task * convolution.weight_numbers());
      if (!of_x) continue;
      const auto [first, last] = convolution.beside(target);
      for (int64_t source = first; source < last; ++source) {
        const int64_t at = picture.at(source);
        convolution.backward(total, source, out + at);
        if (affine)
          take_back_rows(out + at, in + at, sides.pixels.from, depth, affine->channels, space.get(), own.first,
                         own.second);
      }
    }
  });
  if (affine) result.moments = sums.total();
  result.weights = convolution.weight_gradient(weight_sums);
  return result;
}

}  // namespace osprey::kernels::cpu
