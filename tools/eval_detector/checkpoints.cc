#include "eval_detector/checkpoints.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "eval_detector/output.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/config/pipeline.h"
#include "osprey/config/validate.h"
#include "osprey/data/reader_classes.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/eval/event_writer.h"
#include "osprey/eval/reader_folder.h"
#include "osprey/eval/report.h"
#include "osprey/export/detector.h"
#include "osprey/kernels/named_device.h"

namespace osprey::tools {
namespace {

namespace fs = std::filesystem;
using checkpoint::Entry;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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

// A checkpoint_dir, or an exported model, as the user means it, its config, and where results go.
class Evaluation {
 public:
  explicit Evaluation(const EvalFlags& flags) : flags_(flags) {
    folder_ = !flags.checkpoint_dir.empty() ? flags.checkpoint_dir : flags.model_dir;
    if (!flags.exported.empty()) folder_ = flags.exported;
    if (folder_.empty() && !flags.checkpoint.empty())
      folder_ = fs::path(checkpoint::resolve(flags.checkpoint)).parent_path();
    if (folder_.empty() && flags.checkpoint.empty())
      throw ConfigError(
          "--checkpoint_dir (or --model_dir, or --checkpoint), or --exported, is needed; or --ground_truth with "
          "--detections (see --help)");
    output_ = !flags.model_dir.empty() ? fs::path(flags.model_dir) : folder_;
    output_ /= in_tiles() ? fmt::format("eval_tiles_{}_{:g}", flags.tiles.side_px, flags.tiles.overlap) : "eval";
    const std::string config =
        !flags.config.pipeline_config.empty() ? flags.config.pipeline_config : (folder_ / "pipeline.config").string();
    if (flags.config.pipeline_config.empty() && !fs::exists(config))
      throw DataError(fmt::format(
          "{}: no {} is there, for it has no pipeline.config; --pipeline_config names one that lies elsewhere",
          folder_.string(), flags.exported.empty() ? "training" : "exported model"));
    pipeline_ = config::load_pipeline(config, flags.config.overrides);
    if (!flags.exported.empty()) name_classes_by((folder_ / "label_map.pbtxt").string());
    data::derive_classes(pipeline_);
    config::check(pipeline_);
    config::require_configured_paths(pipeline_, {"eval_input_reader"});
    if (flags.sample_1_of_n > 0)
      for (auto& reader : *pipeline_.message->mutable_eval_input_reader())
        reader.set_sample_1_of_n_examples(static_cast<uint32_t>(flags.sample_1_of_n));
    if (flags.gallery) pipeline_.message->mutable_eval_config()->set_gallery_images(*flags.gallery);
    const c10::Device device = kernels::named_device(flags.device);
    eval::CheckpointEvaluatorOptions options{.reader = flags.reader, .skip_bad = flags.skip_bad, .device = device};
    if (in_tiles()) options.tiles = flags.tiles;
    if (!flags.exported.empty()) {
      exported_.emplace(flags.exported, device.str());
      options.find = [this](const std::vector<at::Tensor>& pictures) { return exported_->detect(pictures); };
    }
    evaluator_.emplace(pipeline_.root(), options);
    output_ = eval::reader_folder(pipeline_.root(), flags.reader, output_);
    if (pipeline_.message->eval_input_reader_size() > 1)
      SPDLOG_INFO("the config has {} eval_input_reader; {} is evaluated (--eval_reader)",
                  pipeline_.message->eval_input_reader_size(), eval::reader_text(*pipeline_.message, flags.reader));
    evaluator_->options().metrics.num_threads = flags.num_threads;
  }

  void run() {
    if (flags_.watch) {
      watch();
    } else if (flags_.several) {
      for (const Entry& entry : checkpoint::list_between(folder_, flags_.first_step, flags_.last_step))
        evaluate_one_of_several(entry);
    } else if (exported_) {
      measure(flags_.exported, [&](int64_t& step) {
        step = exported_->step();
        return evaluator_->evaluate_found(fs::path(flags_.exported) / "model.pt");
      });
    } else {
      evaluate(checkpoint::resolve(!flags_.checkpoint.empty() ? fs::path(flags_.checkpoint) : folder_));
    }
    std::string json = all_json_.empty() ? "" : all_json_.front();
    if (flags_.several) {  // a list, one entry per checkpoint
      json = "[\n";
      for (size_t i = 0; i < all_json_.size(); ++i) json += (i > 0 ? ",\n" : "") + all_json_[i];
      json += "]\n";
    }
    if (!all_json_.empty()) show(text_, json, flags_.json);
    if (num_unread_ > 0)
      throw CheckpointError(fmt::format("{} checkpoint{} not evaluated; the last error: {}", num_unread_,
                                        num_unread_ == 1 ? " was" : "s were", unread_));
    if (!unwritten_.empty()) throw DataError("the results could not be written: " + unwritten_);
  }

