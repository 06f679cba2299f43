#include "osprey/config/node.h"

#include <fmt/format.h>

namespace osprey::config {
namespace {

/// The source line and, under its byte `column` (from 0), a caret. Long lines are cut around it; tabs are kept in front
/// of the caret, so that it stands under its character whatever their width.
std::string caret(std::string line, size_t column) {
  constexpr size_t kWidth = 160;
  column = std::min(column, line.size());
  if (line.size() > kWidth) {
    const size_t cut = column > kWidth / 2 ? column - kWidth / 2 : 0;
    line = (cut > 0 ? "..." : "") + line.substr(cut, kWidth);
    column = column - cut + (cut > 0 ? 3 : 0);
  }
  std::string indent;
  for (const char c : line.substr(0, column)) {
    const bool continues =
        (static_cast<unsigned char>(c) & 0xc0) == 0x80;  // a byte of a UTF-8 character already counted
    if (!continues) indent += c == '\t' ? '\t' : ' ';
  }
  return fmt::format("\n{}\n{}^", line, indent);
}

}  // namespace

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
  if (!origin.text.empty()) block += caret(origin.text, static_cast<size_t>(std::max(origin.column - 1, 0)));
  return block;
}

}  // namespace osprey::config
