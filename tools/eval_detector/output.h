#pragma once
#include <string>

namespace osprey::tools {

/// Text on stdout and JSON in the file, where one is named; with cli::kStdout the JSON alone, on stdout.
void show(const std::string& text, const std::string& json, const std::string& json_file);

}  // namespace osprey::tools
