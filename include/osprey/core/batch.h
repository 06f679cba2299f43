#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace osprey {

/// A padded batch: what is real is marked by `true_shapes` and `valid`. B and M never change within a run, nor do H and
/// W but where the image_resizer brings pictures to no common size: then they are those of the batch's largest picture.
struct Batch {
  at::Tensor images;             ///< [B, 3, H, W] channels_last, RGB in 0..255; uint8, or float32 with `float_images`
  at::Tensor true_shapes;        ///< [B, 2] int64: height and width of the un-padded picture, which lies top left
  at::Tensor source_shapes;      ///< [B, 2] int64, where pictures still are to be resized to `true_shapes`, on the
                                 ///< device: height and width as they lie in `images`; else undefined
  at::Tensor boxes;              ///< [B, M, 4] float32, normalised to the un-padded picture; zero in padded rows
  at::Tensor classes;            ///< [B, M] int64, 0-based; or [B, M, C] float32 k-hot with multi-label merge
  at::Tensor weights;            ///< [B, M] float32; zero in padded rows
  at::Tensor confidences;        ///< [B, M] or [B, M, C] float32; undefined unless asked for
  at::Tensor is_crowd;           ///< [B, M] bool
  at::Tensor difficult;          ///< [B, M] bool
  at::Tensor group_of;           ///< [B, M] bool
  at::Tensor area;               ///< [B, M] float32: annotated area in original pixels, 0 where the record has none
  at::Tensor valid;              ///< [B, M] bool: false marks padding
  at::Tensor image_classes;      ///< [B, C] bool: classes the picture as a whole is labelled with
  at::Tensor image_weights;      ///< [B] float32: 0 for an image that only fills up the last evaluation batch, else 1
  at::Tensor example_keys;       ///< [B] int64: the running number of each example in the run; keys its random draws
  at::Tensor original_sizes;     ///< [B, 2] int64: height and width of the picture in the record, before any resize
  std::vector<std::string> ids;  ///< [B] source ids

  int64_t size() const { return images.size(0); }
};

/// The same batch with every tensor on `device`; images keep their memory format. Copies to a GPU are
/// asynchronous from pinned memory, those to the CPU are there when it returns.
Batch to(const Batch& batch, const at::Device& device);

/// The same batch in pinned memory of the host, from which a GPU copies by itself.
Batch pinned(const Batch& batch);

/// The same batch in memory of its own.
Batch clone(const Batch& batch);

/// Writes the tensors of `from` into those of `result`, which has the same shapes.
void copy(const Batch& from, Batch& result);

/// Its memory is not given to others before what `stream` has been told so far is done.
void used_on(const Batch& batch, const c10::Stream& stream);

/// Height and width of the pictures as they lie in `images`, [B, 2].
const at::Tensor& picture_shapes(const Batch& batch);

/// Bytes of all its tensors.
int64_t bytes_of(const Batch& batch);

/// Rows [begin, end) of a batch, sharing its storage.
Batch slice(const Batch& batch, int64_t begin, int64_t end);

}  // namespace osprey
