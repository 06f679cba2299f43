// Draws and lists what a trained or exported model finds on pictures, or times it.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/cli.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/config/validate.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/image_codec.h"
#include "osprey/data/record_index.h"
#include "osprey/eval/draw.h"
#include "osprey/export/detector.h"
#include "osprey/export/exporter.h"
#include "osprey/export/latency.h"
#include "osprey/export/tiles.h"
#include "osprey/kernels/named_device.h"

namespace fs = std::filesystem;

namespace {

/// The folder that serves a model: the one that was named, or one made of a training's checkpoint for as long as this
/// lives.
class ServedModel {
 public:
  /// path  folder written by export_model, a model directory (its newest checkpoint), or a checkpoint in one
  ///       (its model.pt stands for the folder that export_model wrote)
  explicit ServedModel(const fs::path& path) : folder_(path) {
    const fs::path run = fs::is_directory(path) ? path : path.parent_path();
    if (!fs::exists(path) && !fs::exists(run / "pipeline.config"))  // a checkpoint may be named without its ending
      throw osprey::DataError(fmt::format("--model {}: no such file or folder", path.string()));
    if (path.filename() == "model.pt") folder_ = run;
    if (fs::exists(folder_ / "model.pt")) return;
    if (!fs::exists(run / "pipeline.config"))
      throw osprey::DataError(fmt::format(
          "--model {}: neither what export_model wrote (model.pt) nor a training's folder (pipeline.config) is there",
          path.string()));
    if (path.extension() == ".onnx")
      throw osprey::ConfigError(
          fmt::format("--model: {} is for ONNX runtimes; detect runs the model.pt beside it: give {}", path.string(),
                      run.empty() ? "." : run.string()));
    if (fs::is_regular_file(path) &&
        (path.filename() == "checkpoint" || path.extension() == ".config" || path.extension() == ".json"))
      throw osprey::ConfigError(
          fmt::format("--model: {} is no model; give its folder, {}, or a checkpoint (ckpt-<step>.osprey)",
                      path.string(), run.empty() ? "." : run.string()));
    const fs::path temporary = fs::temp_directory_path();
    std::string name = (temporary / "osprey-detect-XXXXXX").string();  // mkdtemp replaces the six letters
    if (::mkdtemp(name.data()) == nullptr)
      throw osprey::DataError(fmt::format("{}: no folder for the exported model can be made there: {}",
                                          temporary.string(), strerror(errno)));
    own_ = name;
    folder_ = own_ / "model";
    try {
      const auto pipeline = osprey::config::load_pipeline((run / "pipeline.config").string());
      osprey::config::check(pipeline, osprey::config::Purpose::kExport);
      osprey::export_model(pipeline, path.string(), folder_.string(), {.onnx = false, .parity_images = 1});
    } catch (...) {
      std::error_code ignored;
      fs::remove_all(own_, ignored);
      throw;
    }
  }
  ~ServedModel() {
    std::error_code ignored;
    if (!own_.empty()) fs::remove_all(own_, ignored);
  }
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  std::string folder() const { return folder_.string(); }

