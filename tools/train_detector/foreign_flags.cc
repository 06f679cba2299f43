#include "train_detector/foreign_flags.h"

#include <spdlog/spdlog.h>

namespace osprey::tools {
namespace {

/// Adds the flags of another trainer to a group of the help.
class ForeignFlags {
 public:
  ForeignFlags(CLI::App& app, std::string group) : app_(app), group_(std::move(group)) {}

  template <class Value>
  CLI::Option* obeyed(const std::string& name, Value& value, const std::string& text) {
    return app_.add_option(name, value, text)->group(group_);
  }
  /// One that stands for a field of the config.
  void field(const std::string& name, const std::string& field, std::vector<std::string>& assignments) {
    app_.add_option_function<std::string>(
            name, [field, &assignments](const std::string& value) { assignments.push_back(field + "=" + value); },
            field)
        ->group(group_);
  }
  void idle(const std::string& name, const std::string& why = "") {
    app_.add_option_function<std::string>(
            name, [name](const std::string&) { SPDLOG_INFO("{} changes nothing here", name); },
            "Changes nothing" + (why.empty() ? "" : ": " + why))
        ->expected(0, 1)
        ->default_str("true")
        ->group(group_);
  }
  /// One that could not be obeyed, with what does it here; `harmless` is the value that asks for nothing.
  void refused(const std::string& name, const std::string& why, const std::string& harmless = "") {
    const auto refuse = [name, why, harmless](const std::string& value) {
      const std::string said = CLI::detail::to_lower(value);
      const bool is_no = said == "false" || said == "f" || said == "0" || said == "n" || said == "no";
      if (harmless.empty() ? !is_no : said != harmless) throw CLI::ValidationError(name, why);
    };
    app_.add_option_function<std::string>(name, refuse, "Is refused: " + why)
        ->expected(0, 1)
        ->default_str("true")
        ->group(group_);
  }

