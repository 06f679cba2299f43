#include "detect/picture_list.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/cli.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/data/image_codec.h"

namespace osprey::tools {
namespace fs = std::filesystem;
namespace {

/// What is found on one picture.
struct Look {
  at::Tensor picture;
  std::vector<Detection> found;
  std::string drawn_jpeg;  ///< where it is asked for
};

/// throws DataError, which names the picture, where it cannot be decoded, or drawn, or has too many tiles
Look look_at(const Picture& picture, const Find& find, bool with_drawing) {
  Look look{.picture = decode(picture)};
  try {
    look.found = find({look.picture}).front();
    if (with_drawing) look.drawn_jpeg = data::encode_jpeg(drawn(look.picture, look.found));
  } catch (const DataError& error) {
    throw DataError(picture.name() + ": " + error.what());
  }
  return look;
}

void write_drawn(const fs::path& file, const std::string& jpeg) {
  std::ofstream out(file, std::ios::binary);
  out << jpeg;
  out.close();
  if (out) return;
  const int reason = errno;
  std::error_code ignored;
  fs::remove(file, ignored);  // a half one
  throw DataError(file.string() + ": cannot be written: " + std::strerror(reason));
}

}  // namespace

int list_pictures(const std::vector<Picture>& pictures, const Find& find, const std::vector<fs::path>& drawn_to,
                  const std::string& json_file) {
  nlohmann::ordered_json list = nlohmann::json::array();
  size_t num_detections = 0, num_bad = 0;
  for (size_t i = 0; i < pictures.size(); ++i) {
    Look look;
    try {
      look = look_at(pictures[i], find, !drawn_to.empty());
    } catch (const DataError& error) {
      SPDLOG_WARN("left out: {}", error.what());
      ++num_bad;
      continue;
    }
    num_detections += look.found.size();
    nlohmann::ordered_json entry{
        {"file", pictures[i].name()}, {"height", look.picture.size(0)}, {"width", look.picture.size(1)}};
    entry["detections"] = detections_json(look.found);
    if (!drawn_to.empty()) {
      write_drawn(drawn_to[i], look.drawn_jpeg);
      entry["drawn"] = drawn_to[i].string();
    }
    list.push_back(std::move(entry));
  }
  const std::string json = json_text(list, 1) + "\n";
  json_file.empty() ? cli::print(json) : cli::write_file(json_file, json);
  SPDLOG_INFO("{} detections on {} pictures{}", num_detections, pictures.size() - num_bad,
              num_bad > 0 ? fmt::format(", {} pictures left out", num_bad) : "");
  return static_cast<int>(num_bad > 0 ? ExitCode::kData : ExitCode::kDone);
}

}  // namespace osprey::tools
