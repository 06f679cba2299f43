#pragma once
#include <set>
#include <string>
#include <vector>

namespace osprey::data {

/// Warns of the problems of a set while it is read, each line once; of classes that the label map does not have at most
/// ten at a time, and how many more.
class ProblemLog {
 public:
  /// reader  how messages call it
  /// lines   as `Problems::lines`
  void tell(const std::string& reader, const std::vector<std::string>& lines);

 private:
  std::set<std::string> told_;
};

}  // namespace osprey::data
