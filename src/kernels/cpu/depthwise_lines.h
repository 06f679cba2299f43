#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cpu/loops/depthwise_rows.h"
#include "kernels/cpu/sides.h"
#include "osprey/kernels/epilogue.h"

/// A convolution of each channel by itself, line by line of some channels of one picture, wherever the lines come from.
namespace osprey::kernels::cpu {

/// Channels that are convolved before the next ones are.
struct ChannelGroup {
  int64_t first, depth;
};

/// A line, and the zeros around it that make all its pixels see the same.
struct PaddedLine {
  int64_t before, pixels, after;
  int64_t size() const { return before + pixels + after; }
};

/// A line of a group of channels by its number: [pixels, channels of the group], between the zeros that
/// `DepthwiseLines` asks for. Those that one call below asks for have to stay until it returns; they are at most
/// `DepthwiseLines::window` successive ones.
using LineOf = c10::function_ref<const float*(int64_t line)>;

/// Whether a line of so many bytes that is read later is fetched into the nearest cache; otherwise into the next one.
/// Where groups are content with that (Zen 4, on which it was measured), loops then wait less, but of a line of more
/// than 12 KiB the CPU drops some of the requests.
bool fetches_near(int64_t bytes);

class DepthwiseLines {
 public:
  enum class Direction { kForward, kBackward };

  /// weights    [C, 1, kernel height, kernel width] float32 on a CPU
  /// direction  of the lines that are going to be made, for which the weights are brought into order
  DepthwiseLines(const Sides& sides, const at::Tensor& weights, Direction direction);

  /// All channels, in groups of which a few lines fit into the nearest cache.
  std::vector<ChannelGroup> groups() const;
  int64_t window() const { return lines_.kernel; }

  /// Line y of the result; what is behind it, `result_line().after`, is written, too.
  void forward(const ChannelGroup& group, const LineOf& map, int64_t y, float* result) const;
  /// The same as numbers of a map, and what they add to its moments, in one pass. Nothing behind the line is written.
  template <class T>
  void forward(const ChannelGroup& group, const LineOf& map, int64_t y, const PixelsWithMoments<T>& made) const;
  /// Whether there are loops for that.
  bool sums_in_one_pass() const;
  /// The lines of the map that this sees and the line before it does not: first, last + 1.
  std::pair<int64_t, int64_t> new_lines(int64_t y) const;
  PaddedLine map_line() const;
  PaddedLine result_line() const;

  /// Line `source` of the gradient of the map, and what this line contributes to the gradient of the weights.
  /// own     line `source` of the map, and behind it the zeros of `own_line()`
  /// result  as large as `own`, all of which is written
  /// sums    [weight_numbers()] to which that is added
  void backward(const ChannelGroup& group, const LineOf& gradient, const float* own, int64_t source, float* result,
                float* sums) const;
  /// The same of a line that is normalised as it is read, and its gradient taken back through that, all in one pass.
  template <class T>
  void backward(const ChannelGroup& group, const LineOf& gradient, const NormalizedPixels<T>& own, int64_t source,
                float* sums) const;
  /// Whether there are loops for that.
  bool takes_back_in_one_pass(const Epilogue& epilogue) const;
  PaddedLine gradient_line() const;
  PaddedLine own_line() const;
  int64_t weight_numbers() const { return weights_.numel(); }
  /// sums  [parts, weight_numbers()]; they are added in their order
  at::Tensor weight_gradient(const float* sums, int64_t parts) const;

 private:
  /// Every `stride`'th pixel of a line of the map, beginning with `first`: those that have been seen through the same
  /// taps.
  struct Phase {
    int64_t first, pixels;
    SeenPixels seen;
    OfTaps<const float> weights;
    OfTaps<float> sums;
  };
  /// Calls `sum(what line y of the result sees, the weights of it)`.
  template <class Sum>
  void with_seen(const ChannelGroup& group, const LineOf& map, int64_t y, const Sum& sum) const;
  void for_each_phase(const ChannelGroup& group, const LineOf& gradient, int64_t source, float* sums,
                      c10::function_ref<void(const Phase&)> work) const;

  Direction direction_;
  Side lines_, pixels_;
  int64_t depth_;
  std::vector<int64_t> sizes_;  ///< of the weights
  at::Tensor weights_;          ///< [C / kLanes, taps, kLanes]; backward with the last tap first
};

}  // namespace osprey::kernels::cpu
