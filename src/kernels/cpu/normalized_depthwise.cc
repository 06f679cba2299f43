#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/depthwise_lines.h"
#include "kernels/cpu/line_tasks.h"
#include "kernels/cpu/normalized_steps.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"

namespace osprey::kernels::cpu {
namespace {

/// Some channels of a picture's lines, which lie between others in the map.
/// T  elements, const where they are only read
template <class T>
struct GroupOfPicture {
  GroupOfPicture(const at::Tensor& map, int64_t number, const ChannelGroup& group)
      : picture(map, number), first(device::data<T>(map) + group.first), pixels(map.size(3)), step(map.size(1)) {}
  T* line(int64_t number) const { return first + picture.at(number); }

  Picture picture;
  T* first;
  int64_t pixels, step;  ///< of a line; elements from one to the next
};

/// Memory for some lines of floats, with zeros before and behind each.
class Lines {
 public:
  Lines(int64_t count, const PaddedLine& line, int64_t depth)
      : size_(line.size() * depth), first_(line.before * depth), memory_(scratch(count * size_)) {
    for (int64_t slot = 0; slot < count; ++slot) {
      std::fill_n(memory_.get() + slot * size_, first_, 0.0f);
      std::fill_n(at(slot) + line.pixels * depth, line.after * depth, 0.0f);
    }
  }
  float* at(int64_t slot) const { return memory_.get() + slot * size_ + first_; }

 private:
  int64_t size_, first_;
  Scratch<> memory_;
};

/// Some successive lines, made by make(number, memory) when they are first asked for; the latest few are kept.
template <class Make>
class LatestLines {
 public:
  LatestLines(int64_t count, const PaddedLine& line, int64_t depth, Make make)
      : make_(std::move(make)), lines_(count, line, depth), held_(static_cast<size_t>(count), -1) {}

  const float* operator()(int64_t number) {
    const auto slot = static_cast<size_t>(number) % held_.size();
    float* const line = lines_.at(static_cast<int64_t>(slot));
    if (held_[slot] != number) make_(number, line);
    held_[slot] = number;
    return line;
  }

