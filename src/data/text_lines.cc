#include "text_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "osprey/base/error.h"

namespace osprey::data {

void for_each_line(const std::string& file, const std::function<void(const std::string& line, int64_t number)>& call) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw DataError(fmt::format("{}: cannot open: {}", file, std::strerror(errno)));
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    const bool is_first = ++number == 1;
    if (is_first && (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF")))
      throw DataError(file + ": is UTF-16; save it as UTF-8");
    if (line.find('\0') != std::string::npos)
      throw DataError(file + ": has NUL bytes, so it is UTF-16 or no text; save it as UTF-8");
    if (is_first && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.ends_with('\r')) line.pop_back();
    call(line, number);
  }
  if (in.bad()) throw DataError(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
}

std::vector<std::string> text_lines(const std::string& file) {
  std::vector<std::string> lines;
  for_each_line(file, [&](const std::string& line, int64_t) { lines.push_back(line); });
  return lines;
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    size_t length = first < 0x80 ? 1 : 0;  // 0: no character begins so
    if (first >= 0xc2 && first < 0xe0) length = 2;
    if (first >= 0xe0 && first < 0xf0) length = 3;
    if (first >= 0xf0 && first < 0xf5) length = 4;
    if (length == 0 || length > text.size() - i) return false;
    for (size_t k = 1; k < length; ++k) {
      unsigned char least = 0x80, most = 0xbf;
      if (k == 1 && first == 0xe0) least = 0xa0;  // less would fit into two bytes
      if (k == 1 && first == 0xed) most = 0x9f;   // more are surrogates
      if (k == 1 && first == 0xf0) least = 0x90;  // less would fit into three bytes
      if (k == 1 && first == 0xf4) most = 0x8f;   // more is above U+10FFFF
      const auto byte = static_cast<unsigned char>(text[i + k]);
      if (byte < least || byte > most) return false;
    }
    i += length;
  }
  return true;
}

std::string without_blanks(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

double number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : std::nan("");
}

bool says_yes(const std::string& text) { return lower_case(text) == "true" || number_of(text) > 0; }

int64_t pixels_of(const std::string& text) {
  const double value = number_of(text);
  return value >= 1 && value < 1e9 ? static_cast<int64_t>(value) : 0;
}

std::string slashed(std::string path) {
  std::replace(path.begin(), path.end(), '\\', '/');
  return path;
}

}  // namespace osprey::data
