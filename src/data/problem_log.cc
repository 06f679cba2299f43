#include "problem_log.h"

#include <spdlog/spdlog.h>

#include "record_of_image.h"

namespace osprey::data {

void ProblemLog::tell(const std::string& reader, const std::vector<std::string>& lines) {
  constexpr int kShownClasses = 10;
  int classes = 0;
  for (const std::string& line : lines) {
    if (!told_.insert(line).second) continue;
    if (line.find(kForeignObjects) != std::string::npos && ++classes > kShownClasses) continue;
    SPDLOG_WARN("{}: {}", reader, line);
  }
  if (classes > kShownClasses)
    SPDLOG_WARN("{}: and objects of {} classes more; check_dataset names them all", reader, classes - kShownClasses);
}

}  // namespace osprey::data