 private:
  Make make_;
  Lines lines_;
  std::vector<int64_t> held_;
};

std::optional<ChannelAffine> affine_of(const std::optional<Affine>& all, const ChannelGroup& group) {
  if (!all) return std::nullopt;
  const ChannelAffine& of = all->channels;
  return ChannelAffine{of.mean + group.first, of.scale + group.first, of.shift + group.first, of.epilogue};
}

/// Asks for a line that is read later. (Inlined, since to the compiler a function without effect need not be called.)
template <class T>
OSPREY_INLINE void fetch_line(const GroupOfPicture<const T>& map, int64_t number, const ChannelGroup& group) {
  constexpr int64_t kElements = 64 / sizeof(T);  // of a line of the cache
  const auto for_each_part = [&](auto fetch) __attribute__((always_inline)) {
    const T* from = map.line(number);
    for (int64_t pixel = 0; pixel < map.pixels; ++pixel, from += map.step)
      for (int64_t c = 0; c < group.depth; c += kElements) fetch(from + c);
  };
  if (fetches_near(map.pixels * group.depth * static_cast<int64_t>(sizeof(T)))) {
    for_each_part([](const T* part) __attribute__((always_inline)) { __builtin_prefetch(part, 0, 3); });
  } else {
    for_each_part([](const T* part) __attribute__((always_inline)) { __builtin_prefetch(part, 0, 2); });
  }
}

/// A line of a map as floats, put through the batch norm if there is one.
template <class T>
void read_line(const GroupOfPicture<const T>& map, int64_t number, const ChannelGroup& group,
               const std::optional<ChannelAffine>& affine, float* to) {
  if (affine) {
    normalize_rows(map.line(number), map.pixels, group.depth, map.step, *affine, to);
  } else {
    copy_floats(map.line(number), map.step, map.pixels, group.depth, to, group.depth);
  }
}

template <class T>
void write_line(const float* from, const GroupOfPicture<T>& map, int64_t number, const ChannelGroup& group) {
  round_floats(from, group.depth, map.pixels, group.depth, map.line(number), map.step);
}

/// moments  whether those of the result are wanted
template <class T>
Convolved depthwise_of(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                       const Sides& sides, bool moments) {
  const DepthwiseLines convolution(sides, weights, DepthwiseLines::Direction::kForward);
  const int64_t depth = x.size(1);
  const at::Tensor y = empty_map({x.size(0), depth, sides.lines.to, sides.pixels.to}, x);
  TaskSums sums(moments ? x.size(0) * line_tasks(sides.lines.to) : 0, depth);
  const bool in_one_pass = moments && convolution.sums_in_one_pass();
  for_lines(x.size(0), sides.lines.to, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const TaskSums::Sums own = moments ? sums.begin(task) : TaskSums::Sums();
    for (const ChannelGroup& group : convolution.groups()) {
      const GroupOfPicture<const T> map(x, number, group);
      const GroupOfPicture<T> result(y, number, group);
      const std::optional<ChannelAffine> of_group = affine_of(affine, group);
      LatestLines lines(convolution.window(), convolution.map_line(), group.depth,
                        [&](int64_t line, float* to) { read_line(map, line, group, of_group, to); });
      const auto for_each_target = [&](auto make) {
        for (int64_t target = begin; target < end; ++target) {
          if (target + 1 < end) {
            const auto [first, last] = convolution.new_lines(target + 1);
            for (int64_t line = first; line < last; ++line) fetch_line(map, line, group);
          }
          make(target);
        }
      };
      const TaskSums::Sums of_channels = moments ? own.from(group.first) : own;
      if (in_one_pass) {
        const auto center = scratch(group.depth);
        for_each_target([&](int64_t target) {
          const PixelsWithMoments<T> made{.y = result.line(target),
                                          .step = depth,
                                          .center = center.get(),
                                          .begins = target == begin,
                                          .sum = of_channels.first,
                                          .square = of_channels.second};
          convolution.forward(group, lines, target, made);
        });
        finish_moments(center.get(), (end - begin) * sides.pixels.to, group.depth, of_channels);
        continue;
      }
      const Lines made(1, convolution.result_line(), group.depth);
      std::optional<TaskMoments<T>> of_result;
      if (moments) of_result.emplace(result.line(begin), group.depth, depth, of_channels);
      for_each_target([&](int64_t target) {
        convolution.forward(group, lines, target, made.at(0));
        write_line(made.at(0), result, target, group);
        if (of_result) of_result->add(result.line(target), sides.pixels.to);
      });
      if (of_result) of_result->finish();
    }
  });
  return {y, moments ? sums.total() : at::Tensor()};
}

/// make_gradient  (picture, line, group, memory) makes a line of the gradient of the result
template <class T, class MakeGradient>
ConvolvedGradients depthwise_backward_of(const at::Tensor& x, const std::optional<Affine>& affine,
                                         const at::Tensor& weights, const Sides& sides, bool of_x,
                                         MakeGradient make_gradient) {
  TORCH_INTERNAL_ASSERT(of_x || !affine);
  const DepthwiseLines convolution(sides, weights, DepthwiseLines::Direction::kBackward);
  const int64_t tasks = x.size(0) * line_tasks(sides.lines.from);
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  const int64_t weight_numbers = convolution.weight_numbers();
  const auto weight_sums = scratch(tasks * weight_numbers);
  TaskSums sums(affine ? tasks : 0, x.size(1));
  for_lines(x.size(0), sides.lines.from, [&](int64_t task, int64_t number, int64_t begin, int64_t end) {
    const TaskSums::Sums own_sums = affine ? sums.begin(task) : TaskSums::Sums();
    float* const of_weights = weight_sums.get() + task * weight_numbers;
    std::fill_n(of_weights, weight_numbers, 0.0f);
    for (const ChannelGroup& group : convolution.groups()) {
      const GroupOfPicture<const T> map(x, number, group);
      const std::optional<ChannelAffine> of_group = affine_of(affine, group);
      LatestLines gradients(convolution.window(), convolution.gradient_line(), group.depth,
                            [&](int64_t line, float* to) { make_gradient(number, line, group, to); });
      const TaskSums::Sums group_sums = affine ? own_sums.from(group.first) : TaskSums::Sums();
      const auto for_each_source = [&](auto go_back) {
        for (int64_t source = begin; source < end; ++source) {
          if (source + 1 < end) fetch_line(map, source + 1, group);
          go_back(source);
        }
      };
      if (of_group && convolution.takes_back_in_one_pass(of_group->epilogue)) {
        const GroupOfPicture<T> of_map(result.x, number, group);
        for_each_source([&](int64_t source) {
          const NormalizedPixels<T> pixels{.x = map.line(source),
                                           .gradient = of_map.line(source),
                                           .step = map.step,
                                           .affine = *of_group,
                                           .sum = group_sums.first,
                                           .product = group_sums.second};
          convolution.backward(group, gradients, pixels, source, of_weights);
        });
        continue;
      }
      const Lines own(1, convolution.own_line(), group.depth), made(1, convolution.own_line(), group.depth);
      const auto space = scratch(2 * group.depth);
      for_each_source([&](int64_t source) {
        read_line(map, source, group, of_group, own.at(0));
        convolution.backward(group, gradients, own.at(0), source, made.at(0), of_weights);
        if (!of_x) return;
        const GroupOfPicture<T> of_map(result.x, number, group);
        if (of_group) {
          take_back_rows(made.at(0), map.line(source), map.pixels, group.depth, map.step, *of_group, space.get(),
                         group_sums.first, group_sums.second, of_map.line(source));
        } else {
          write_line(made.at(0), of_map, source, group);
        }
      });
    }
  });
  if (affine) result.moments = sums.total();
  result.weights = convolution.weight_gradient(weight_sums.get(), tasks);
  return result;
}

}  // namespace

