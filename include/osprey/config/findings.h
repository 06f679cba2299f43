#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osprey/config/node.h"

namespace osprey::config {

/// Something to be said about a field.
struct Remark {
  std::string path;
  std::string message;
  Origin origin;

  /// As `describe` shows it.
  std::string text() const { return describe(origin, path, message); }
  /// One line, without the source line: "p.config:3: path: message".
  std::string line() const;
};

/// Gathers what is wrong with a config, so that all of it is reported at once.
class Findings {
 public:
  explicit Findings(std::shared_ptr<const SourceMap> sources) : sources_(std::move(sources)) {}

  void add(std::string path, std::string message);
  const std::vector<Remark>& all() const { return remarks_; }

  /// throws ConfigError with one block per finding, where there is any
  void throw_if_any() const;

 private:
  std::shared_ptr<const SourceMap> sources_;
  std::vector<Remark> remarks_;
};

}  // namespace osprey::config
