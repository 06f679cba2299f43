#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "detect/look.h"
#include "detect/pictures.h"

namespace osprey::tools {

/// Looks at pictures and writes the list of what was found, a JSON array with an object for each. A picture that cannot
/// be looked at, or drawn, is left out with a warning.
///
/// drawn_to   a file for each picture, or none at all: nothing is drawn
/// json_file  of the list; "" or "-": stdout
/// returns    the exit code: 3 where a picture was left out
/// throws     DataError where a result cannot be written
int list_pictures(const std::vector<Picture>& pictures, const Find& find,
                  const std::vector<std::filesystem::path>& drawn_to, const std::string& json_file);

}  // namespace osprey::tools