 private:
  CLI::App& app_;
  std::string group_;
};

void add_flags_of_the_original(CLI::App& app, TrainFlags& flags) {
  ForeignFlags of(app, "As in the TF Object Detection API");
  of.obeyed("--sample_1_of_n_eval_examples", flags.sample_1_of_n,
            "Evaluates every n-th example only (eval_input_reader[i].sample_1_of_n_examples)")
      ->check(cli::at_least(1));
  of.idle("--record_summaries");
  of.idle("--run_once");
  of.refused("--checkpoint_dir", "eval_detector evaluates the checkpoints of a folder");
  of.refused("--eval_timeout", "eval_detector --watch waits for checkpoints");
  of.refused("--use_tpu", "there are no TPUs here; --device names a GPU or the CPU");
  of.refused("--tpu_name", "there are no TPUs here; --device names a GPU or the CPU");
  of.refused("--num_workers", "--num_clones and --worker_replicas say how many processes train together", "1");
  of.refused("--eval_on_train_data", "eval_input_reader may name the training records");
}

/// "a.b=1,c=[1, 2]" as assignments: commas within brackets, braces and quotes are of a value. A quote is one where a
/// value begins.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = 0, before = 0;
  for (const char c : list) {
    if (quote != 0)
      quote = c == quote ? 0 : quote;
    else if ((c == '\'' || c == '"') && std::string("=[{,: ").find(before) != std::string::npos)
      quote = c;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    before = c;
    if (c == ',' && depth == 0 && quote == 0)
      parts.emplace_back();
    else if (c != ' ' || !parts.back().empty())
      parts.back() += c;
  }
  if (depth != 0 || quote != 0) throw CLI::ValidationError("--hparams", list + ": a quote or bracket is not closed");
  std::erase(parts, "");
  return parts;
}

void add_flags_of_efficientdet(CLI::App& app, TrainFlags& flags) {
  const std::string group = "As in NVIDIA's EfficientDet";
  ForeignFlags of(app, group);
  of.obeyed("--batch_size", flags.images_per_replica, "Images of each process per step")
      ->check(cli::at_least(1))
      ->excludes("--train_batch_size");
  of.obeyed("--num_epochs", flags.num_epochs, "Length of the run in passes over the data (train_config.num_epochs)")
      ->check(CLI::PositiveNumber)
      ->excludes("--num_train_steps");
  of.obeyed("--num_examples_per_epoch", flags.examples_per_epoch, "For --checkpoint_period and --warmup_epochs")
      ->check(cli::at_least(1));
  constexpr double kMostEpochs = 1e5;
  of.obeyed("--checkpoint_period", flags.checkpoint_period, "Passes over --num_examples_per_epoch between checkpoints")
      ->check(CLI::PositiveNumber & CLI::Range(kMostEpochs))
      ->needs("--num_examples_per_epoch")
      ->excludes("--checkpoint_every_n");
  of.obeyed("--lr", flags.schedule.rate, "The schedule's learning rate, before auto_scale_lr")
      ->check(CLI::PositiveNumber);
  of.obeyed("--warmup_epochs", flags.schedule.warmup_epochs, "Passes over --num_examples_per_epoch to warm up in")
      ->check(CLI::Range(kMostEpochs))
      ->needs("--num_examples_per_epoch");
  of.obeyed("--warmup_value", flags.schedule.warmup_rate, "The learning rate that warming up begins with")
      ->check(CLI::NonNegativeNumber);
  app.add_option_function<std::vector<std::string>>(
         "--hparams",
         [&flags](const std::vector<std::string>& lists) {
           for (const std::string& list : lists)
             for (const std::string& part : split(list)) flags.of_fields.push_back(part);
         },
         "Several fields at once: a.b=1,c.d=2; wins over --set; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  of.field("--seed", "train_config.seed", flags.of_fields);
  of.field("--pretrained_ckpt", "train_config.fine_tune_checkpoint", flags.of_fields);
  of.field("--training_file_pattern", "train_input_reader.tf_record_input_reader.input_path", flags.of_fields);
  of.field("--val_file_pattern", "eval_input_reader[0].tf_record_input_reader.input_path", flags.of_fields);
  app.add_option_function<std::string>(
         "--backbone_init",
         [&flags](const std::string& checkpoint) {
           flags.of_fields.push_back("train_config.fine_tune_checkpoint=" + checkpoint);
           flags.of_fields.emplace_back("train_config.fine_tune_checkpoint_type=classification");
         },
         "A classifier's checkpoint: train_config.fine_tune_checkpoint, its type classification")
      ->excludes("--pretrained_ckpt")
      ->group(group);
  of.obeyed("--set_num_threads", flags.threads, "Threads of each process; as OMP_NUM_THREADS in the environment")
      ->check(cli::at_least(1));
  app.add_flag(
         "--benchmark",
         [&flags](int64_t times) {
           constexpr int64_t kSteps = 500;
           if (times > 0 && flags.benchmark_steps == 0) flags.benchmark_steps = kSteps;
         },
         "--benchmark_steps 500, unless they are given")
      ->excludes("--dry_run", "--find_learning_rate")
      ->group(group);
  app.add_flag_callback(
         "--helpshort", [] { throw CLI::CallForHelp(); }, "As --help")
      ->group(group);
  of.idle("--use_xla");
  of.idle("--enable_map_parallelization", "pictures are decoded by all cores in any case");
  of.idle("--time_history", "the log, metrics.jsonl and evaluations.jsonl have the times");
  of.idle("--lr_tb", "TensorBoard has the learning rate in any case");
  of.idle("--validate",
          "a run is evaluated where the config has an eval_input_reader, --set eval_input_reader= is without");
  of.refused("--model_name", "the config says it: feature_extractor.type of its model");
  of.refused(
      "--training_mode",
      "eval_config.eval_from_epoch and eval_every_n_epochs say when a run is evaluated, --set eval_input_reader= "
      "that it is not",
      "traineval");
  of.refused("--eval_samples", "--sample_1_of_n_eval_examples evaluates fewer examples");
  of.refused("--val_json_file", "eval_input_reader { annotation_input_reader } reads COCO's annotations");
  of.refused("--testdev_dir", "detect --json writes the detections of a folder of pictures");
  of.refused("--log_filename", "<model_dir>/metrics.jsonl has the numbers of the log");
  of.refused("--debug", "a run is the same with and without; nan_report/ says what was not finite");
}

}  // namespace

void add_foreign_flags(CLI::App& app, TrainFlags& flags) {
  add_flags_of_the_original(app, flags);
  add_flags_of_efficientdet(app, flags);
}

}  // namespace osprey::tools
