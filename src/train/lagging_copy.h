#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace osprey::train {

/// Tensors on their way from a device to the host, while the device goes on. On a CPU they are there at once.
class LaggingCopy {
 public:
  /// Starts on the way; what becomes of the tensors afterwards does not matter.
  /// tensors  one or more, on one device
  explicit LaggingCopy(const std::vector<at::Tensor>& tensors);

  bool ready() const;                              ///< never waits
  const std::vector<at::Tensor>& tensors() const;  ///< on the CPU; waits until it is ready

 private:
  std::vector<at::Tensor> host_;
  std::optional<c10::Event> arrived_;
};

}  // namespace osprey::train
