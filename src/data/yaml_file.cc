#include "yaml_file.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "osprey/base/error.h"
#include "text_lines.h"

namespace osprey::data {
namespace {

// Goes through a text and knows in which line it is.
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
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}:{}: {}", file_, line_, what));
  }

  /// Passes over spaces and a comment; returns the number of spaces.
  size_t skip_spaces() {
    const size_t begin = at_;
    while (peek() == ' ' || peek() == '\t') take();
    const size_t spaces = at_ - begin;
    const bool stands_alone = at_ == 0 || std::string_view(" \t\n,[{").find(text_[at_ - 1]) != std::string_view::npos;
    if (peek() == '#' && stands_alone)
      while (!at_end() && peek() != '\n') take();
    return spaces;
  }
  /// Also over line ends. Returns the indentation of the line that is reached.
  size_t skip_lines() {
    size_t indentation = skip_spaces();
    while (took('\n')) indentation = skip_spaces();
    return indentation;
  }

  /// A scalar, which ends with its line, before a comment, before ": " or, in brackets, before one of ",[]{}".
  std::string scalar(bool in_brackets) {
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

  /// Whether a space, a line end or the end is so many characters ahead.
  bool ends_a_word(size_t ahead) const {
    return at_ + ahead >= text_.size() || std::string_view(" \t\n").find(text_[at_ + ahead]) != std::string_view::npos;
  }

 private:
  bool ends_an_item(size_t ahead) const {
    return std::string_view(",]}").find(text_[at_ + ahead]) != std::string_view::npos;
  }

  std::string quoted() {
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
  char escaped() {
    const char c = at_end() ? '\n' : take();
    if (c == '\\' || c == '"' || c == '/') return c;
    if (c == 't') return '\t';
    fail(fmt::format("\\{} in double quotes is not read here; single quotes take a backslash as it is",
                     c == '\n' ? ' ' : c));
  }

  const std::string& file_;
  std::string_view text_;
  int line_;
  size_t at_ = 0;
};

bool is_null(const std::string& plain) { return plain == "~" || plain == "null" || plain == "Null" || plain == "NULL"; }

// How many brackets of a text are open at its end. A quote begins only where a value may begin: it's one word.
int open_brackets(const std::string& text) {
  int open = 0;
  char quote = '\0', before = '[', last = ' ';  // the last character that is no blank, and the last of all
  bool in_comment = false;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\t' || c == '\n';
    if (c == '\n') in_comment = false;
    if (quote == '\0' && c == '#' && (last == ' ' || last == '\t' || last == '\n')) in_comment = true;
    const bool may_begin = std::string_view("[{,:").find(before) != std::string_view::npos;
    if (in_comment) {
    } else if (quote != '\0') {
      if (c == quote && (quote == '\'' || last != '\\')) quote = '\0';
    } else if ((c == '"' || c == '\'') && may_begin) {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++open;
    } else if (c == ']' || c == '}') {
      --open;
    }
    if (!is_blank && !in_comment) before = c;
    last = c;
  }
  return open;
}

// The value of a scalar, which nothing but a comment may follow in its line.
std::string scalar_of_line(YamlCursor& in) {
  const bool is_quoted = in.peek() == '"' || in.peek() == '\'';
  std::string text = in.scalar(false);
  in.skip_spaces();
  if (in.peek() == ':') in.fail("lists of maps and maps in maps are not read here");
  if (!in.at_end() && in.peek() != '\n') in.fail(fmt::format("{} behind a value is not expected", in.peek()));
  return !is_quoted && is_null(text) ? "" : text;
}

void take_colon(YamlCursor& in, const std::string& key) {
  in.skip_spaces();
  if (in.peek() != ':') in.fail(fmt::format("`key: value` is expected, found `{}`", key));
  in.take();
  in.skip_spaces();
}

