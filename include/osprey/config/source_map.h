#pragma once
#include <map>
#include <string>
#include <string_view>

#include "osprey/config/node.h"

namespace osprey::config {

/// The origins of all fields that were written, by their path ("model.ssd.num_classes",
/// "eval_input_reader[0].shuffle").
class FieldOrigins final : public SourceMap {
 public:
  Origin origin(std::string_view path) const override;

  /// The origin of exactly this field, or nullptr where it was not written.
  const Origin* find(std::string_view path) const;

  void set(const std::string& path, Origin origin) { origins_[path] = std::move(origin); }

  /// Forgets a field and everything below it.
  void erase(const std::string& path);

  const std::map<std::string, Origin, std::less<>>& all() const { return origins_; }

 private:
  std::map<std::string, Origin, std::less<>> origins_;
};

}  // namespace osprey::config
