#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace osprey::train {

/// A file of a model directory that grows by a line at a time, each a JSON object with the `step` that it is of.
class StepLines {
 public:
  /// Opens the file; lines of later steps than `step`, which a killed run left behind, are removed, as the steps are
  /// made once more.
  /// throws DataError naming the file where it cannot be written
  StepLines(const std::filesystem::path& file, int64_t step);

  /// What the last line said under a name when the file was opened; 0 where it said no number.
  double last(const std::string& name) const;

  /// throws DataError where the line cannot be written
  void write(const std::string& line);

 private:
  std::filesystem::path file_;
  std::map<std::string, double> last_;
  std::ofstream out_;
};

}  // namespace osprey::train
