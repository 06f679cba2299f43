#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/arithmetic/curve.h"
#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/epilogue.h"

/// What batch norm and an activation are made of, each a pass over a map or over its channels. Maps are channels_last,
/// of float32 or half the bits, on any device that there are kernels for.
namespace osprey::kernels {

/// Throws c10::Error for other maps, and for empty ones.
void check_normalizable(const at::Tensor& x);

/// Throws c10::Error where `other`, which is called `name`, is not of the size and type of x.
void check_like(const at::Tensor& x, const at::Tensor& other, const char* name);

/// Throws c10::Error where `values`, which are called `name`, are not floats of the channels of x; undefined is well.
void check_channels(const at::Tensor& x, const at::Tensor& values, const char* name);

/// An epilogue as operators get it: `curve` is the number of an Epilogue::Curve. Throws c10::Error for another.
Epilogue epilogue_of(double low, double high, int64_t curve);

/// What the arithmetic needs to know of a batch norm, with the tensors that it points into.
struct Affine {
  Affine(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, const at::Tensor& mean,
         const at::Tensor& inverse_deviation, const Epilogue& epilogue);
  /// The same without an activation.
  Affine without_epilogue() const;

  at::Tensor gamma;  ///< [C], as all of these
  at::Tensor mean, scale, shift;
  ChannelAffine channels;
};

/// Two sums over all places of a map for each channel: [2, C] float64; on a device, to be added up by whoever needs
/// them, in parts, [parts, 2, C].

/// The sums themselves, [2, C].
at::Tensor added_up(const at::Tensor& sums);

/// Sums of x and of its square.
at::Tensor moments(const at::Tensor& x);

/// Sums over all places of x, [C] float32. x may be empty.
at::Tensor place_sums(const at::Tensor& x);

/// Mean and inverse deviation, [C] float32 each, of maps with these moments that have `count` values per channel.
std::pair<at::Tensor, at::Tensor> statistics(const at::Tensor& moments, double count, double epsilon);

/// curve((x - mean) * scale + shift)
at::Tensor normalize(const at::Tensor& x, const Affine& affine);

/// Sums of g, the gradient taken back through the curve, and of g * (x - mean).
at::Tensor gradient_moments(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine);

/// scale * g + slope * (x - mean) + offset      slope, offset  [C] float32
at::Tensor spread(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine, const at::Tensor& slope,
                  const at::Tensor& offset);

/// The sums that gradient_moments gives, and scale * g, like x.
std::pair<at::Tensor, at::Tensor> take_back(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine);

/// (x - mean) * scale + shift + addend, clamped as the epilogue says.      addend  like x
at::Tensor add_normalized(const at::Tensor& x, const Affine& affine, const at::Tensor& addend);

/// A gradient like x, maybe in two parts, of which the second is still to be added.
struct SumGradient {
  at::Tensor gradient, again;
};

/// Of y, what `add_normalized` has made: the sums of g, its gradient where it has not been clamped, and of
/// g * (x - mean); and g, like x: the gradient of the addend.
std::pair<at::Tensor, at::Tensor> sum_gradient_moments(const SumGradient& of_sum, const at::Tensor& y,
                                                       const at::Tensor& x, const Affine& affine);

/// What the moments of gradients of a normalised map make of those of its statistics and parameters, [C] float32 each.
struct ChannelGradients {
  at::Tensor mean, inverse_deviation, gamma, beta;
};
ChannelGradients gradients_of_channels(const at::Tensor& x, const at::Tensor& moments, const Affine& affine,
                                       const at::Tensor& inverse_deviation);

}  // namespace osprey::kernels
