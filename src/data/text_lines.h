#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace osprey::data {

/// The lines of a text file without their ends, be those of Unix or Windows, and without a byte order mark.
/// throws DataError: cannot be read, is UTF-16 or has NUL bytes as UTF-16 does
std::vector<std::string> text_lines(const std::string& file);

/// Calls with each of these lines and its number from 1, without keeping them; throws as above.
void for_each_line(const std::string& file, const std::function<void(const std::string& line, int64_t number)>& call);

/// Whether a text is UTF-8 as RFC 3629 has it: no character longer than it has to be, no surrogates, none above
/// U+10FFFF.
bool is_utf8(std::string_view text);

/// Without spaces, tabs and line ends on both sides.
std::string without_blanks(const std::string& text);

/// In small, in capital letters, of ASCII.
std::string lower_case(std::string text);
std::string upper_case(std::string text);

/// The number that a text is; NaN where it is none.
double number_of(const std::string& text);

/// Whether a text says yes: "true" in any case, or a number above 0.
bool says_yes(const std::string& text);

/// The number of pixels that a text is; 0 where it is none, or less than one.
int64_t pixels_of(const std::string& text);

/// With slashes where Windows has backslashes.
std::string slashed(std::string path);

}  // namespace osprey::data
