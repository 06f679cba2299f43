// Evaluates checkpoints of a detector, or, given two COCO files, the detections in them.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "cli/cli.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/config/pipeline.h"
#include "osprey/config/validate.h"
#include "osprey/data/reader_classes.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/eval/event_writer.h"
#include "osprey/eval/report.h"
#include "osprey/kernels/named_device.h"

namespace {

namespace fs = std::filesystem;
using osprey::checkpoint::Entry;
using Clock = std::chrono::steady_clock;

struct Flags {
  osprey::cli::ConfigFlags config;
  std::string model_dir, checkpoint_dir, checkpoint;
  bool several = false, watch = false, skip_bad = false;  // the first: all checkpoints from first_step to last_step
  double eval_timeout = 3600;
  int64_t first_step = 0, last_step = std::numeric_limits<int64_t>::max();
  int sample_1_of_n = 0, reader = 0;
  std::optional<uint32_t> gallery;
  osprey::boxes::TileOptions tiles;  // side_px 0: pictures are looked at as a whole
  std::string device;
  std::string ground_truth, detections, json;
  int num_threads = 0;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Text on stdout and JSON in the file; with kStdout the JSON alone, on stdout.
constexpr const char* kStdout = "-";
void show(const std::string& text, const std::string& json, const std::string& json_file) {
  osprey::cli::print(json_file == kStdout ? json : text);
  if (!json_file.empty() && json_file != kStdout) osprey::cli::write_file(json_file, json);
}

void evaluate_files(const Flags& flags) {
  const osprey::eval::CocoReport report =
      osprey::eval::evaluate_coco_files(flags.ground_truth, flags.detections, flags.num_threads);
  for (const std::string& warning : report.warnings) SPDLOG_WARN("{}", warning);
  SPDLOG_INFO("read in {:.2f} s, evaluated in {:.2f} s", report.read_seconds, report.evaluate_seconds);
  show(report.summary, report.json, flags.json);
}

// A line that is drawn over itself on a terminal, elsewhere one line for every tenth.
class Progress {
 public:
  void operator()(int64_t done, int64_t total) {
    const double rate = static_cast<double>(done) / std::max(seconds_since(start_), 1e-9);
    const std::string line = fmt::format("{}/{} images, {:.1f} images/s, {:.0f} s left", done, total, rate,
                                         static_cast<double>(total - done) / rate);
    if (isatty(STDERR_FILENO)) {
      std::fputs(fmt::format("\r{}\033[K{}", line, done >= total ? "\n" : "").c_str(), stderr);
    } else if (done >= next_) {
      SPDLOG_INFO("{}", line);
      next_ = done + std::max<int64_t>(1, total / 10);
    }
  }

 private:
  Clock::time_point start_ = Clock::now();
  int64_t next_ = 1;
};

// A checkpoint_dir as the user means it, its config, and where results go.
class Evaluation {
 public:
  explicit Evaluation(const Flags& flags) : flags_(flags) {
    checkpoints_ = !flags.checkpoint_dir.empty() ? flags.checkpoint_dir : flags.model_dir;
    if (checkpoints_.empty() && !flags.checkpoint.empty())
      checkpoints_ = fs::path(osprey::checkpoint::resolve(flags.checkpoint)).parent_path();
    if (checkpoints_.empty() && flags.checkpoint.empty())
      throw osprey::ConfigError(
          "--checkpoint_dir (or --model_dir, or --checkpoint) is needed; or --ground_truth with --detections (see "
          "--help)");
    output_ = !flags.model_dir.empty() ? fs::path(flags.model_dir) : checkpoints_;
    output_ /= in_tiles() ? fmt::format("eval_tiles_{}_{:g}", flags.tiles.side_px, flags.tiles.overlap) : "eval";
    const std::string config = !flags.config.pipeline_config.empty() ? flags.config.pipeline_config
                                                                     : (checkpoints_ / "pipeline.config").string();
    if (flags.config.pipeline_config.empty() && !fs::exists(config))
      throw osprey::DataError(fmt::format(
          "{}: no training is there, for it has no pipeline.config; --pipeline_config names one that lies elsewhere",
          checkpoints_.string()));
    pipeline_ = osprey::config::load_pipeline(config, flags.config.overrides);
    osprey::data::derive_classes(pipeline_);
    osprey::config::check(pipeline_, osprey::config::Purpose::kEvaluate);
    osprey::config::require_configured_paths(pipeline_, {"eval_input_reader"});
    if (flags.sample_1_of_n > 0)
      for (auto& reader : *pipeline_.message->mutable_eval_input_reader())
        reader.set_sample_1_of_n_examples(static_cast<uint32_t>(flags.sample_1_of_n));
    if (flags.gallery) pipeline_.message->mutable_eval_config()->set_gallery_images(*flags.gallery);
    if (pipeline_.message->eval_input_reader_size() > 1)
      SPDLOG_INFO("the config has {} eval_input_reader; number {} is evaluated (--eval_reader)",
                  pipeline_.message->eval_input_reader_size(), flags.reader);
    const c10::Device device = osprey::kernels::named_device(flags.device);
    osprey::eval::CheckpointEvaluatorOptions options{
        .reader = flags.reader, .skip_bad = flags.skip_bad, .device = device};
    if (in_tiles()) options.tiles = flags.tiles;
    evaluator_.emplace(pipeline_.root(), options);
    evaluator_->options().metrics.num_threads = flags.num_threads;
  }

