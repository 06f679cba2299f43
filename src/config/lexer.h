#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace osprey::config {

/// Something wrong at a place of a text; the path is empty until a field is known.
struct Finding {
  size_t offset = 0;
  std::string path;
  std::string message;
};

struct Token {
  enum class Kind { kIdentifier, kNumber, kString, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;
  size_t offset = 0;
  bool first_on_line = false;

  bool is(char symbol) const { return kind == Kind::kSymbol && text[0] == symbol; }
  bool opens() const { return is('{') || is('<'); }
  bool closes() const { return is('}') || is('>'); }
};

/// Turns offsets of a text into lines and columns, both from 1; columns count bytes.
class LineIndex {
 public:
  explicit LineIndex(std::string_view text);
  int line(size_t offset) const;
  int column(size_t offset) const;
  /// The line that holds this offset, without its end; control characters other than tabs become '?'.
  std::string text(size_t offset) const;
  /// How far that line is indented, in characters.
  int indent(size_t offset) const;

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
};

/// The tokens of protobuf's text format, ending with one of kind kEnd. Never fails: what cannot be a token becomes a
/// finding, and reading goes on behind it. A string in typographic quotes is a finding and a string token.
std::vector<Token> tokenize(std::string_view text, std::vector<Finding>& findings);

}  // namespace osprey::config
