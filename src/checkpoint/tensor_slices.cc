#include "checkpoint/tensor_slices.h"

#include "checkpoint/scalar_types.h"
#include "checkpoint/table_file.h"
#include "checkpoint/tensorflow_tensor.h"

namespace osprey::checkpoint {
namespace {

template <class Values>
std::string_view bytes_of(const Values& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(*values.data())};
}

/// A tensor from the field that its type is written to; undefined for a type that has none here.
at::Tensor values_of(const std::filesystem::path& file, const records::SavedTensorSlices::Tensor& tensor,
                     const records::SavedTensorSlices::Values& values) {
  const auto type = scalar_type_in_tensorflow(tensor.type());
  if (!type) return {};
  const auto make = [&](std::string_view bytes) {
    return tensor_of(file, tensor.name(), tensor.shape(), *type, bytes);
  };
  switch (*type) {
    case c10::kFloat:
      return make(bytes_of(values.float_val()));
    case c10::kDouble:
      return make(bytes_of(values.double_val()));
    case c10::kInt:
      return make(bytes_of(values.int_val()));
    case c10::kLong:
      return make(bytes_of(values.int64_val()));
    case c10::kHalf:
    case c10::kBFloat16:
      return make(bytes_of(std::vector<uint16_t>(values.half_val().begin(), values.half_val().end())));
    default:
      return {};
  }
}

bool is_whole(const records::TensorSlice& slice) {
  for (const auto& extent : slice.extent())
    if (extent.has_length_case() != records::TensorSlice::Extent::HAS_LENGTH_NOT_SET) return false;
  return true;
}

}  // namespace

std::map<std::string, at::Tensor> read_slices(const std::filesystem::path& file) {
  std::map<std::string, records::SavedTensorSlices::Tensor> contents;
  std::map<std::string, at::Tensor> result;
  for_each_entry(file, [&](std::string_view key, std::string_view value) {
    const auto entry = message_of<records::SavedTensorSlices>(file, key, value);
    for (const auto& tensor : entry.meta().tensor()) contents[tensor.name()] = tensor;  // of the first one
    if (!entry.has_data()) return;
    const std::string& name = entry.data().name();
    const auto found = contents.find(name);
    if (found == contents.end()) fail(file, fmt::format("is damaged: tensor {} is not in its contents", name));
    if (!is_whole(entry.data().slice()))
      fail(file, fmt::format("tensor {} is stored in slices (a partitioned variable), which is not supported", name));
    if (at::Tensor tensor = values_of(file, found->second, entry.data().data()); tensor.defined())
      result.emplace(name, std::move(tensor));
  });
  return result;
}

}  // namespace osprey::checkpoint
