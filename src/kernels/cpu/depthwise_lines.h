#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cpu/sides.h"

/// A convolution of each channel by itself, line by line of one picture, wherever the lines come from.
namespace osprey::kernels::cpu {

/// A line by its number: [pixels, channels]. Those that one call below asks for have to stay until it returns; they are
/// at most `DepthwiseLines::window` successive ones.
using LineOf = c10::function_ref<const float*(int64_t line)>;

class DepthwiseLines {
 public:
  /// weights  [C, 1, kernel height, kernel width] float32 on a CPU
  DepthwiseLines(const Sides& sides, const at::Tensor& weights);

  /// Line y of the result.
  void forward(const LineOf& map, int64_t y, float* result) const;
  /// Line `source` of the gradient of the map.
  void backward(const LineOf& gradient, int64_t source, float* result) const;
  /// The lines of the map that lie beside line y of the result: first, last + 1. Every line lies beside one.
  std::pair<int64_t, int64_t> beside(int64_t y) const;

  /// Adds what line y of the gradient, at `gradient`, contributes to the gradient of the weights.
  /// sums  [weight_numbers()]
  void add_weight_gradient(const LineOf& map, const float* gradient, int64_t y, float* sums) const;
  int64_t weight_numbers() const { return weights_.numel(); }
  /// sums  [n, weight_numbers()]; they are added in their order
  at::Tensor weight_gradient(const at::Tensor& sums) const;

  int64_t window() const { return lines_.kernel + 1; }

 private:
  /// A tap, and what it sees at some place. Of one place these are in the order of what they see, without gaps.
  struct Tap {
    int64_t tap, source;
    bool operator==(const Tap&) const = default;
  };
  using Taps = std::vector<Tap>;
  /// Places in a row that see by the same taps.
  struct Run {
    int64_t first, count;
    Taps taps;  ///< of the first
  };
  /// A row of places, each in one run: those of a run lie `step` apart, and what they see `source_step`.
  struct Runs {
    Runs(const std::vector<Taps>& taps, int64_t places, int64_t sources);
    std::vector<Run> runs;
    int64_t step, source_step;
  };
  struct Seen;

  static std::vector<Taps> forward_taps(const Side& side);
  static std::vector<Taps> backward_taps(const Side& side);
  void sum_line(const LineOf& map, const Taps& taps, const Runs& pixels, const float* weights, float* result) const;

  Side lines_, pixels_;
  int64_t depth_;
  std::vector<int64_t> sizes_;   ///< of the weights
  at::Tensor weights_, turned_;  ///< [C / kLanes, taps, kLanes]; the latter with the last tap first
  std::vector<Taps> forward_, backward_;
  Runs forward_pixels_, backward_pixels_;
};

/// Calls `work(task, picture, first line, last + 1)` for the lines of all pictures, few at a time; the tasks do not
/// depend on the number of threads. The last go first: before and after such a convolution there mostly is one of all
/// channels, which begins with the first, so each finds in the cache what the other one wrote last.
void for_lines(int64_t pictures, int64_t lines,
               c10::function_ref<void(int64_t task, int64_t picture, int64_t begin, int64_t end)> work);
/// How many there are of one picture.
int64_t line_tasks(int64_t lines);

}  // namespace osprey::kernels::cpu
