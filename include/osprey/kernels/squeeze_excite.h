#pragma once
#include "osprey/kernels/pending_map.h"

namespace osprey::kernels {

struct Squeezed {
  PendingMap map;    ///< the map that was squeezed, in the same memory, for `excite`; nothing else may read it
  at::Tensor means;  ///< [B, C] float32: of its values over the places of each picture
};

/// The first half of squeeze and excitation. Gradients flow from both results to all that the map consists of; that of
/// `map.x` is taken for one of the values. So the gradients of the means and of what is excited are added where they
/// are taken back through batch norm and activation, instead of in a pass of their own.
///
/// input    of float32 or half the bits, not empty, on a device that there are kernels for; something may be pending. A
///          map that is not channels_last is copied
/// throws   c10::Error for other maps
/// source   Hu et al., "Squeeze-and-Excitation Networks", CVPR 2018, equation 2
/// operator osprey::squeeze (the means alone), osprey::squeeze_backward
Squeezed squeeze(const PendingMap& input);

/// The second half: the values of the map, normalised as they are read, times a factor of each channel of each
/// picture. Gradients flow to `map.x`, to that which `squeeze` takes for one of the values, and to the gates.
///
/// map      as `squeeze` gave it
/// gates    [B, C] float32
/// returns  of the size and type of map.x, channels_last
/// throws   c10::Error for other sizes and types
/// source   equation 4 there
/// operator osprey::excite (of a map that has not been squeezed), osprey::excite_backward
at::Tensor excite(const PendingMap& map, const at::Tensor& gates);

}  // namespace osprey::kernels