 private:
  fs::path folder_, own_;
};

std::string read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw osprey::DataError(file.string() + ": cannot be read");
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

/// A picture to look at: a file of its own, or a record of a TFRecord file.
struct Source {
  fs::path file;
  std::shared_ptr<const osprey::data::RecordIndex> records;  ///< null: the file is the picture
  int64_t record = 0;
  std::string name() const { return records ? fmt::format("{}:{}", file.string(), record) : file.string(); }
};

/// By the names that record files go by: "test.record", "val-00000-of-00032.tfrecord", "val.record-00000-of-00010".
bool is_record_file(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.find(".record") != std::string::npos || name.find(".tfrecord") != std::string::npos;
}

/// The pictures behind files, folders (by the usual endings) and record files; a file named on the command line is
/// taken as it is.
std::vector<Source> sources(const std::vector<std::string>& paths) {
  static const std::set<std::string> endings{".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp"};
  std::vector<Source> result;
  for (const std::string& path : paths) {
    if (!fs::exists(path)) throw osprey::DataError(path + ": no such file or folder");
    if (fs::is_directory(path)) {
      std::set<fs::path> sorted;
      for (const auto& entry : fs::recursive_directory_iterator(path)) {
        std::string ending = entry.path().extension().string();
        std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
        if (entry.is_regular_file() && endings.count(ending)) sorted.insert(entry.path());
      }
      for (const fs::path& file : sorted) result.push_back({file, nullptr, 0});
    } else if (is_record_file(path)) {
      const auto records = std::make_shared<const osprey::data::RecordIndex>(std::vector<std::string>{path}, "detect");
      for (int64_t record = 0; record < records->size(); ++record) result.push_back({path, records, record});
    } else {
      result.push_back({path, nullptr, 0});
    }
  }
  if (result.empty()) throw osprey::DataError(fmt::format("no pictures in {}", fmt::join(paths, ", ")));
  return result;
}

at::Tensor decode(const Source& source) {
  if (source.records) {
    osprey::data::DecoderOptions options;
    options.num_classes = std::numeric_limits<int32_t>::max();  // only the picture is looked at
    osprey::data::ReadReport report;
    return osprey::data::ExampleDecoder(options, nullptr)
        .decode(source.records->read(source.record), source.records->origin(source.record), report)
        .image;
  }
  const std::string bytes = read_bytes(source.file);
  try {
    return osprey::data::upright(osprey::data::decode_image(bytes), osprey::data::image_info(bytes).orientation);
  } catch (const osprey::DataError& error) {
    throw osprey::DataError(source.file.string() + ": " + error.what());
  }
}

std::string drawn_jpeg(const at::Tensor& image, const std::vector<osprey::Detection>& found) {
  std::vector<osprey::eval::DrawnBox> boxes;
  for (const auto& one : found) boxes.push_back({one.box, one.class_id - 1, one.class_name, one.score});
  osprey::eval::DrawOptions options;
  options.max_boxes = static_cast<int>(boxes.size());
  options.min_score = 0;
  return osprey::data::encode_jpeg(osprey::eval::draw_boxes(image, boxes, options));
}

/// What is found on one picture.
struct Look {
  at::Tensor image;
  std::vector<osprey::Detection> found;
  std::string drawn_jpeg;  ///< where it is asked for
};

/// tiles  side_px 0: the picture is looked at as a whole only
/// throws DataError, which names the picture, where it cannot be decoded, or drawn, or has too many tiles
Look look_at(const Source& source, const osprey::Detector& detector, const osprey::TileOptions& tiles, double min_score,
             bool with_drawing) {
  Look look{.image = decode(source)};
  try {
    look.found = tiles.side_px > 0 ? osprey::detect_in_tiles(detector, look.image, tiles, min_score)
                                   : detector.detect(look.image, min_score);
    if (with_drawing) look.drawn_jpeg = drawn_jpeg(look.image, look.found);
  } catch (const osprey::DataError& error) {
    throw osprey::DataError(source.name() + ": " + error.what());
  }
  return look;
}

/// Where each picture goes, by its name; none of these is a picture that is to be looked at.
std::vector<fs::path> drawn_files(const std::vector<Source>& pictures, const fs::path& folder) {
  std::set<fs::path> inputs;
  for (const Source& source : pictures) inputs.insert(fs::weakly_canonical(source.file));
  std::set<std::string> names;
  std::vector<fs::path> result;
  for (const Source& source : pictures) {
    std::string name = source.file.stem().string();
    for (int n = 2; !names.insert(name).second; ++n) name = source.file.stem().string() + "_" + std::to_string(n);
    result.push_back(folder / (name + ".jpg"));
    if (inputs.count(fs::weakly_canonical(result.back())) > 0)
      throw osprey::ConfigError("--output_dir: " + result.back().string() +
                                " is an input picture; choose another folder");
  }
  return result;
}

/// The folder for what is drawn, made before the work.
void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw osprey::DataError(folder + ": cannot be made: " + error.message());
  osprey::cli::check_writable((fs::path(folder) / "picture.jpg").string());
}

void write_drawn(const fs::path& file, const std::string& jpeg) {
  std::ofstream out(file, std::ios::binary);
  out << jpeg;
  out.close();
  if (out) return;
  const int reason = errno;
  std::error_code ignored;
  fs::remove(file, ignored);  // a half one
  throw osprey::DataError(file.string() + ": cannot be written: " + strerror(reason));
}

