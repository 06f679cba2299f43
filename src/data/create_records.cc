#include "osprey/data/create_records.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <regex>
#include <system_error>
#include <thread>
#include <utility>

#include "osprey/base/error.h"
#include "osprey/config/label_map.h"
#include "osprey/data/annotations.h"
#include "osprey/data/shapes.h"
#include "record_of_image.h"
#include "sharded_output.h"
#include "single_threaded.h"
#include "tile_records.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

constexpr int kMaxWorkers = 1024;
constexpr uint64_t kTileDraws = uint64_t{1} << 33;  // the operation of their RandomKey

// Where nothing is cut, too.
void check(const RecordTiles& tiles) {
  const auto in_range = [](double value, double most) { return value >= 0 && value <= most; };
  if (tiles.side_px < 0) throw ConfigError(fmt::format("--tile_size must be >= 1, got {}", tiles.side_px));
  if (!in_range(tiles.overlap, 0.9))
    throw ConfigError(fmt::format("--tile_overlap must be in [0, 0.9], got {}", tiles.overlap));
  if (!in_range(tiles.min_visible, 1))
    throw ConfigError(fmt::format("--tile_min_visible must be in [0, 1], got {}", tiles.min_visible));
  if (!in_range(tiles.background, 1))
    throw ConfigError(fmt::format("--tile_background must be in [0, 1], got {}", tiles.background));
}

void check(const CreateRecordsOptions& options) {
  const bool shapes = options.format == AnnotationFormat::kShapes;
  if (options.output.empty()) throw ConfigError("--output is missing: the record file to write");
  if (options.label_map.empty()) throw ConfigError("--label_map is missing: the label map to obey, or to write");
  if (!shapes && options.input.empty()) throw ConfigError("--input is missing: the annotations to read");
  if (shapes && !options.input.empty()) throw ConfigError("--input does not go with --format shapes, which needs none");
  if (shapes && !options.split.empty()) throw ConfigError("--split does not go with --format shapes");
  std::error_code ignored;
  if (shapes && !options.image_dir.empty()) throw ConfigError("--image_dir does not go with --format shapes");
  if (options.format != AnnotationFormat::kCsv && !options.class_descriptions.empty())
    throw ConfigError("--class_descriptions goes with --format csv only");
  if (!options.image_dir.empty() && !fs::is_directory(options.image_dir, ignored))
    throw ConfigError(fmt::format("--image_dir {}: no such folder", options.image_dir));
  if (options.num_shards < 1 || options.num_shards > 99999)
    throw ConfigError(fmt::format("--num_shards must be in 1..99999, got {}", options.num_shards));
  if (options.num_images < 0) throw ConfigError(fmt::format("--num_images must be >= 0, got {}", options.num_images));
  if (options.num_workers < 0 || options.num_workers > kMaxWorkers)
    throw ConfigError(fmt::format("--num_workers must be in 0..{}, got {}", kMaxWorkers, options.num_workers));
  check(options.tiles);
  if (options.tiles.side_px > 0 && options.format == AnnotationFormat::kFolders)
    throw ConfigError("--tile_size does not go with --format folders: a tile need not show what its picture does");
}

// How the files of the output are called.
struct Shards {
  std::string name, ending;  // "name-00000-of-00003ending"
  int count = 1;             // 1: name

  std::vector<std::string> files() const {
    std::vector<std::string> result;
    for (int i = 0; i < count; ++i)
      result.push_back(count == 1 ? name : fmt::format("{}-{:05}-of-{:05}{}", name, i, count, ending));
    return result;
  }
};

Shards shards_of(const CreateRecordsOptions& options) {
  static const std::regex pattern("(.*)-[?]{5}-of-([0-9]{5})([^/]*)");
  std::smatch parts;
  if (!std::regex_match(options.output, parts, pattern)) return {options.output, "", options.num_shards};
  const Shards shards{parts[1].str(), parts[3].str(), std::stoi(parts[2].str())};
  if (shards.count < 2 || (options.num_shards != 1 && options.num_shards != shards.count))
    throw ConfigError(fmt::format("--output {}: stands for {} files, --num_shards for {}", options.output, shards.count,
                                  options.num_shards));
  return shards;
}

