#pragma once
#include <string>

namespace osprey::tools {

/// The name of a file that stands for standard output.
inline constexpr const char* kStdout = "-";

/// Text on stdout and JSON in the file, where one is named; with kStdout the JSON alone, on stdout.
void show(const std::string& text, const std::string& json, const std::string& json_file);

}  // namespace osprey::tools