/// One JSON object per model.
void benchmark(const std::vector<std::string>& models, const std::string& device, const std::vector<at::Tensor>& images,
               int calls) {
  for (const std::string& model : models) {
    const ServedModel served(model);
    const osprey::Latency found = measure_latency(osprey::Detector(served.folder(), device), images, calls);
    const nlohmann::ordered_json line{
        {"model", model},
        {"batch_size", found.batch_size},
        {"threads", at::get_num_threads()},
        {"images_per_second", found.images_per_second},
        {"latency_ms",
         {{"average", found.average_ms}, {"p90", found.p90_ms}, {"p95", found.p95_ms}, {"p99", found.p99_ms}}}};
    osprey::cli::print(osprey::json_text(line) + "\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Draws and lists what a trained or exported model finds on pictures."};
  std::string output_dir, json_file, device;
  std::vector<std::string> models, paths;
  double min_score = 0.5;
  size_t max_images = 0;
  osprey::TileOptions tiles;
  int benchmark_calls = 0;
  app.add_option("--model", models,
                 "Folder written by export_model, a model directory (its newest checkpoint), or a checkpoint in one")
      ->required()
      ->allow_extra_args(false);
  app.add_option("paths", paths, "Pictures, folders of pictures, or TFRecord files")->required();
  auto* const drawn_option =
      app.add_option("--output_dir", output_dir, "Folder for the drawn pictures; not drawn without it");
  auto* const json_option = app.add_option("--json", json_file, "File for the list of detections (default: stdout)");
  app.add_option("--min_score", min_score, "Detections with a lower score are left out")
      ->check(osprey::cli::within(0, 1))
      ->capture_default_str();
  app.add_option("--max_images", max_images, "Stop after so many pictures; 0: all")
      ->check(osprey::cli::at_least(0))
      ->capture_default_str();
  auto* const tile_option =
      app.add_option("--tile_size", tiles.side_px,
                     "Looks for small objects in large pictures: at squares of so many pixels, each as if it were a "
                     "picture, and at the whole. Good values: the side of the model's input, or twice that")
          ->check(osprey::cli::at_least(1));
  app.add_option("--tile_overlap", tiles.overlap,
                 "Share of a square that its neighbour sees, too; more than the largest of the small objects")
      ->check(osprey::cli::within(0, 0.9))
      ->capture_default_str()
      ->needs(tile_option);
  app.add_option("--benchmark", benchmark_calls,
                 "Times so many calls, each with a full batch of one of the pictures, and prints images/s and latency; "
                 "several --model, exported with different batch sizes, are timed one after the other")
      ->check(osprey::cli::at_least(1))
      ->excludes(drawn_option, json_option, tile_option);
  osprey::cli::add_device_flag(app, device);
  const char* const example = "detect --model exported --output_dir drawn photo.jpg folder/";
  return osprey::cli::run_with_code(app, example, argc, argv, [&] {
    if (benchmark_calls == 0 && models.size() > 1)
      throw osprey::ConfigError("--model: more than one is for --benchmark only");
    osprey::kernels::named_device(device);
    nlohmann::ordered_json list = nlohmann::json::array();
    std::vector<Source> pictures = sources(paths);
    if (max_images > 0 && pictures.size() > max_images) pictures.resize(max_images);
    if (!json_file.empty()) osprey::cli::check_writable(json_file);
    const std::vector<fs::path> drawn =
        output_dir.empty() ? std::vector<fs::path>() : drawn_files(pictures, output_dir);
    if (!output_dir.empty()) make_folder(output_dir);
    if (benchmark_calls > 0) {
      std::vector<at::Tensor> images;
      for (const Source& source : pictures) images.push_back(decode(source));
      benchmark(models, device, images, benchmark_calls);
      return static_cast<int>(osprey::ExitCode::kDone);
    }
    const ServedModel served(models.front());
    const osprey::Detector detector(served.folder(), device);
    size_t num_detections = 0, num_bad = 0;
    for (size_t i = 0; i < pictures.size(); ++i) {
      const Source& source = pictures[i];
      Look look;
      try {
        look = look_at(source, detector, tiles, min_score, !output_dir.empty());
      } catch (const osprey::DataError& error) {
        SPDLOG_WARN("left out: {}", error.what());
        ++num_bad;
        continue;
      }
      num_detections += look.found.size();
      nlohmann::ordered_json entry{
          {"file", source.name()}, {"height", look.image.size(0)}, {"width", look.image.size(1)}};
      entry["detections"] = nlohmann::json::array();
      for (const auto& one : look.found)
        entry["detections"].push_back({{"class_id", one.class_id},
                                       {"class", one.class_name},
                                       {"score", one.score},
                                       {"box", {one.box.ymin, one.box.xmin, one.box.ymax, one.box.xmax}}});
      if (!output_dir.empty()) {
        write_drawn(drawn[i], look.drawn_jpeg);
        entry["drawn"] = drawn[i].string();
      }
      list.push_back(std::move(entry));
    }
    const std::string json = osprey::json_text(list, 1) + "\n";
    json_file.empty() ? osprey::cli::print(json) : osprey::cli::write_file(json_file, json);
    SPDLOG_INFO("{} detections on {} pictures{}", num_detections, pictures.size() - num_bad,
                num_bad > 0 ? fmt::format(", {} pictures left out", num_bad) : "");
    return static_cast<int>(num_bad > 0 ? osprey::ExitCode::kData : osprey::ExitCode::kDone);
  });
}
