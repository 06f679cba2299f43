#pragma once
#include <array>
#include <string>
#include <vector>

namespace osprey::data {

/// What the names of pictures end in, in small letters; the likelier ones first.
inline constexpr std::array kPictureEndings = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff"};

/// Whether a name has one of these endings, in any case.
bool is_picture_name(const std::string& name);

/// Pictures in a folder and all below it, also where links lead, by their endings, in the order of their names. Those
/// of a folder that is reached in several ways are there once; folders that may not be read are passed over.
/// throws  std::filesystem::filesystem_error where `folder` is none
std::vector<std::string> pictures_below(const std::string& folder);

}  // namespace osprey::data
