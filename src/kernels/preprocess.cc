#include "osprey/kernels/preprocess.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/check_range.h"
#include "kernels/cpu/loops/pixel_rows.h"
#include "kernels/device/preprocess.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

/// Calls work(picture, line) for the lines of all results, by the threads of the CPU.
template <class Work>
void for_lines(int64_t pictures, const device::ContentShapes& content, Work work) {
  constexpr int64_t kAtATime = 16;
  const int64_t lines = pictures * content.height;
  parallel_for(device::blocks_for(lines, kAtATime), [&](int64_t task) {
    for (int64_t line = task * kAtATime; line < std::min(lines, (task + 1) * kAtATime); ++line)
      work(line / content.height, line % content.height);
  });
}

template <class In, class Out>
void scale_on_cpu(int64_t pictures, const In* images, const device::ContentShapes& content,
                  const device::PixelScale& channels, Out* result) {
  for_lines(pictures, content, [&](int64_t picture, int64_t y) {
    const bool outside = y >= content.content_height(picture);
    const int64_t pixels = outside ? 0 : std::clamp<int64_t>(content.content_width(picture), 0, content.width),
                  at = (picture * content.height + y) * content.width * 3;
    cpu::scale_pixels(images + at, pixels, channels.scale, channels.offset, result + at);
    for (int64_t i = pixels * 3; i < content.width * 3; ++i) store(result + at + i, channels.pad[i % 3]);
  });
}

template <class In, class Out>
void scale_pictures(const at::Tensor& images, const device::ContentShapes& content, const device::PixelScale& channels,
                    const at::Tensor& result) {
  const auto* const in = device::data<const In>(images);
  auto* const out = device::data<Out>(result);
  if (device::takes_loops(images)) return scale_on_cpu(images.size(0), in, content, channels, out);
  const auto run = [&](auto numbers) {
    const device::ScalePictures<In, Out, numbers> kernel{in, content, channels, out};
    device::launch(images, images.size(0) * kernel.blocks_of_picture, kernel);
  };
  constexpr int kNumbers = 8;
  const bool at_once = content.height * content.width * 3 % kNumbers == 0 && content.width * 3 >= kNumbers &&
                       device::begins_at_multiple(in, kNumbers * sizeof(In)) &&
                       device::begins_at_multiple(out, kNumbers * sizeof(Out));
  at_once ? run(std::integral_constant<int, kNumbers>()) : run(std::integral_constant<int, 1>());
}

template <class In, class Out>
void resize_pictures(const at::Tensor& images, const at::Tensor& source_shapes, const device::ContentShapes& content,
                     const device::PixelScale& channels, const at::Tensor& result) {
  using Kernel = device::ResizePictures<In, Out>;
  auto* const out = device::data<Out>(result);
  const bool by_words = content.height * content.width * 3 % Kernel::kWord == 0 && device::begins_at_multiple(out, 16);
  const Kernel kernel{device::data<const In>(images),
                      device::data<const int64_t>(source_shapes),
                      static_cast<int>(images.size(2)),
                      static_cast<int>(images.size(3)),
                      content,
                      channels,
                      out,
                      by_words};
  if (!device::takes_loops(images)) return device::launch(images, images.size(0) * kernel.blocks_of_picture, kernel);
  for_lines(images.size(0), content, [&](int64_t picture, int64_t y) {
    const auto sides = kernel.sides_of(picture);
    const int first = static_cast<int>(y) * content.width;
    for (int pixel = first; pixel < first + content.width; ++pixel)
      kernel.make(sides, pixel, out + (picture * kernel.pixels + pixel) * 3);
  });
}

device::PixelScale pixel_scale(at::ArrayRef<double> scale, at::ArrayRef<double> offset, at::ArrayRef<double> pad) {
  device::PixelScale channels;
  for (size_t c = 0; c < 3; ++c) {
    channels.scale[c] = static_cast<float>(scale[c]);
    channels.offset[c] = static_cast<float>(offset[c]);
    channels.pad[c] = static_cast<float>(pad[c]);
  }
  return channels;
}

