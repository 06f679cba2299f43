#pragma once
#include <ATen/autocast_mode.h>

namespace osprey::nn {

/// While it lives, whatever lies in its scope computes in numbers of half the bits where libtorch's autocast, or our
/// own layers, do so.
class Autocast {
 public:
  /// type  bfloat16 or float16; float32: nothing changes
  Autocast(at::DeviceType device, at::ScalarType type) : device_(device), active_(type != at::kFloat) {
    if (!active_) return;
    was_enabled_ = at::autocast::is_autocast_enabled(device_);
    former_type_ = at::autocast::get_autocast_dtype(device_);
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, type);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!active_) return;
    // Casts of weights are kept while autocast lasts; the next step has other weights.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, former_type_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool active_, was_enabled_ = false;
  at::ScalarType former_type_ = at::kBFloat16;
};

}  // namespace osprey::nn
