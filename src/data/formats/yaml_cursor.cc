#include "yaml_cursor.h"

#include <fmt/format.h>

#include "data/text_lines.h"
#include "osprey/base/error.h"

namespace osprey::data {

void YamlCursor::fail(const std::string& what) const { throw DataError(fmt::format("{}:{}: {}", file_, line_, what)); }

size_t YamlCursor::skip_spaces() {
  const size_t begin = at_;
  while (peek() == ' ' || peek() == '\t') take();
  const size_t spaces = at_ - begin;
  const bool stands_alone = at_ == 0 || std::string_view(" \t\n,[{").find(text_[at_ - 1]) != std::string_view::npos;
  if (peek() == '#' && stands_alone)
    while (!at_end() && peek() != '\n') take();
  return spaces;
}

size_t YamlCursor::skip_lines() {
  size_t indentation = skip_spaces();
  while (took('\n')) indentation = skip_spaces();
  return indentation;
}

std::string YamlCursor::scalar(bool in_brackets) {
  if (peek() == '"' || peek() == '\'') return quoted();
  if (!at_end() && std::string_view("&*!|>%@`").find(peek()) != std::string_view::npos)
    fail(fmt::format("what begins with {} is not read here", peek()));
  if (peek() == '?' && ends_a_word(1)) fail("keys that begin with ? are not read here");
  std::string result;
  while (!at_end() && peek() != '\n') {
    if (in_brackets && std::string_view(",[]{}").find(peek()) != std::string_view::npos) break;
    if (peek() == ':' && (ends_a_word(1) || (in_brackets && ends_an_item(1)))) break;
    if (peek() == '#' && !result.empty() && (result.back() == ' ' || result.back() == '\t')) break;
    result += take();
  }
  return without_blanks(result);
}

bool YamlCursor::ends_a_word(size_t ahead) const {
  return at_ + ahead >= text_.size() || std::string_view(" \t\n").find(text_[at_ + ahead]) != std::string_view::npos;
}

bool YamlCursor::ends_an_item(size_t ahead) const {
  return std::string_view(",]}").find(text_[at_ + ahead]) != std::string_view::npos;
}

std::string YamlCursor::quoted() {
  const char quote = take();
  std::string result;
  while (true) {
    if (at_end() || peek() == '\n') fail("a quote is not closed in its line");
    const char c = take();
    if (c == quote && quote == '\'' && took('\'')) {
      result += '\'';
    } else if (c == quote) {
      return result;
    } else if (c == '\\' && quote == '"') {
      result += escaped();
    } else {
      result += c;
    }
  }
}

char YamlCursor::escaped() {
  const char c = at_end() ? '\n' : take();
  if (c == '\\' || c == '"' || c == '/') return c;
  if (c == 't') return '\t';
  fail(fmt::format("\\{} in double quotes is not read here; single quotes take a backslash as it is",
                   c == '\n' ? ' ' : c));
}

}  // namespace osprey::data
