#include "eval_detector/output.h"

#include "cli/cli.h"

namespace osprey::tools {

void show(const std::string& text, const std::string& json, const std::string& json_file) {
  cli::print(json_file == kStdout ? json : text);
  if (!json_file.empty() && json_file != kStdout) cli::write_file(json_file, json);
}

}  // namespace osprey::tools
