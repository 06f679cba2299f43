#pragma once
#include <string>
#include <vector>

namespace osprey::data {

/// The lines of a text file without their ends, be those of Unix or Windows, and without a byte order mark.
/// throws DataError: cannot be read
std::vector<std::string> text_lines(const std::string& file);

/// Without spaces, tabs and line ends on both sides.
std::string without_blanks(const std::string& text);

/// With slashes where Windows has backslashes.
std::string slashed(std::string path);

}  // namespace osprey::data
