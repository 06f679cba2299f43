#include "checkpoint/tensorflow_tensor.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <cstring>
#include <vector>

namespace osprey::checkpoint {

at::Tensor tensor_of(const std::filesystem::path& file, const std::string& name, const records::TensorShape& shape,
                     c10::ScalarType type, std::string_view bytes) {
  std::vector<int64_t> sizes;
  uint64_t expected = c10::elementSize(type);
  bool fits = true;
  for (const auto& dim : shape.dim()) {
    sizes.push_back(dim.size());
    fits = fits && dim.size() >= 0 && !__builtin_mul_overflow(expected, static_cast<uint64_t>(dim.size()), &expected);
  }
  if (!fits || expected != bytes.size())
    fail(file,
         fmt::format("tensor {}: {} bytes do not fit its shape [{}]", name, bytes.size(), fmt::join(sizes, ", ")));
  at::Tensor tensor = at::empty(sizes, at::TensorOptions(type));
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace osprey::checkpoint
