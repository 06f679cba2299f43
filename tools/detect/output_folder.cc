#include "detect/output_folder.h"

#include <set>

#include "cli/cli.h"
#include "osprey/base/error.h"

namespace osprey::tools {
namespace fs = std::filesystem;
namespace {

void make(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw DataError(folder.string() + ": cannot be made: " + error.message());
  cli::check_writable((folder / "drawn").string());
}

}  // namespace

std::vector<fs::path> drawn_files(const std::vector<fs::path>& inputs, const fs::path& folder,
                                  const std::string& ending, const std::string& what) {
  if (folder.empty()) return {};
  std::set<fs::path> files;
  for (const fs::path& input : inputs) files.insert(fs::weakly_canonical(input));
  std::set<std::string> names;
  std::vector<fs::path> result;
  for (const fs::path& input : inputs) {
    std::string name = input.stem().string();
    for (int n = 2; !names.insert(name).second; ++n) name = input.stem().string() + "_" + std::to_string(n);
    result.push_back(folder / (name + ending));
    if (files.count(fs::weakly_canonical(result.back())) > 0)
      throw ConfigError("--output_dir: " + result.back().string() + " is an input " + what + "; choose another folder");
  }
  make(folder);
  return result;
}

}  // namespace osprey::tools
