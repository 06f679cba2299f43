#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/data/annotations.h"

namespace osprey::data {

/// Which of the named things a list file asks for, in the order of the list.
/// names  of each thing all that may stand in the list for it: path, file name, stem, id
/// throws DataError where the list names none of them; single names without a thing are counted
std::vector<int64_t> select_split(const std::string& file, const std::vector<std::vector<std::string>>& names,
                                  Problems& problems);

/// The names of a file by which a list may call it: as given, without folders, without ending, without both.
std::vector<std::string> names_of_file(const std::string& file);

}  // namespace osprey::data
