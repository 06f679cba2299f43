#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace osprey::data {

/// Goes through a text of YAML and knows in which line it is. File and text have to outlive it.
class YamlCursor {
 public:
  YamlCursor(const std::string& file, std::string_view text, int line) : file_(file), text_(text), line_(line) {}

  int line() const { return line_; }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  char take() {
    if (peek() == '\n') ++line_;
    return text_[at_++];
  }
  /// Whether the next character, which is taken, is this one.
  bool took(char wanted) {
    if (at_end() || peek() != wanted) return false;
    take();
    return true;
  }
  /// throws DataError, with file and line
  [[noreturn]] void fail(const std::string& what) const;

  /// Passes over spaces and a comment; returns the number of spaces.
  size_t skip_spaces();
  /// Also over line ends. Returns the indentation of the line that is reached.
  size_t skip_lines();

  /// A scalar, which ends with its line, before a comment, before ": " or, in brackets, before one of ",[]{}".
  std::string scalar(bool in_brackets);

  /// Whether a space, a line end or the end is so many characters ahead.
  bool ends_a_word(size_t ahead) const;

 private:
  bool ends_an_item(size_t ahead) const;

  std::string quoted();
  char escaped();

  const std::string& file_;
  std::string_view text_;
  int line_;
  size_t at_ = 0;
};

}  // namespace osprey::data
