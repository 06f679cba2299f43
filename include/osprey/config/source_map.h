#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osprey/config/findings.h"
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

  /// Fields of the text that count for nothing: later ones replace them, or only other releases of the original know
  /// them.
  const std::vector<Remark>& without_effect() const { return without_effect_; }
  void add_without_effect(Remark remark) { without_effect_.push_back(std::move(remark)); }

 private:
  std::map<std::string, Origin, std::less<>> origins_;
  std::vector<Remark> without_effect_;
};

}  // namespace osprey::config
