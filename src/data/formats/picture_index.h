#pragma once
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "osprey/data/annotations.h"
#include "osprey/data/picture_files.h"

namespace osprey::data {

/// The name of the folder that a path, with slashes, has a file in; "" where it names none.
std::string folder_name(const std::string& path);

/// Finds pictures by name in some folders and all below them, which are listed when the first is looked for. For any
/// number of threads.
class PictureIndex {
 public:
  explicit PictureIndex(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  /// All pictures of this name, each once, in however many ways links lead to its folder; of several in different
  /// folders those whose paths end as `name` does, if any do.
  std::vector<std::string> places(const std::string& name) const;

 private:
  void list() const;

  std::vector<std::string> folders_;
  mutable std::once_flag listed_;
  mutable std::unordered_map<std::string, std::vector<std::string>> by_name_;  // without folders -> paths
};

/// Counts that pictures have a name but are not those that are looked for.
/// why  for those who read it, such as "not in train"
void add_not_taken(const std::string& name, const std::vector<std::string>& places, const std::string& why,
                   Problems& problems);

/// The one place of a picture; "" where there are several or none that counts, which is counted.
/// folders  what the paths of those end in that the picture may lie in, since one of its name in another folder is
///          another picture; empty: in any
std::string only_place(const std::string& name, const std::vector<std::string>& places,
                       const std::set<std::string>& folders, Problems& problems);

}  // namespace osprey::data
