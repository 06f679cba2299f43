// Annotations -> TFRecord shards and label map.
#include "osprey/data/create_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/cli.h"

namespace {
using Options = osprey::data::CreateRecordsOptions;

constexpr std::pair<const char*, Options::Format> kFormats[] = {
    {"voc", Options::Format::kVoc},         {"coco", Options::Format::kCoco},    {"yolo", Options::Format::kYolo},
    {"csv", Options::Format::kCsv},         {"cvat", Options::Format::kCvat},    {"kitti", Options::Format::kKitti},
    {"folders", Options::Format::kFolders}, {"shapes", Options::Format::kShapes}};

// In whatever case; nothing where there is none.
std::optional<Options::Format> format_named(const std::string& text) {
  for (const auto& [name, format] : kFormats)
    if (CLI::ignore_case(text) == name) return format;
  return std::nullopt;
}

CLI::Validator one_of_the_formats() {
  std::vector<std::string> names;
  for (const auto& [name, format] : kFormats) names.emplace_back(name);
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  return CLI::Validator(
      [list](std::string& text) {
        return format_named(text) ? std::string() : fmt::format("must be one of {}, got '{}'", list, text);
      },
      "{" + fmt::format("{}", fmt::join(names, ",")) + "}", "format");
}

// One line on a terminal, every ten seconds a new one elsewhere.
class Progress {
 public:
  void operator()(int64_t done, int64_t total) {
    const bool terminal = ::isatty(STDERR_FILENO) != 0;
    const auto now = std::chrono::steady_clock::now();
    if (done < total && now - last_ < std::chrono::milliseconds(terminal ? 200 : 10000)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = static_cast<double>(done) / std::max(seconds, 1e-3);
    const std::string line = fmt::format("{}{}/{} pictures, {:.0f}/s, {:.0f} s left{}", terminal ? "\r" : "", done,
                                         total, rate, static_cast<double>(total - done) / std::max(rate, 1e-3),
                                         terminal && done < total ? "   " : "   \n");
    std::fputs(line.c_str(), stderr);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_ = start_;
};

void print(const osprey::data::CreateRecordsResult& result, const Options& options) {
  for (const std::string& problem : result.problems) std::fputs(("warning: " + problem + "\n").c_str(), stderr);
  const std::string where = fmt::format("{} file{}: {}{}", result.files.size(), result.files.size() == 1 ? "" : "s",
                                        result.files.front(), result.files.size() == 1 ? "" : " ...");
  std::string text =
      options.tiles.side_px > 0
          ? fmt::format("{} tiles and {} whole ones of {} pictures with {} objects in {}\n", result.num_tiles,
                        result.num_whole, result.num_images, result.num_objects, where)
          : fmt::format("{} pictures with {} objects in {}\n", result.num_images, result.num_objects, where);
  for (const auto& [name, count] : result.objects_of_class) text += fmt::format("  {:>8} {}\n", count, name);
  if (result.num_cut > 0)
    text += fmt::format(
        "{} cut boxes, of which less than {:g} lies in the tile, are no objects there: they have weight 0\n",
        result.num_cut, options.tiles.min_visible);
  if (result.num_background > 0) text += fmt::format("{} tiles without objects left out\n", result.num_background);
  text += fmt::format("label map: {} ({})\n", options.label_map, result.label_map_written ? "written" : "as it was");
  osprey::cli::print(text);
}

void add_tile_flags(CLI::App& app, osprey::data::RecordTiles& tiles, bool& tiles_only) {
  const char* const group = "Tiles";
  auto* const size =
      app.add_option("--tile_size", tiles.side_px,
                     "cuts pictures into the squares of so many pixels that detect and eval_detector look at with the "
                     "same flag, each a record beside that of the whole picture")
          ->check(osprey::cli::at_least(1))
          ->group(group);
  app.add_option("--tile_overlap", tiles.overlap,
                 "share of a square that its neighbour sees, too; more than the largest of the small objects")
      ->check(osprey::cli::within(0, 0.9))
      ->capture_default_str()
      ->needs(size)
      ->group(group);
  app.add_option("--tile_min_visible", tiles.min_visible,
                 "share of a box that has to lie in a square to be an object there; others get "
                 "weight 0, and anchors that match them learn nothing")
      ->check(osprey::cli::within(0, 1))
      ->capture_default_str()
      ->needs(size)
      ->group(group);
  app.add_option("--tile_background", tiles.background,
                 "share of the squares without objects to keep, drawn by --seed; for training, where most have none")
      ->check(osprey::cli::within(0, 1))
      ->capture_default_str()
      ->needs(size)
      ->group(group);
  app.add_flag("--tiles_only", tiles_only, "leaves out the whole pictures of which there are tiles")
      ->needs(size)
      ->group(group);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Writes annotated pictures as TFRecord files of tf.Example, as the TF Object Detection API reads them."};
  Options options;
  bool tiles_only = false;
  osprey::cli::accept_logging_flags(app);
  app.add_option_function<std::string>(
         "--format", [&](const std::string& name) { options.format = *format_named(name); },
         "voc: folders of Pascal VOC XML; coco: an instances JSON; yolo: a data.yaml, obj.data or classes.txt with "
         "pictures and labels; csv: a line for each box, of Open Images, keras-retinanet or with a header filename, "
         "class, xmin, ...; cvat: the XML of \"CVAT for images\"; kitti: label_2 beside image_2, or labels beside "
         "images; folders: one folder of pictures for each class, for classifiers; shapes: synthetic pictures")
      ->required()
      ->type_name("NAME")
      ->check(one_of_the_formats());
  app.add_option(
      "--input", options.input,
      "folder searched for XML files (kitti: folders of labels) with all below it, JSON, CSV or CVAT's XML "
      "file, YOLO data set (its folder, or the file that describes it), or folder of the folders of classes");
  app.add_option("--image_dir", options.image_dir,
                 "where the pictures lie; default: JPEGImages, images, data or image_2, or beside the annotations");
  app.add_option(
      "--split", options.split,
      "text file with the names of the pictures to use, one per line; yolo: or train (the default), val, ...; "
      "cvat: or a subset");
  app.add_option("--class_descriptions", options.class_descriptions,
                 "csv: file of two columns, class and the name that people read, for the label map");
  app.add_option("--label_map", options.label_map, "label map: obeyed where the file exists, else written")->required();
  app.add_option("--output", options.output,
                 "record file to write; with shards, their common beginning, or a pattern such as "
                 "train-\?\?\?\?\?-of-00256.tfrecord")
      ->required();
  app.add_option("--num_shards", options.num_shards, "number of files: OUTPUT-00000-of-0000N ...")
      ->capture_default_str();
  app.add_option("--num_images", options.num_images, "the first so many pictures; default: all (shapes: 1000)");
  app.add_option("--seed", options.seed,
                 "of shapes, of which different seeds share no picture, and of --tile_background")
      ->capture_default_str();
  app.add_option("--num_workers", options.num_workers, "threads; default: one per processor");
  add_tile_flags(app, options.tiles, tiles_only);
  return osprey::cli::run(
      app, "create_records --format voc --input VOC2012 --split train.txt --label_map map.pbtxt --output train.record",
      argc, argv, [&] {
        options.tiles.whole_picture = !tiles_only;
        Progress progress;
        print(osprey::data::create_records(options, std::ref(progress)), options);
      });
}
