#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "osprey/data/record_index.h"

namespace osprey::tools {

/// A picture to look at: a file of its own, or a record of a TFRecord file.
struct Picture {
  std::filesystem::path file;
  std::shared_ptr<const data::RecordIndex> records;  ///< null: the file is the picture
  int64_t record = 0;
  std::string unreadable = {};  ///< a record file of which no picture can be had: why

  std::string name() const;
};

/// The pictures behind files, folders (by the usual endings) and record files; a file that is named is taken as it is.
/// One whose records cannot be read counts as one picture, which cannot be decoded.
/// throws  DataError: a path leads nowhere, or none to a picture
std::vector<Picture> pictures_of(const std::vector<std::string>& paths);

/// [H, W, 3] uint8 RGB, upright.
/// throws  DataError that names the picture
at::Tensor decode(const Picture& picture);

}  // namespace osprey::tools
