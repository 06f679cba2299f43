#include <ATen/ATen.h>

#include <vector>

#include "kernels/cpu/depthwise_lines.h"
#include "kernels/cpu/normalized_steps.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"

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

/// The lines of a picture as floats, put through the batch norm, each made once.
template <class T>
class FloatLines {
 public:
  FloatLines(const at::Tensor& x, const std::optional<Affine>& affine, int64_t number, int64_t most)
      : picture_(x, number),
        map_(device::data<const T>(x)),
        pixels_(x.size(3)),
        depth_(x.size(1)),
        channels_(affine ? &affine->channels : nullptr),
        latest_(most, picture_.line_size) {}

  const float* operator()(int64_t number) {
    const T* const line = map_ + picture_.at(number);
    if (channels_ == nullptr && std::is_same_v<T, float>) return floats_of(line, picture_.line_size, nullptr);
    return latest_.line(number, [&](float* to) {
      if (channels_ == nullptr) {
        floats_of(line, picture_.line_size, to);
      } else {
        normalize_rows(line, pixels_, depth_, *channels_, to);
      }
    });
  }

 private:
  Picture picture_;
  const T* map_;
  int64_t pixels_, depth_;
  const ChannelAffine* channels_;  ///< null: nothing to be normalised
  LatestLines latest_;
};

template <class T>
Convolved depthwise_of(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                       const Sides& sides) {
  const DepthwiseLines convolution(sides, weights);
  const int64_t depth = x.size(1);
  const at::Tensor y = empty_map({x.size(0), depth, sides.lines.to, sides.pixels.to}, x);
  T* const out = device::data<T>(y);
  TaskSums sums(x.size(0) * line_tasks(sides.lines.to), depth);
  for_lines(x.size(0), sides.lines.to, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const Picture result(y, number);
    FloatLines<T> line(x, affine, number, convolution.window());
    const Drafts<T> drafts(result.line_size);
    TaskMoments<T> moments(out + result.at(begin), depth, sums, task);
    for (int64_t target = begin; target < end; ++target) {
      T* const made = out + result.at(target);
      convolution.forward(line, target, drafts.of(made));
      drafts.write(result.line_size, made);
      moments.add(made, sides.pixels.to);
    }
    moments.finish();
  });
  return {y, sums.total()};
}

template <class T>
ConvolvedGradients depthwise_backward_of(const ThroughStatistics& gradient, const at::Tensor& x,
                                         const std::optional<Affine>& affine, const at::Tensor& weights,
                                         const Sides& sides, bool of_x) {
  const DepthwiseLines convolution(sides, weights);
  const int64_t depth = x.size(1), tasks = x.size(0) * line_tasks(sides.lines.to);
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  const at::Tensor weight_sums = at::zeros({tasks, convolution.weight_numbers()}, at::kFloat);
  auto* const of_weights = weight_sums.mutable_data_ptr<float>();
  TaskSums sums(tasks, depth);
  for_lines(x.size(0), sides.lines.to, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const Picture picture(x, number), wanted(gradient.y, number);
    FloatLines<T> line(x, affine, number, convolution.window());
    LatestLines totals(convolution.window(), wanted.line_size);
    const RowGradients<T> gradients(x, affine, result.x, sides.pixels.from);
    const TaskSums::Sums own = sums.begin(task);
    const auto total = [&](int64_t target) {
      return totals.line(target, [&](float* to) { make_total<T>(gradient, wanted.at(target), sides.pixels.to, to); });
    };
    for (int64_t target = begin; target < end; ++target) {
      convolution.add_weight_gradient(line, total(target), target, of_weights + task * convolution.weight_numbers());
      if (!of_x) continue;
      const auto [first, last] = convolution.beside(target);
      for (int64_t source = first; source < last; ++source) {
        const int64_t at = picture.at(source);
        convolution.backward(total, source, gradients.begin(at));
        gradients.finish(at, sides.pixels.from, own);
      }
    }
  });
  if (affine) result.moments = sums.total();
  result.weights = convolution.weight_gradient(weight_sums);
  return result;
}

}  // namespace

Convolved normalized_depthwise(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                               const Sides& sides) {
  Convolved result;
  with_elements(x.scalar_type(), [&](auto* type) {
    result = depthwise_of<std::remove_pointer_t<decltype(type)>>(x, affine, weights, sides);
  });
  return result;
}

ConvolvedGradients normalized_depthwise_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                                 const std::optional<Affine>& affine, const at::Tensor& weights,
                                                 const Sides& sides, bool of_x) {
  ConvolvedGradients result;
  with_elements(x.scalar_type(), [&](auto* type) {
    result = depthwise_backward_of<std::remove_pointer_t<decltype(type)>>(gradient, x, affine, weights, sides, of_x);
  });
  return result;
}

}  // namespace osprey::kernels::cpu