  void run() {
    if (flags_.watch) {
      watch();
    } else if (flags_.several) {
      for (const Entry& entry : osprey::checkpoint::list_between(checkpoints_, flags_.first_step, flags_.last_step))
        evaluate(entry.file);
    } else {
      evaluate(osprey::checkpoint::resolve(!flags_.checkpoint.empty() ? fs::path(flags_.checkpoint) : checkpoints_));
    }
    std::string json = all_json_.empty() ? "" : all_json_.front();
    if (flags_.several) {  // a list, one entry per checkpoint
      json = "[\n";
      for (size_t i = 0; i < all_json_.size(); ++i) json += (i > 0 ? ",\n" : "") + all_json_[i];
      json += "]\n";
    }
    if (!flags_.watch) show(text_, json, flags_.json);
    if (!unwritten_.empty()) throw osprey::DataError("the results could not be written: " + unwritten_);
  }

 private:
  bool in_tiles() const { return flags_.tiles.side_px > 0; }

  void evaluate(const fs::path& file) {
    const auto start = Clock::now();
    int64_t step = 0;
    evaluator_->options().progress = Progress();
    const osprey::eval::EvaluationResult result = evaluator_->evaluate(file, step);
    if (result.num_images == 0)
      throw osprey::DataError(
          fmt::format("{}: no image was evaluated; {} records were skipped since they cannot be used", file.string(),
                      result.num_skipped));
    bool written = true;
    try {
      if (!events_) events_.emplace(output_.string());
      osprey::eval::write_evaluation(result, output_.string(), step, evaluator_->options(), &*events_);
    } catch (const osprey::DataError& error) {  // what was measured is shown all the same
      written = false;
      unwritten_ = error.what();
      if (flags_.watch) SPDLOG_WARN("the results could not be written: {}", unwritten_);
    }
    SPDLOG_INFO("{}: {} images in {:.1f} s{}; {} {}", file.string(), result.num_images, seconds_since(start),
                result.num_skipped > 0 ? fmt::format(", {} records skipped", result.num_skipped) : "",
                written ? "results in" : "results cannot be written to", output_.string());
    const std::string heading = flags_.several || flags_.watch ? fmt::format("step {}\n", step) : "";
    const std::string json = osprey::eval::metrics_json(result, step);
    if (flags_.watch) {
      show(heading + osprey::eval::text_report(result), json, flags_.json);
    } else {
      text_ += heading + osprey::eval::text_report(result);
      all_json_.push_back(json);
    }
    last_step_ = step;
  }

  // Steps of the training that is watched, as it said itself when it began (or went on); those of the config where it
  // has not begun.
  int64_t planned_steps() const {
    std::ifstream info(checkpoints_ / "run_info.json");
    const nlohmann::json run = nlohmann::json::parse(info, nullptr, /*allow_exceptions=*/false);
    if (const int64_t stopped = osprey::integer_of(run, "stopped_early_at"); stopped > 0) return stopped;
    const int64_t said = osprey::integer_of(run, "num_steps"),
                  steps = said > 0 ? said : static_cast<int64_t>(pipeline_.message->train_config().num_steps());
    return steps > 0 ? steps : std::numeric_limits<int64_t>::max();
  }

