#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "osprey/data/annotations.h"
#include "picture_index.h"

namespace osprey::data {

/// The name, with the likeliest ending where it has none of a picture.
std::string with_ending(const std::string& name);

/// Finds the pictures that one file of annotations names: by the whole name, then by that without folders; in
/// image_dir, or in the folder of the subset that the file is called after, beside the file, in images and data there
/// and one folder above, and below these, if only one picture has the name. One in another folder than the name says,
/// or whose name says none while others of the set have it, too, is counted and not taken.
class PictureFinder {
 public:
  /// subsets  what the file is called after: "val2017" for instances_val2017.json
  PictureFinder(const std::string& input, const std::string& image_dir, const std::vector<std::string>& subsets);

  /// Says that the set has a picture of this name; all are said before the first is looked for.
  void expect(const std::string& file_name);

  /// Where it lies; "" where it is not found. For any number of threads.
  std::string find(const std::string& file_name, Problems& problems) const;

  /// The same for a name that may lack its ending: it gets the one that it is found with, else that of `with_ending`.
  std::string find_any_ending(std::string& file_name, Problems& problems) const;

 private:
  bool is_of_another(const std::filesystem::path& place) const;
  bool is_only(const std::string& tail) const;

  std::vector<std::filesystem::path> folders_;  // in which pictures are looked for, in this order
  PictureIndex below_;                          // of what lies in none of them
  std::unordered_set<std::string> expected_;
  std::unordered_map<std::string, int64_t> names_of_tail_;  // how many pictures' names end so
};

}  // namespace osprey::data