// Also where neither is there yet.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;
  const fs::path plain = fs::weakly_canonical(fs::absolute(a, ignored), ignored);
  return !plain.empty() && plain == fs::weakly_canonical(fs::absolute(b, ignored), ignored);
}

// What is read must not be written over. (`--split val` need not be a file.)
void refuse_to_overwrite(const CreateRecordsOptions& options, const std::vector<std::string>& files) {
  std::error_code ignored;
  const std::pair<const char*, std::string> read[] = {
      {"--input", options.input},
      {"--split", fs::is_regular_file(options.split, ignored) ? options.split : ""},
      {"--class_descriptions", options.class_descriptions},
      {"--label_map", options.label_map}};
  for (const auto& [flag, file] : read)
    for (const std::string& output : files)
      if (!file.empty() && same_file(output, file))
        throw ConfigError(
            fmt::format("--output: {} is the file of {} and would be written over; take another name", output, flag));
}

std::unique_ptr<AnnotationSource> open(const CreateRecordsOptions& options, Problems& problems) {
  if (options.format != AnnotationFormat::kShapes)
    return open_annotations(
        {options.format, options.input, options.image_dir, options.split, options.class_descriptions}, problems);
  ShapesOptions shapes;
  if (options.num_images > 0) shapes.num_images = options.num_images;
  shapes.seed = options.seed;
  return make_shapes(shapes);
}

// Makes the records of pictures with several threads.
class Maker {
 public:
  Maker(const AnnotationSource& source, const config::LabelMap& map, const CreateRecordsOptions& options,
        Problems& problems)
      : source_(source),
        map_(map),
        options_(options),
        threads_(options.num_workers > 0 ? options.num_workers : std::max(1u, std::thread::hardware_concurrency())),
        problems_(problems) {}

  /// How many pictures are made at a time.
  int64_t block() const { return (options_.tiles.side_px > 0 ? 1 : 16) * threads_; }

  /// Those of pictures [begin, end), in order; none for what was left out.
  std::vector<std::vector<std::string>> make(int64_t begin, int64_t end) {
    std::vector<std::vector<std::string>> records(static_cast<size_t>(end - begin));
    std::atomic<int64_t> next = begin;
    std::exception_ptr failure;
    const auto work = [&] {
      use_one_thread();
      try {
        RecordCounts counts;
        for (int64_t i = next++; i < end; i = next++) {
          AnnotatedImage image;
          if (source_.read(i, image, problems_))
            records[static_cast<size_t>(i - begin)] = records_of(i, std::move(image), counts);
        }
        const std::lock_guard lock(mutex_);
        counts_ += counts;
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure) failure = std::current_exception();
        next = end;
      }
    };
    std::vector<std::jthread> threads;
    try {
      for (int t = 0; t < threads_; ++t) threads.emplace_back(work);
    } catch (const std::system_error& error) {
      next = end;  // those that are there come to their end, and are waited for
      throw DataError(
          fmt::format("{} threads cannot be started: {}; lower --num_workers", threads_, error.code().message()));
    }
    threads.clear();  // waits for them
    if (failure) std::rethrow_exception(failure);
    return records;
  }

  const RecordCounts& counts() const { return counts_; }

 private:
  std::vector<std::string> records_of(int64_t index, AnnotatedImage image, RecordCounts& counts) const {
    if (options_.tiles.side_px > 0) {
      const RandomKey key{options_.seed, 0, static_cast<uint64_t>(index), kTileDraws};
      return records_with_tiles(std::move(image), map_, options_.tiles, key, problems_, counts);
    }
    std::optional<std::string> record =
        record_of_image(std::move(image), map_, RecordCheck::kNow, problems_, counts.objects_of_class);
    if (!record) return {};
    ++counts.num_whole;
    return {*std::move(record)};
  }

  const AnnotationSource& source_;
  const config::LabelMap& map_;
  const CreateRecordsOptions& options_;
  int threads_;
  Problems& problems_;
  std::mutex mutex_;
  RecordCounts counts_;
};