 private:
  // Where a label map of the config is not here, the exported model's is taken: paths are relative to where a training
  // ran.
  void name_classes_by(const std::string& copy) {
    std::error_code unreadable;
    for (proto::InputReader& reader : *pipeline_.message->mutable_eval_input_reader())
      if (!reader.has_label_map() && !fs::is_regular_file(reader.label_map_path(), unreadable) &&
          fs::is_regular_file(copy, unreadable))
        reader.set_label_map_path(copy);
  }

  bool in_tiles() const { return flags_.tiles.side_px > 0; }

  // One that is damaged, or that a training has removed meanwhile, does not keep the others from being evaluated.
  void evaluate_one_of_several(const Entry& entry) {
    try {
      evaluate(entry.file);
    } catch (const CheckpointError& error) {
      if (error.exit_code() != ExitCode::kData) throw;  // another model: no fault of the file
      SPDLOG_WARN("{}; it is not evaluated", error.what());
      const bool was_overtaken = flags_.watch && !fs::exists(entry.file);
      if (!was_overtaken) {
        unread_ = error.what();
        ++num_unread_;
      }
    }
    last_step_ = entry.step;
  }

  void evaluate(const fs::path& file) {
    measure(file, [&](int64_t& step) { return evaluator_->evaluate(file, step); });
  }

  // Evaluates a model, and writes and shows what was found.
  // evaluate  gives the result and the step of the checkpoint it is of
  template <class Evaluate>
  void measure(const fs::path& file, Evaluate evaluate) {
    const auto start = Clock::now();
    int64_t step = 0;
    evaluator_->options().progress = Progress();
    const eval::EvaluationResult result = evaluate(step);
    if (result.num_images == 0)
      throw DataError(fmt::format("{}: no image was evaluated; {} records were skipped since they cannot be used",
                                  file.string(), result.num_skipped));
    bool written = true;
    try {
      if (!events_) events_.emplace(output_.string());
      eval::write_evaluation(result, output_.string(), step, evaluator_->options(), &*events_);
    } catch (const DataError& error) {  // what was measured is shown all the same
      written = false;
      unwritten_ = error.what();
      if (flags_.watch) SPDLOG_WARN("the results could not be written: {}", unwritten_);
    }
    SPDLOG_INFO("{}: {} images in {:.1f} s{}; {} {}", file.string(), result.num_images, seconds_since(start),
                result.num_skipped > 0 ? fmt::format(", {} records skipped", result.num_skipped) : "",
                written ? "results in" : "results cannot be written to", output_.string());
    const std::string heading = flags_.several || flags_.watch ? fmt::format("step {}\n", step) : "";
    const std::string json = eval::metrics_json(result, step);
    if (flags_.watch) {
      show(heading + eval::text_report(result), json, flags_.json);
    } else {
      text_ += heading + eval::text_report(result);
      all_json_.push_back(json);
    }
  }

  // Steps of the training that is watched, as it said itself when it began (or went on); those of the config where it
  // has not begun.
  int64_t planned_steps() const {
    std::ifstream info(folder_ / "run_info.json");
    const nlohmann::json run = nlohmann::json::parse(info, nullptr, /*allow_exceptions=*/false);
    if (const int64_t stopped = integer_of(run, "stopped_early_at"); stopped > 0) return stopped;
    const int64_t said = integer_of(run, "num_steps"),
                  steps = said > 0 ? said : static_cast<int64_t>(pipeline_.message->train_config().num_steps());
    return steps > 0 ? steps : std::numeric_limits<int64_t>::max();
  }

  // Evaluates each new checkpoint, the newest when several have come; ends at the training's last step, or when none
  // came for eval_timeout seconds.
  void watch() {
    auto waiting_since = Clock::now();
    SPDLOG_INFO("watching {} for checkpoints", folder_.string());
    while (last_step_ < planned_steps()) {
      const std::optional<Entry> newest = checkpoint::latest(folder_);
      if (newest && newest->step > last_step_) {
        evaluate_one_of_several(*newest);
        waiting_since = Clock::now();
      } else if (seconds_since(waiting_since) > flags_.eval_timeout) {
        SPDLOG_INFO("no new checkpoint in {} for {} s", folder_.string(), flags_.eval_timeout);
        return;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
    }
  }

  const EvalFlags& flags_;
  fs::path folder_, output_;  // of the checkpoints, or the exported model; and of results
  config::Pipeline pipeline_;
  std::optional<Detector> exported_;
  std::optional<eval::CheckpointEvaluator> evaluator_;
  std::optional<eval::EventWriter> events_;
  std::string text_, unwritten_;  // the second: why the results of some checkpoint are not in the folder
  std::string unread_;            // why some checkpoint was not evaluated
  int num_unread_ = 0;
  std::vector<std::string> all_json_;
  int64_t last_step_ = -1;  // of the last checkpoint of several
};

}  // namespace

void evaluate_checkpoints(const EvalFlags& flags) { Evaluation(flags).run(); }

}  // namespace osprey::tools
