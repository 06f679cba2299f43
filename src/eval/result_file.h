#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace osprey::eval {

/// Writes a whole file, with the folders above it; programs that evaluate one checkpoint at a time do not disturb each
/// other.
/// throws  DataError where it cannot be written
void write_result(const std::filesystem::path& file, const std::string& bytes);

/// An image's id for JSON. Those that are whole numbers, as COCO's are, are written as numbers.
nlohmann::json id_json(const std::string& id);

/// Indented, but lists of numbers and names on one line each.
std::string readable_json(const nlohmann::ordered_json& value);

}  // namespace osprey::eval
