#include "osprey/config/findings.h"

#include <fmt/format.h>

namespace osprey::config {

std::string Remark::line() const {
  switch (origin.kind) {
    case Origin::Kind::kDefault:
      return fmt::format("{}: {}", path, message);
    case Origin::Kind::kOverride:
      return fmt::format("{}: {}: {}", origin.source, path, message);
    case Origin::Kind::kFile:
      break;
  }
  return fmt::format("{}:{}: {}: {}", origin.source, origin.line, path, message);
}

void Findings::add(std::string path, std::string message) {
  Origin origin = sources_ ? sources_->origin(path) : Origin{};
  remarks_.push_back({std::move(path), std::move(message), std::move(origin)});
}

void Findings::throw_if_any() const {
  std::string errors;
  for (const Remark& remark : remarks_) errors += (errors.empty() ? "" : "\n") + remark.text();
  if (!errors.empty()) throw ConfigError(errors);
}

}  // namespace osprey::config
