#include "detect/pictures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <sstream>

#include "osprey/base/error.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/picture_files.h"

namespace osprey::tools {
namespace fs = std::filesystem;
namespace {

/// By the names that record files go by: "test.record", "val-00000-of-00032.tfrecord", "val.record-00000-of-00010".
bool is_record_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.find(".record") != std::string::npos || name.find(".tfrecord") != std::string::npos;
}

std::string read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw DataError(file.string() + ": cannot be read");
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

/// All pictures of a record file.
void add_records(const std::string& file, std::vector<Picture>& pictures) {
  try {
    const auto records = std::make_shared<const data::RecordIndex>(std::vector<std::string>{file}, "detect");
    for (int64_t record = 0; record < records->size(); ++record) pictures.push_back({file, records, record});
  } catch (const DataError& error) {
    pictures.push_back({file, nullptr, 0, error.what()});
  }
}

}  // namespace

std::string Picture::name() const { return records ? fmt::format("{}:{}", file.string(), record) : file.string(); }

std::vector<Picture> pictures_of(const std::vector<std::string>& paths) {
  std::vector<Picture> result;
  for (const std::string& path : paths) {
    if (!fs::exists(path)) throw DataError(path + ": no such file or folder");
    if (fs::is_directory(path)) {
      for (const std::string& file : data::pictures_below(path)) result.push_back({file, nullptr, 0});
    } else if (is_record_file(path)) {
      add_records(path, result);
    } else {
      result.push_back({path, nullptr, 0});
    }
  }
  if (result.empty()) throw DataError(fmt::format("no pictures in {}", fmt::join(paths, ", ")));
  return result;
}

at::Tensor decode(const Picture& picture) {
  if (!picture.unreadable.empty()) throw DataError(picture.unreadable);
  if (picture.records) {
    data::DecoderOptions options;
    options.only_picture = true;
    data::ReadReport report;
    return data::ExampleDecoder(options, nullptr)
        .decode(picture.records->read(picture.record), picture.records->origin(picture.record), report)
        .image;
  }
  const std::string bytes = read_bytes(picture.file);
  try {
    return data::upright(data::decode_image(bytes), data::image_info(bytes).orientation);
  } catch (const DataError& error) {
    throw DataError(picture.file.string() + ": " + error.what());
  }
}

}  // namespace osprey::tools
