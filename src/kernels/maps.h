#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>

/// Maps [B, C, H, W] as they lie in memory, channels last.
namespace osprey::kernels {

inline at::Tensor channels_last(const at::Tensor& map) { return map.contiguous(at::MemoryFormat::ChannelsLast); }

inline at::Tensor empty_map(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options(), at::MemoryFormat::ChannelsLast);
}

/// Where the lines of one picture of many begin, in elements.
struct Picture {
  Picture(const at::Tensor& maps, int64_t number)
      : line_size(maps.size(3) * maps.size(1)), offset(number * maps.size(2) * line_size) {}
  int64_t at(int64_t line) const { return offset + line * line_size; }
  int64_t line_size, offset;
};

}  // namespace osprey::kernels