  // Evaluates each new checkpoint, the newest when several have come; ends at the training's last step, or when none
  // came for eval_timeout seconds.
  void watch() {
    auto waiting_since = Clock::now();
    SPDLOG_INFO("watching {} for checkpoints", checkpoints_.string());
    while (last_step_ < planned_steps()) {
      const std::optional<Entry> newest = osprey::checkpoint::latest(checkpoints_);
      if (newest && newest->step > last_step_) {
        evaluate(newest->file);
        waiting_since = Clock::now();
      } else if (seconds_since(waiting_since) > flags_.eval_timeout) {
        SPDLOG_INFO("no new checkpoint in {} for {} s", checkpoints_.string(), flags_.eval_timeout);
        return;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
    }
  }

  const Flags& flags_;
  fs::path checkpoints_, output_;
  osprey::config::Pipeline pipeline_;
  std::optional<osprey::eval::CheckpointEvaluator> evaluator_;
  std::optional<osprey::eval::EventWriter> events_;
  std::string text_, unwritten_;  // the second: why the results of some checkpoint are not in the folder
  std::vector<std::string> all_json_;
  int64_t last_step_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures a detector: COCO's twelve numbers and a table per class on stdout, the same and the detections as "
      "JSON,\n"
      "TensorBoard events and side-by-side pictures in the model directory; with --gallery a page of the worst "
      "images."};
  Flags flags;
  osprey::cli::add_config_flags(app, flags.config, /*required=*/false);
  app.get_option("--pipeline_config")
      ->description("The pipeline.config; default: the one saved in the checkpoint's directory");
  app.add_option("--checkpoint_dir", flags.checkpoint_dir, "Where the checkpoints are; the newest is evaluated")
      ->group("Checkpoints");
  app.add_option("--model_dir", flags.model_dir,
                 "Where eval/ with the results is put; also where the checkpoints are, without --checkpoint_dir")
      ->group("Checkpoints");
  auto* one = app.add_option("--checkpoint", flags.checkpoint, "Evaluates this checkpoint")->group("Checkpoints");
  auto* all = app.add_flag("--all", flags.several, "Evaluates every checkpoint in the directory")
                  ->group("Checkpoints")
                  ->excludes(one);
  auto* first =
      app.add_option("--first_step", flags.first_step, "Evaluates every checkpoint in the directory from this step on")
          ->check(osprey::cli::at_least(0))
          ->group("Checkpoints")
          ->excludes(one)
          ->excludes(all);
  auto* last = app.add_option("--last_step", flags.last_step, "... up to this step; both ends belong to the range")
                   ->check(osprey::cli::at_least(0))
                   ->group("Checkpoints")
                   ->excludes(one)
                   ->excludes(all);
  app.add_flag("--watch", flags.watch, "Evaluates each new checkpoint until the last step of the training")
      ->group("Checkpoints")
      ->excludes(one)
      ->excludes(all)
      ->excludes(first)
      ->excludes(last);
  app.add_option("--eval_timeout", flags.eval_timeout,
                 "With --watch: ends after so many seconds without a new checkpoint")
      ->capture_default_str()
      ->check(osprey::cli::at_least(0))
      ->group("Checkpoints");
  app.add_option("--sample_1_of_n_eval_examples", flags.sample_1_of_n, "Evaluates every n-th example only")
      ->check(osprey::cli::at_least(1))
      ->group("Data");
  app.add_option("--eval_reader", flags.reader, "Which eval_input_reader, from 0")
      ->capture_default_str()
      ->check(osprey::cli::at_least(0))
      ->group("Data");
  app.add_flag("--skip_bad_records", flags.skip_bad,
               "Leaves out, and counts, records that cannot be used; otherwise they end the program")
      ->group("Data");
  auto* tile_size =
      app.add_option("--tile_size", flags.tiles.side_px,
                     "Looks at squares of so many pixels of each picture, and at the whole, as detect does with this "
                     "flag; results go to eval_tiles_<size>_<overlap>/")
          ->check(osprey::cli::at_least(1))
          ->group("Data");
  app.add_option("--tile_overlap", flags.tiles.overlap, "Share of a square that its neighbour sees, too")
      ->check(osprey::cli::within(0, 0.9))
      ->capture_default_str()
      ->needs(tile_size)
      ->group("Data");
  osprey::cli::add_device_flag(app, flags.device)->group("Run");
  app.add_option("--num_threads", flags.num_threads, "Threads of the metrics; 0: one per core")
      ->check(osprey::cli::at_least(0))
      ->group("Run");
  auto* json = app.add_option("--json", flags.json,
                              "Also writes the numbers as JSON to this file; without one prints them instead of the "
                              "text")
                   ->expected(0, 1)
                   ->group("Output");
  auto* gallery = app.add_option("--gallery", flags.gallery,
                                 "Shows this many of the worst images, and as many of the best, in "
                                 "eval/gallery_<step>/index.html; default: eval_config.gallery_images")
                      ->check(osprey::cli::at_least(0))
                      ->group("Output");
  auto* truth = app.add_option("--ground_truth", flags.ground_truth, "COCO annotations (JSON); with --detections")
                    ->group("Plain COCO evaluation");
  auto* found = app.add_option("--detections", flags.detections, "COCO results (JSON)")->group("Plain COCO evaluation");
  truth->needs(found);
  found->needs(truth);
  for (auto* of_checkpoints : {first, last, gallery, tile_size}) truth->excludes(of_checkpoints);
  osprey::cli::accept_logging_flags(app);
  return osprey::cli::run(app, "eval_detector --model_dir runs/bccd --json metrics.json", argc, argv, [&] {
    if (json->count() > 0 && flags.json.empty()) flags.json = kStdout;
    if (!flags.json.empty() && flags.json != kStdout) osprey::cli::check_writable(flags.json);
    if (first->count() + last->count() > 0) flags.several = true;
    if (flags.first_step > flags.last_step)
      throw osprey::ConfigError(
          fmt::format("--first_step {} lies behind --last_step {}", flags.first_step, flags.last_step));
    if (!flags.ground_truth.empty())
      evaluate_files(flags);
    else
      Evaluation(flags).run();
  });
}
