#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace osprey::train {

/// Numbers on their way from a device to the host, while the device goes on. On a CPU they are there at once.
class LaggingCopy {
 public:
  /// Starts on the way; what becomes of the tensors afterwards does not matter.
  /// scalars  one or more, of any type, on one device
  explicit LaggingCopy(const std::vector<at::Tensor>& scalars);

  bool ready() const;                  ///< never waits
  std::vector<double> values() const;  ///< waits until it is ready

 private:
  at::Tensor host_;
  std::optional<c10::Event> arrived_;
};

}  // namespace osprey::train
