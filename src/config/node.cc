#include "osprey/config/node.h"

#include <fmt/format.h>

namespace osprey::config {

std::string Node::path_of(std::string_view field) const {
  if (field.empty()) return path_;
  return path_.empty() ? std::string(field) : fmt::format("{}.{}", path_, field);
}

void Node::fail(std::string_view field, const std::string& message) const {
  const std::string path = path_of(field);
  const Origin origin = sources_ ? sources_->origin(path) : Origin{};
  throw ConfigError(describe(origin, path, message));
}

void Node::unsupported(std::string_view field) const { fail(field, "is not supported yet: " + path_of(field)); }

std::string describe(const Origin& origin, std::string_view path, std::string_view message) {
  switch (origin.kind) {
    case Origin::Kind::kDefault:
      return fmt::format("{}: {}", path, message);
    case Origin::Kind::kOverride:
      return fmt::format("{}: {}: {}", origin.source, path, message);
    case Origin::Kind::kFile:
      break;
  }
  std::string block = fmt::format("{}:{}:{}: {}: {}", origin.source, origin.line, origin.column, path, message);
  if (!origin.text.empty()) {
    // Tabs are kept before the caret, so that it stands under its character whatever their width.
    std::string indent = origin.text.substr(0, std::min<size_t>(origin.column - 1, origin.text.size()));
    for (char& c : indent) c = c == '\t' ? '\t' : ' ';
    block += fmt::format("\n{}\n{}^", origin.text, indent);
  }
  return block;
}

}  // namespace osprey::config
