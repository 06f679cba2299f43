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

constexpr std::pair<const char*, Options::Format> kFormats[] = {{"voc", Options::Format::kVoc},
                                                                {"coco", Options::Format::kCoco},
                                                                {"yolo", Options::Format::kYolo},
                                                                {"csv", Options::Format::kCsv},
                                                                {"shapes", Options::Format::kShapes}};

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
  std::string text = fmt::format("{} pictures with {} objects in {} file{}: {}{}\n", result.num_images,
                                 result.num_objects, result.files.size(), result.files.size() == 1 ? "" : "s",
                                 result.files.front(), result.files.size() == 1 ? "" : " ...");
  for (const auto& [name, count] : result.objects_of_class) text += fmt::format("  {:>8} {}\n", count, name);
  text += fmt::format("label map: {} ({})\n", options.label_map, result.label_map_written ? "written" : "as it was");
  osprey::cli::print(text);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Writes annotated pictures as TFRecord files of tf.Example, as the TF Object Detection API reads them."};
  Options options;
  osprey::cli::accept_logging_flags(app);
  app.add_option_function<std::string>(
         "--format", [&](const std::string& name) { options.format = *format_named(name); },
         "voc: folders of Pascal VOC XML; coco: an instances JSON; yolo: a data.yaml, obj.data or classes.txt with "
         "pictures and labels; csv: a line for each box, of Open Images, keras-retinanet or with a header filename, "
         "class, xmin, ...; shapes: synthetic pictures")
      ->required()
      ->type_name("NAME")
      ->check(one_of_the_formats());
  app.add_option(
      "--input", options.input,
      "folder searched for XML files with all below it, JSON or CSV file, or YOLO data set (its folder, or the file "
      "that describes it)");
  app.add_option("--image_dir", options.image_dir,
                 "where the pictures lie; default: JPEGImages, images or data, or beside the annotations");
  app.add_option(
      "--split", options.split,
      "text file with the names of the pictures to use, one per line; yolo: or train (the default), val, ...");
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
  app.add_option("--seed", options.seed, "of shapes; different seeds share no picture")->capture_default_str();
  app.add_option("--num_workers", options.num_workers, "threads; default: one per processor");
  return osprey::cli::run(
      app, "create_records --format voc --input VOC2012 --split train.txt --label_map map.pbtxt --output train.record",
      argc, argv, [&] {
        Progress progress;
        print(osprey::data::create_records(options, std::ref(progress)), options);
      });
}
