#pragma once
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "osprey/data/annotations.h"

namespace osprey::data {

/// Pictures in a folder and all below it, by their endings, in the order of their names.
std::vector<std::string> pictures_below(const std::string& folder);

/// Finds pictures by name in some folders and all below them, which are listed when the first is looked for. For any
/// number of threads.
class PictureIndex {
 public:
  explicit PictureIndex(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  /// All pictures of this name; of several in different folders those whose paths end as `name` does, if any do.
  std::vector<std::string> places(const std::string& name) const;

 private:
  void list() const;

  std::vector<std::string> folders_;
  mutable std::once_flag listed_;
  mutable std::unordered_map<std::string, std::vector<std::string>> by_name_;  // without folders -> paths
};

/// The one place of a picture; "" where there are several, which is counted.
std::string only_place(const std::string& name, const std::vector<std::string>& places, Problems& problems);

}  // namespace osprey::data