// Shards of another number beside ours would be read together with them by a pattern.
void look_for_other_shards(const Shards& shards, Problems& problems) {
  const fs::path output(shards.name);
  const fs::path folder = output.parent_path().empty() ? fs::path(".") : output.parent_path();
  const std::string prefix = output.filename().string() + "-";
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0 || name.find("-of-") == std::string::npos) continue;
    bool ours = false;
    for (const std::string& file : shards.files()) ours = ours || fs::path(file).filename() == name;
    if (!ours)
      problems.add("older shard(s) beside the new ones, which a pattern may take along", entry.path().string());
  }
}

}  // namespace

CreateRecordsResult create_records(const CreateRecordsOptions& options,
                                   const std::function<void(int64_t done, int64_t total)>& progress) {
  check(options);
  const Shards shards = shards_of(options);
  Problems problems;
  CreateRecordsResult result;
  std::error_code error;
  const bool obey = fs::exists(options.label_map, error);
  config::LabelMap map;
  if (obey) {
    map = config::load_label_map(options.label_map);
  } else if (const fs::path folder = fs::path(options.label_map).parent_path(); !folder.empty()) {
    fs::create_directories(folder, error);
    if (error) throw DataError(fmt::format("{}: cannot create the folder: {}", folder.string(), error.message()));
  }
  const std::unique_ptr<AnnotationSource> source = open(options, problems);
  if (!obey) map = new_label_map(*source, options.input, problems);

  const int64_t total = options.num_images > 0 ? std::min(options.num_images, source->size()) : source->size();
  ShardedOutput output(shards.files(), total);
  refuse_to_overwrite(options, output.files());
  Maker maker(*source, map, options, problems);
  for (int64_t begin = 0; begin < total; begin += maker.block()) {
    const int64_t end = std::min(begin + maker.block(), total);
    int64_t index = begin;
    for (const std::vector<std::string>& records : maker.make(begin, end)) {
      for (const std::string& record : records) output.write(index, record);
      result.num_images += records.empty() ? 0 : 1;
      ++index;
    }
    if (progress) progress(end, total);
  }
  result += maker.counts();
  for (const auto& [name, count] : result.objects_of_class) result.num_objects += count;
  result.problems = problems.lines();
  if (result.num_images == 0 && result.num_background > 0)
    throw DataError(
        fmt::format("{}: nothing is left: its {} tiles have no objects, and --tile_background leaves them out\n{}",
                    options.input, result.num_background, fmt::join(result.problems, "\n")));
  if (result.num_images == 0)
    throw DataError(fmt::format("{}: none of {} pictures can be used{}\n{}", options.input, total,
                                options.image_dir.empty() ? "; --image_dir says where they lie"
                                                          : "; looked for below --image_dir " + options.image_dir,
                                fmt::join(result.problems, "\n")));
  const bool has_objects = result.num_objects + result.num_cut > 0;
  if (obey && !has_objects && problems.count(kForeignObjects) > 0)
    throw ConfigError(fmt::format("{}: has none of the classes of {}\n{}", options.label_map,
                                  options.input.empty() ? "the shapes" : options.input,
                                  fmt::join(result.problems, "\n")));
  if (!has_objects && problems.count("object(s) left out") > 0)
    throw DataError(
        fmt::format("{}: none of its objects can be used\n{}", options.input, fmt::join(result.problems, "\n")));
  output.publish();
  result.files = output.files();
  if (!obey) {
    config::write_label_map(map, options.label_map);
    result.label_map_written = true;
  }
  look_for_other_shards(shards, problems);
  result.problems = problems.lines();
  return result;
}

}  // namespace osprey::data