void read_brackets(YamlCursor& in, YamlValue& value) {
  value.kind = in.take() == '[' ? YamlValue::Kind::kList : YamlValue::Kind::kMap;
  const bool is_map = value.kind == YamlValue::Kind::kMap;
  const char closing = is_map ? '}' : ']';
  for (in.skip_lines(); !in.took(closing); in.skip_lines()) {
    YamlValue::Item item;
    item.line = in.line();
    if (in.peek() == '[' || in.peek() == '{') in.fail("brackets in brackets are not read here");
    if (in.peek() == ',') in.fail("a value is missing before ,");
    item.text = in.scalar(true);
    in.skip_lines();
    if (is_map) {
      item.key = std::exchange(item.text, "");
      if (!in.took(':')) in.fail(fmt::format("`key: value` is expected, found `{}`", item.key));
      in.skip_lines();
      if (in.peek() == '[' || in.peek() == '{') in.fail("brackets in brackets are not read here");
      item.text = in.scalar(true);
      in.skip_lines();
    }
    value.items.push_back(std::move(item));
    if (!in.took(',') && in.peek() != closing) in.fail(fmt::format("`,` or `{}` is expected", closing));
  }
}

// Lines of one indentation, each an item of a list ("- a") or of a map ("a: b").
void read_block(YamlCursor& in, size_t indentation, YamlValue& value) {
  const auto begins_item = [&] { return in.peek() == '-' && in.ends_a_word(1); };
  const bool is_list = begins_item();
  value.kind = is_list ? YamlValue::Kind::kList : YamlValue::Kind::kMap;
  for (size_t here = indentation; !in.at_end(); here = in.skip_lines()) {
    if (here != indentation) in.fail("is indented otherwise than the lines before; deeper nesting is not read here");
    if (begins_item() != is_list) in.fail(is_list ? "an item `- value` is expected" : "`key: value` is expected");
    YamlValue::Item item;
    item.line = in.line();
    if (is_list) {
      in.take();
      in.skip_spaces();
    } else {
      item.key = in.scalar(false);
      take_colon(in, item.key);
    }
    if (in.peek() == '[' || in.peek() == '{') in.fail("a list or map within another is not read here");
    item.text = scalar_of_line(in);
    value.items.push_back(std::move(item));
  }
}

}  // namespace

YamlFile::YamlFile(const std::string& file) : file_(file) {
  std::string text;
  int open = 0;  // brackets of the entry that is read
  int number = 0;
  for (const std::string& line : text_lines(file)) {
    ++number;
    const bool is_comment = without_blanks(line).empty() || without_blanks(line)[0] == '#';
    const bool goes_on =
        open > 0 || line.starts_with(' ') || line.starts_with('\t') || line == "-" || line.starts_with("- ");
    if (line == "..." || line.starts_with('%') || (line.starts_with("---") && entries_.empty())) continue;
    if (line.starts_with("---"))
      throw DataError(fmt::format("{}:{}: a second document is not read here", file, number));
    if (is_comment || goes_on) {
      if (entries_.empty() && !is_comment) throw DataError(fmt::format("{}:{}: belongs to no key", file, number));
      if (!entries_.empty()) entries_.back().text += "\n" + line;
    } else {
      Entry entry;
      entry.line = number;
      YamlCursor in(file_, line, number);
      entry.key = in.scalar(false);
      take_colon(in, entry.key);
      while (!in.at_end()) entry.text += in.take();
      entry.in_brackets = entry.text.starts_with('[') || entry.text.starts_with('{');
      for (const Entry& other : entries_)
        if (other.key == entry.key)
          throw DataError(fmt::format("{}:{}: {} stands in line {}, too", file, number, entry.key, other.line));
      entries_.push_back(std::move(entry));
    }
    if (!entries_.empty() && entries_.back().in_brackets) open = open_brackets(entries_.back().text);
  }
  if (open > 0)
    throw DataError(
        fmt::format("{}:{}: the bracket of {} is not closed", file, entries_.back().line, entries_.back().key));
}

std::optional<YamlValue> YamlFile::find(const std::string& key) const {
  for (const Entry& entry : entries_) {
    if (entry.key != key) continue;
    YamlValue value;
    value.line = entry.line;
    YamlCursor in(file_, entry.text, entry.line);
    if (entry.in_brackets) {
      read_brackets(in, value);
    } else if (in.skip_spaces(); !in.at_end() && in.peek() != '\n') {
      value.text = scalar_of_line(in);
    } else if (const size_t indentation = in.skip_lines(); !in.at_end()) {
      read_block(in, indentation, value);
    }
    in.skip_lines();
    if (!in.at_end()) in.fail(fmt::format("what follows the value of {} is not read here", key));
    return value;
  }
  return std::nullopt;
}

}  // namespace osprey::data
