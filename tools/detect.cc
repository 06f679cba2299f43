// Draws and lists what a trained or exported model finds on pictures and videos, or times it.
#include <algorithm>
#include <filesystem>

#include "cli/cli.h"
#include "detect/benchmark.h"
#include "detect/output_folder.h"
#include "detect/picture_list.h"
#include "detect/served_model.h"
#include "detect/video_list.h"
#include "osprey/base/error.h"
#include "osprey/kernels/named_device.h"

namespace fs = std::filesystem;

namespace {

using namespace osprey;

struct Flags {
  std::vector<std::string> models, paths;
  std::string output_dir, json_file, device;
  double min_score = 0.5;
  size_t max_images = 0;
  tools::WatchOptions watching;
  TileOptions tiles;
  int benchmark_calls = 0;
};

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("--model", flags.models,
                 "Folder written by export_model, a model directory (its newest checkpoint), or a checkpoint in one")
      ->required()
      ->allow_extra_args(false);
  app.add_option("paths", flags.paths,
                 "Pictures, folders of pictures, or TFRecord files; or videos, cameras (camera:0, camera:1, ...) or "
                 "streams (rtsp://...), which run until they end, Ctrl-C, or --max_frames")
      ->required();
  auto* const drawn =
      app.add_option("--output_dir", flags.output_dir, "Folder for the drawn pictures or videos; not drawn without it");
  auto* const json = app.add_option(
      "--json", flags.json_file,
      "File for the list of detections: an array for pictures, a line per frame for videos (default, and -: stdout)");
  app.add_option("--min_score", flags.min_score, "Detections with a lower score are left out")
      ->check(cli::within(0, 1))
      ->capture_default_str();
  app.add_option("--max_images", flags.max_images, "Stop after so many pictures; 0: all")
      ->check(cli::at_least(0))
      ->capture_default_str();
  auto* const tile =
      app.add_option("--tile_size", flags.tiles.side_px,
                     "Looks for small objects in large pictures: at squares of so many pixels, each as if it were a "
                     "picture, and at the whole. Good values: the side of the model's input, or twice that")
          ->check(cli::at_least(1));
  app.add_option("--tile_overlap", flags.tiles.overlap,
                 "Share of a square that its neighbour sees, too; more than the largest of the small objects")
      ->check(cli::within(0, 0.9))
      ->capture_default_str()
      ->needs(tile);
  app.add_option("--every_n_frames", flags.watching.every_n_frames, "Looks at every n-th frame of a video")
      ->check(cli::at_least(1))
      ->capture_default_str()
      ->group("Videos");
  app.add_option("--max_frames", flags.watching.max_frames, "Stop after looking at so many frames of a video; 0: all")
      ->check(cli::at_least(0))
      ->capture_default_str()
      ->group("Videos");
  app.add_option("--benchmark", flags.benchmark_calls,
                 "Times so many calls, each with a full batch of one of the pictures, and prints images/s and latency; "
                 "several --model, exported with different batch sizes, are timed one after the other")
      ->check(cli::at_least(1))
      ->excludes(drawn, json, tile);
  cli::add_device_flag(app, flags.device);
}

/// Whether there are videos to look at, and not pictures. Refuses what does not go together.
bool wants_videos(const CLI::App& app, const Flags& flags) {
  const auto is_given = [&](const char* flag) { return app.get_option(flag)->count() > 0; };
  const auto video = std::ranges::find_if(flags.paths, tools::is_video);
  if (video == flags.paths.end()) {
    for (const char* flag : {"--every_n_frames", "--max_frames"})
      if (is_given(flag)) throw ConfigError(std::string(flag) + ": is for videos; there is none");
    return false;
  }
  const auto picture = std::ranges::find_if_not(flags.paths, tools::is_video);
  if (picture != flags.paths.end())
    throw ConfigError(tools::shown_name(*video) + " is a video and " + *picture + " is not: give them to two calls");
  if (is_given("--max_images")) throw ConfigError("--max_images: is for pictures; --max_frames is for videos");
  if (is_given("--benchmark"))
    throw ConfigError("--benchmark: is for pictures; for videos frames/s are shown, with all that is done for a frame");
  std::ranges::for_each(flags.paths, tools::check_video_name);
  return true;
}

/// throws ConfigError where the list would take the place of what is looked at or drawn
void check_json_file(const Flags& flags, const std::vector<fs::path>& drawn_to) {
  if (flags.json_file.empty() || flags.json_file == cli::kStdout) return;
  const fs::path list = fs::weakly_canonical(flags.json_file);
  const auto is_list = [&](const fs::path& file) { return fs::weakly_canonical(file) == list; };
  if (std::ranges::any_of(flags.paths, is_list)) throw ConfigError("--json " + flags.json_file + ": is an input");
  if (std::ranges::any_of(drawn_to, is_list))
    throw ConfigError("--json " + flags.json_file + ": is what --output_dir makes of an input");
  cli::check_writable(flags.json_file);
}

std::vector<tools::Picture> pictures_of(const Flags& flags) {
  std::vector<tools::Picture> pictures = tools::pictures_of(flags.paths);
  if (flags.max_images > 0 && pictures.size() > flags.max_images) pictures.resize(flags.max_images);
  return pictures;
}

int detect_on_pictures(const Flags& flags) {
  const std::vector<tools::Picture> pictures = pictures_of(flags);
  std::vector<fs::path> files;
  for (const tools::Picture& picture : pictures) files.push_back(picture.file);
  const auto drawn_to = tools::drawn_files(files, flags.output_dir, ".jpg", "picture");
  check_json_file(flags, drawn_to);
  const tools::ServedModel served(flags.models.front());
  const Detector detector(served.folder(), flags.device);
  return tools::list_pictures(pictures, tools::find_with(detector, flags.tiles, flags.min_score), drawn_to,
                              flags.json_file);
}

int detect_on_videos(const Flags& flags) {
  std::vector<fs::path> files;
  for (const std::string& path : flags.paths) files.push_back(tools::file_of_video(path));
  const auto drawn_to = tools::drawn_files(files, flags.output_dir, ".mp4", "video");
  check_json_file(flags, drawn_to);
  const tools::ServedModel served(flags.models.front());
  const Detector detector(served.folder(), flags.device);
  tools::WatchOptions watching = flags.watching;
  watching.batch_size = detector.batch_size();
  return tools::list_videos(flags.paths, tools::find_with(detector, flags.tiles, flags.min_score), watching, drawn_to,
                            flags.json_file);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Draws and lists what a trained or exported model finds on pictures, videos and cameras."};
  Flags flags;
  add_flags(app, flags);
  const char* const example =
      "detect --model exported --output_dir drawn photo.jpg folder/\n"
      "  detect --model exported --output_dir drawn clip.mp4\n"
      "  detect --model exported --every_n_frames 5 --json found.jsonl camera:0";
  return cli::run_with_code(app, example, argc, argv, [&] {
    if (flags.benchmark_calls == 0 && flags.models.size() > 1)
      throw ConfigError("--model: more than one is for --benchmark only");
    kernels::named_device(flags.device);
    const bool videos = wants_videos(app, flags);
    if (videos) return detect_on_videos(flags);
    if (flags.benchmark_calls == 0) return detect_on_pictures(flags);
    tools::benchmark(flags.models, flags.device, pictures_of(flags), flags.benchmark_calls);
    return static_cast<int>(ExitCode::kDone);
  });
}
