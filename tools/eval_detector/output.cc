#include "eval_detector/output.h"

#include "cli/cli.h"

namespace osprey::tools {

void show(const std::string& text, const std::string& json, const std::string& json_file) {
  if (json_file != cli::kStdout) cli::print(text);
  if (!json_file.empty()) cli::write_file(json_file, json);
}

}  // namespace osprey::tools
