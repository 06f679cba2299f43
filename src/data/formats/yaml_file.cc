#include "yaml_file.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/text_lines.h"
#include "osprey/base/error.h"
#include "yaml_cursor.h"

namespace osprey::data {
namespace {

bool is_null(const std::string& plain) { return plain == "~" || plain == "null" || plain == "Null" || plain == "NULL"; }

// How many brackets are open behind the lines so far. A quote begins only where a value may begin: it's one word.
class BracketCount {
 public:
  /// line  the next one, without its end
  void add(std::string_view line) {
    for (const char c : line) add(c);
    in_comment_ = is_escaped_ = false;
    last_ = ' ';
  }
  int open() const { return open_; }

 private:
  void add(char c) {
    const bool is_blank = c == ' ' || c == '\t', was_closed = std::exchange(has_closed_, false);
    if (quote_ == '\0' && c == '#' && std::string_view(" \t,[{").find(last_) != std::string_view::npos)
      in_comment_ = true;
    if (in_comment_) return;
    const bool may_begin = std::string_view("[{,:").find(before_) != std::string_view::npos;
    if (quote_ != '\0') {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\' && quote_ == '"') {
        is_escaped_ = true;
      } else if (c == quote_) {
        has_closed_ = c == '\'';
        quote_ = '\0';
      }
    } else if (((c == '"' || c == '\'') && may_begin) || (c == '\'' && was_closed)) {
      quote_ = c;
    } else if (c == '[' || c == '{') {
      ++open_;
    } else if (c == ']' || c == '}') {
      --open_;
    }
    if (!is_blank) before_ = c;
    last_ = c;
  }

  int open_ = 0;
  char quote_ = '\0', before_ = '[', last_ = ' ';  // the last character that is no blank, and the last of all
  bool in_comment_ = false, is_escaped_ = false;
  bool has_closed_ = false;  // a single quote did, with the last character: another one makes them a quote in the text
};

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
  std::unordered_map<std::string, int> line_of_key;
  BracketCount brackets;  // of the entry that is read, where it is in brackets
  int number = 0;
  for (const std::string& line : text_lines(file)) {
    ++number;
    const std::string plain = without_blanks(line);
    const bool is_comment = plain.empty() || plain[0] == '#';
    const bool goes_on =
        brackets.open() > 0 || line.starts_with(' ') || line.starts_with('\t') || line == "-" || line.starts_with("- ");
    const bool begins_document = line.starts_with("---") && entries_.empty();
    const std::string root = begins_document ? without_blanks(line.substr(3)) : plain;
    if (entries_.empty() && (root.starts_with('{') || root.starts_with('[')))
      throw DataError(fmt::format(
          "{}:{}: a whole file in brackets is not read here; lines of `key: value` are expected", file, number));
    if (line == "..." || line.starts_with('%') || begins_document) continue;
    if (line.starts_with("---"))
      throw DataError(fmt::format("{}:{}: a second document is not read here", file, number));
    if (is_comment || goes_on) {
      if (entries_.empty() && !is_comment) throw DataError(fmt::format("{}:{}: belongs to no key", file, number));
      if (entries_.empty()) continue;
      entries_.back().text += "\n" + line;
      if (entries_.back().in_brackets) brackets.add(line);
    } else {
      Entry entry;
      entry.line = number;
      YamlCursor in(file_, line, number);
      entry.key = in.scalar(false);
      take_colon(in, entry.key);
      while (!in.at_end()) entry.text += in.take();
      entry.in_brackets = entry.text.starts_with('[') || entry.text.starts_with('{');
      if (const auto [other, is_new] = line_of_key.emplace(entry.key, number); !is_new)
        throw DataError(fmt::format("{}:{}: {} stands in line {}, too", file, number, entry.key, other->second));
      brackets = {};
      if (entry.in_brackets) brackets.add(entry.text);
      entries_.push_back(std::move(entry));
    }
  }
  if (brackets.open() > 0)
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
