#include "config/lexer.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

namespace osprey::config {
namespace {

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)); }

/// The typographic quotation marks that editors and web pages put in the place of " and ', in UTF-8.
constexpr std::array<std::string_view, 8> kTypographicQuotes = {"\u201c", "\u201d", "\u201e", "\u2018",
                                                                "\u2019", "\u201a", "\u00ab", "\u00bb"};

size_t typographic_quote(std::string_view text) {
  for (std::string_view quote : kTypographicQuotes)
    if (text.substr(0, quote.size()) == quote) return quote.size();
  return 0;
}

class Lexer {
 public:
  Lexer(std::string_view text, std::vector<Finding>& findings) : text_(text), findings_(findings) {}

  std::vector<Token> run() {
    while (skip_space()) next();
    tokens_.push_back({Token::Kind::kEnd, text_.substr(text_.size()), text_.size(), line_start_});
    return std::move(tokens_);
  }

 private:
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  /// False at the end of the text.
  bool skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') line_start_ = true;
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
        ++at_;
      } else {
        return true;
      }
    }
    return false;
  }

  void push(Token::Kind kind, size_t end) {
    tokens_.push_back({kind, text_.substr(at_, end - at_), at_, line_start_});
    line_start_ = false;
    at_ = end;
  }

  void next() {
    const char c = text_[at_];
    size_t end = at_ + 1;
    if (letter(c)) {
      while (letter(at(end)) || digit(at(end))) ++end;
      push(Token::Kind::kIdentifier, end);
    } else if (digit(c) || (c == '.' && digit(at(end)))) {
      push(Token::Kind::kNumber, number_end());
    } else if (c == '"' || c == '\'') {
      string(c);
    } else if (const size_t size = typographic_quote(text_.substr(at_)); size > 0) {
      typographic_string(size);
    } else if (static_cast<unsigned char>(c) > 32 && static_cast<unsigned char>(c) < 127) {
      push(Token::Kind::kSymbol, end);
    } else {
      strange_bytes();
    }
  }

  size_t number_end() const {
    size_t end = at_ + 1;
    const bool is_hex = at(at_) == '0' && (at(end) | 32) == 'x';
    while (letter(at(end)) || digit(at(end)) || at(end) == '.' ||
           ((at(end) == '+' || at(end) == '-') && !is_hex && (at(end - 1) | 32) == 'e'))
      ++end;
    return end;
  }

  void string(char quote) {
    size_t end = at_ + 1;
    for (; end < text_.size() && text_[end] != quote && text_[end] != '\n'; ++end) {
      if (text_[end] != '\\') continue;
      check_escape(end);
      if (at(end + 1) != '\n') ++end;
    }
    if (at(end) != quote) {
      findings_.push_back({at_, "", "string is not closed on its line"});
      push(Token::Kind::kString, std::min(end, text_.size()));
    } else {
      push(Token::Kind::kString, end + 1);
    }
  }

  void check_escape(size_t backslash) {
    const char c = at(backslash + 1);
    size_t digits = c == 'x' || c == 'X' ? 1 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    bool good = digits > 0 || (c >= '0' && c <= '7') ||
                (c != '\0' && std::string_view("abfnrtv\\?'\"").find(c) != std::string_view::npos);
    for (size_t i = 0; i < digits; ++i) good = good && hex(at(backslash + 2 + i));
    if (!good)
      findings_.push_back(
          {backslash, "",
           fmt::format("'\\{}' is not a valid escape in a string; write a Windows path with / or with \\\\",
                       std::isprint(static_cast<unsigned char>(c)) ? std::string(1, c) : "")});
  }

  void typographic_string(size_t size) {
    findings_.push_back(
        {at_, "", fmt::format("typographic quotation mark {}: write a plain \" instead", text_.substr(at_, size))});
    size_t end = at_ + size;
    while (end < text_.size() && text_[end] != '\n') {
      const size_t closing = text_[end] == '"' || text_[end] == '\'' ? 1 : typographic_quote(text_.substr(end));
      end += std::max<size_t>(closing, 1);
      if (closing > 0) break;
    }
    push(Token::Kind::kString, end);
  }

  void strange_bytes() {
    size_t end = at_;
    while (end < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[end]);
      if ((c >= 32 && c < 127) || (c >= '\t' && c <= '\r') || typographic_quote(text_.substr(end)) > 0) break;
      ++end;
    }
    const bool no_break_space = text_.substr(at_, 2) == "\u00a0";
    findings_.push_back({at_, "",
                         no_break_space ? "no-break space (U+00A0): write a plain space instead"
                                        : fmt::format("byte 0x{:02x} cannot stand outside a string or comment",
                                                      static_cast<unsigned char>(text_[at_]))});
    at_ = end;
  }

  std::string_view text_;
  std::vector<Finding>& findings_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool line_start_ = true;
};

}  // namespace

LineIndex::LineIndex(std::string_view text) : text_(text), starts_{0} {
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') starts_.push_back(i + 1);
}

int LineIndex::line(size_t offset) const {
  return static_cast<int>(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin());
}

int LineIndex::column(size_t offset) const { return static_cast<int>(offset - starts_[line(offset) - 1]) + 1; }

std::string LineIndex::text(size_t offset) const {
  const size_t start = starts_[line(offset) - 1];
  std::string result(text_.substr(start, text_.find('\n', start) - start));
  if (!result.empty() && result.back() == '\r') result.pop_back();
  for (char& c : result)
    if (std::iscntrl(static_cast<unsigned char>(c)) && c != '\t') c = '?';
  return result;
}

int LineIndex::indent(size_t offset) const {
  const size_t start = starts_[line(offset) - 1];
  return static_cast<int>(std::min(text_.find_first_not_of(" \t", start), text_.size()) - start);
}

std::vector<Token> tokenize(std::string_view text, std::vector<Finding>& findings) {
  return Lexer(text, findings).run();
}

}  // namespace osprey::config
