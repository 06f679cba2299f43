#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace osprey::tools {

/// Where what is drawn on each of some inputs goes, by its name: "b/a.png" to "<folder>/a.jpg", a second "a" to
/// "a_2.jpg". The folder is made; this is before the work.
///
/// inputs   files, whether they exist or not
/// folder   "": nothing is drawn, and nothing returned
/// what     the inputs are, for an error: "picture"
/// throws   ConfigError where one of these files is an input; DataError where the folder cannot be made or written to
std::vector<std::filesystem::path> drawn_files(const std::vector<std::filesystem::path>& inputs,
                                               const std::filesystem::path& folder, const std::string& ending,
                                               const std::string& what);

}  // namespace osprey::tools