at::Tensor depthwise(const at::Tensor& x, const at::Tensor& weights, const Sides& sides) {
  Convolved result;
  with_elements(x.scalar_type(), [&](auto* type) {
    result = depthwise_of<std::remove_pointer_t<decltype(type)>>(x, {}, weights, sides, /*moments=*/false);
  });
  return result.y;
}

ConvolvedGradients depthwise_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weights,
                                      const Sides& sides, bool of_x) {
  ConvolvedGradients result;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    result = depthwise_backward_of<T>(
        x, {}, weights, sides, of_x, [&](int64_t picture, int64_t line, const ChannelGroup& group, float* to) {
          read_line(GroupOfPicture<const T>(gradient, picture, group), line, group, std::nullopt, to);
        });
  });
  return result;
}

Convolved normalized_depthwise(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                               const Sides& sides) {
  Convolved result;
  with_elements(x.scalar_type(), [&](auto* type) {
    result = depthwise_of<std::remove_pointer_t<decltype(type)>>(x, affine, weights, sides, /*moments=*/true);
  });
  return result;
}

ConvolvedGradients normalized_depthwise_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                                 const std::optional<Affine>& affine, const at::Tensor& weights,
                                                 const Sides& sides, bool of_x) {
  ConvolvedGradients result;
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto *const mean = gradient.mean.const_data_ptr<float>(),
                      *const scale = gradient.scale.const_data_ptr<float>(),
                      *const slope = gradient.slope.const_data_ptr<float>(),
                      *const offset = gradient.offset.const_data_ptr<float>();
    result = depthwise_backward_of<T>(
        x, affine, weights, sides, of_x, [&](int64_t picture, int64_t line, const ChannelGroup& group, float* to) {
          const GroupOfPicture<const T> of(gradient.gradient, picture, group), y(gradient.y, picture, group);
          if (line + 1 < sides.lines.to) {
            fetch_line(of, line + 1, group);
            fetch_line(y, line + 1, group);
          }
          add_through_statistics(of.line(line), y.line(line), y.pixels, group.depth, y.step, mean + group.first,
                                 scale + group.first, slope + group.first, offset + group.first, to);
        });
  });
  return result;
}

}  // namespace osprey::kernels::cpu
