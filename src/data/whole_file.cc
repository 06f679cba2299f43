#include "whole_file.h"

#include <fstream>
#include <sstream>

namespace osprey::data {

std::optional<std::string> bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  if (!in.is_open() || in.bad()) return std::nullopt;
  return std::move(bytes).str();
}

}  // namespace osprey::data
