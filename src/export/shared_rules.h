#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "export/traced_node.h"

namespace osprey {

// What rules for one format have in common with those for another.

/// The rule of a table for an operation of libtorch ("relu", or "relu_"); null where there is none.
template <class Rule>
Rule rule_in(const std::map<std::string_view, Rule>& table, std::string_view operation) {
  if (operation.ends_with('_')) operation.remove_suffix(1);
  const auto found = table.find(operation);
  return found == table.end() ? nullptr : found->second;
}

/// The names of all operations of a table.
template <class Rule>
std::vector<std::string_view> names_in(const std::map<std::string_view, Rule>& table) {
  std::vector<std::string_view> result;
  for (const auto& [name, rule] : table) result.push_back(name);
  return result;
}

/// Of fake_quantize_per_tensor_affine of a constant, x, scale, number of zero, first and last number: the numbers that
/// x is rounded to, uint8.
at::Tensor numbers_of_weights(const TracedNode& o);

/// Of fake_quantize_per_channel_affine of a constant, x, scales, numbers of zero, axis, first and last number: the
/// same, int8.
/// throws  ConfigError for other numbers than those from -127 to 127
at::Tensor numbers_of_weights_by_channels(const TracedNode& o);

/// upsample_nearest2d: input, size, then a scale of rows and one of columns.
class Upsampling {
 public:
  /// throws  ConfigError where it has no size
  explicit Upsampling(const TracedNode& o);

  /// Whether each row and each column comes as often as any other.
  bool is_even() const { return is_even(2) && is_even(3); }
  /// Which rows (axis 2) or columns (3) of the input those of the result are, int64. Formats compute other ones.
  at::Tensor places(size_t axis) const;

 private:
  bool is_even(size_t axis) const;
  std::optional<double> scale(size_t axis) const;

  const TracedNode& node_;
  std::vector<int64_t> before_, after_;
};

}  // namespace osprey