at::Tensor preprocess_operator(const at::Tensor& images, const std::optional<at::Tensor>& true_shapes,
                               const std::optional<at::Tensor>& source_shapes, at::IntArrayRef size,
                               at::ArrayRef<double> scale, at::ArrayRef<double> offset, at::ArrayRef<double> pad,
                               at::ScalarType type) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3 &&
                  (images.scalar_type() == at::kByte || images.scalar_type() == at::kFloat),
              "expected images [B, 3, H, W] of uint8 or float32, got ", images.toString(), " ", images.sizes());
  TORCH_CHECK(!true_shapes || (true_shapes->dim() == 2 && true_shapes->size(0) == images.size(0) &&
                               true_shapes->size(1) >= 2 && true_shapes->scalar_type() == at::kLong),
              "expected int64 true_shapes [", images.size(0), ", 2]");
  TORCH_CHECK(
      source_shapes.has_value() == !size.empty() && (size.empty() || (size.size() == 2 && size[0] > 0 && size[1] > 0)),
      "expected the source_shapes and the size [height, width] of what is resized, or neither; got size ", size);
  TORCH_CHECK(!source_shapes || (source_shapes->dim() == 2 && source_shapes->size(0) == images.size(0) &&
                                 source_shapes->size(1) == 2 && source_shapes->scalar_type() == at::kLong),
              "expected int64 source_shapes [", images.size(0), ", 2]");
  TORCH_CHECK(scale.size() == 3 && offset.size() == 3 && pad.size() == 3, "expected a number for each of 3 channels");
  TORCH_CHECK(is_element(type), "a network does not take ", type);
  const int64_t numbers = std::max(3 * images.size(2) * images.size(3), size.empty() ? 0 : 3 * size[0] * size[1]);
  TORCH_CHECK(numbers < int64_t{1} << 30, "expected pictures of fewer than 2^30 numbers, got ", numbers);
  at::Tensor result =
      at::empty({images.size(0), 3, size.empty() ? images.size(2) : size[0], size.empty() ? images.size(3) : size[1]},
                images.options().dtype(type), at::MemoryFormat::ChannelsLast);
  if (images.is_meta()) return result;
  const at::Tensor x = images.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor shapes = true_shapes ? true_shapes->contiguous() : at::Tensor(),
                   sources = source_shapes ? source_shapes->contiguous() : at::Tensor();
  for (const int64_t side : {0, 1})
    if (source_shapes)
      check_range(sources.select(1, side).contiguous(), 1, x.size(2 + side) + 1,
                  side == 0 ? "the height of a picture" : "the width of a picture");
  if (result.numel() == 0) return result;
  const device::ContentShapes content{device::data<const int64_t>(shapes), shapes.defined() ? shapes.size(1) : 0,
                                      static_cast<int>(result.size(2)), static_cast<int>(result.size(3))};
  const device::PixelScale channels = pixel_scale(scale, offset, pad);
  const auto of_input = [&](auto* in) {
    using In = std::remove_pointer_t<decltype(in)>;
    with_elements(type, [&](auto* out) {
      using Out = std::remove_pointer_t<decltype(out)>;
      sources.defined() ? resize_pictures<In, Out>(x, sources, content, channels, result)
                        : scale_pictures<In, Out>(x, content, channels, result);
    });
  };
  if (x.scalar_type() == at::kByte) {
    of_input(static_cast<uint8_t*>(nullptr));
  } else {
    of_input(static_cast<float*>(nullptr));
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "preprocess(Tensor images, Tensor? true_shapes, Tensor? source_shapes, int[] size, float[] scale, "
         "float[] offset, float[] pad, ScalarType type) -> Tensor",
         &preprocess_operator);
}

}  // namespace

at::Tensor preprocess(const at::Tensor& images, const at::Tensor& true_shapes, const PreprocessOptions& options,
                      const PreprocessResize& resize) {
  static const auto operation = find_operator("preprocess", &preprocess_operator);
  std::vector<int64_t> size;
  if (resize.source_shapes.defined()) size = {resize.height, resize.width};
  return operation.call(images, if_defined(true_shapes), if_defined(resize.source_shapes), size, options.scale,
                        options.offset, options.pad, options.type);
}

}  // namespace osprey::kernels
