// Trains a detector as its pipeline config says.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "cli/cli.h"
#include "osprey/base/error.h"
#include "osprey/base/logging.h"
#include "osprey/config/effective.h"
#include "osprey/config/pipeline.h"
#include "osprey/config/validate.h"
#include "osprey/train/job.h"
#include "osprey/train/launcher.h"
#include "osprey/train/rate_search.h"
#include "osprey/train/replicas.h"

namespace {

struct Flags {
  osprey::cli::ConfigFlags config;
  osprey::train::JobOptions job;
  std::string precision;
  std::optional<bool> amp, tf32;
  std::optional<int64_t> num_train_steps, batch_size, checkpoint_every_n, log_every_n, eval_every_n, resnet_depth;
  int64_t benchmark_steps = 0, search_steps = 0;
  std::string trace;
  osprey::train::LaunchOptions launch;
  std::string master, worker_job_name;
  int64_t ps_tasks = 0;
  double replica_timeout = 300;
  bool dry_run = false, print_config = false, clone_on_cpu = false;
  std::optional<int64_t> sample_1_of_n;
};

/// Flags that the original's trainers take: some are obeyed, some have nothing to do here, and the rest say what does
/// it.
void add_flags_of_the_original(CLI::App& app, Flags& flags) {
  const std::string group = "Compatibility";
  app.add_option("--sample_1_of_n_eval_examples", flags.sample_1_of_n,
                 "Evaluates every n-th example only (eval_input_reader[i].sample_1_of_n_examples)")
      ->check(osprey::cli::at_least(1))
      ->group(group);
  for (const char* name : {"--record_summaries", "--run_once"})
    app.add_flag_callback(
           name, [name] { SPDLOG_INFO("{} changes nothing here", name); }, "Changes nothing")
        ->group(group);
  const auto refused = [&](const std::string& name, const std::string& why, const std::string& harmless = "false") {
    const auto refuse = [name, why, harmless](const std::string& value) {
      const std::string said = CLI::detail::to_lower(value);
      const bool is_no = said == harmless || said == "f" || said == "0" || said == "n" || said == "no";
      if (!is_no) throw CLI::ValidationError(name, why);
    };
    app.add_option_function<std::string>(name, refuse, "Is refused: " + why)
        ->expected(0, 1)
        ->default_str("true")
        ->group(group);
  };
  refused("--checkpoint_dir", "eval_detector evaluates the checkpoints of a folder");
  refused("--eval_timeout", "eval_detector --watch waits for checkpoints");
  refused("--use_tpu", "there are no TPUs here; --device names a GPU or the CPU");
  refused("--tpu_name", "there are no TPUs here; --device names a GPU or the CPU");
  refused("--num_workers", "--num_clones and --worker_replicas say how many processes train together", "1");
  refused("--eval_on_train_data", "eval_input_reader may name the training records");
}

void add_flags(CLI::App& app, Flags& flags) {
  osprey::cli::add_config_flags(app, flags.config);
  app.add_option("--model_dir,--train_dir", flags.job.model_dir,
                 "Where checkpoints and logs go; a run that lies there is resumed")
      ->group("Run");
  app.add_option("--num_train_steps,--train_steps", flags.num_train_steps,
                 "Steps of the whole run, a total (train_config.num_steps)")
      ->check(osprey::cli::at_least(0))
      ->group("Run");
  app.add_option("--train_batch_size", flags.batch_size, "Images per step (train_config.batch_size)")
      ->check(osprey::cli::at_least(1))
      ->group("Run");
  app.add_option("--checkpoint_every_n", flags.checkpoint_every_n,
                 "Steps between checkpoints (train_config.checkpoint.every_n_steps)")
      ->check(osprey::cli::at_least(0))
      ->group("Run");
  app.add_option("--log_every_n", flags.log_every_n, "Steps between log lines (train_config.log_every_n_steps)")
      ->check(osprey::cli::at_least(1))
      ->group("Run");
  app.add_option("--eval_every_n", flags.eval_every_n,
                 "Steps between evaluations; 0: at every checkpoint (eval_config.eval_every_n_steps)")
      ->check(osprey::cli::at_least(0))
      ->group("Run");
  app.add_option("--resnet_depth,--resnet_size", flags.resnet_depth,
                 "Layers of the config's ResNet (model.ssd.feature_extractor.type): 18, 34, 50, 101, 152 or 200")
      ->check(CLI::IsMember({18, 34, 50, 101, 152, 200}))
      ->group("Run");
  osprey::cli::add_device_flag(app, flags.job.device)->group("Hardware");
  app.add_option("--precision", flags.precision, "auto, fp32, tf32, bf16 or fp16 (train_config.precision)")
      ->check(CLI::IsMember({"auto", "fp32", "tf32", "bf16", "fp16"}, CLI::ignore_case))
      ->group("Hardware");
  app.add_option("--tf32", flags.tf32,
                 "Bare or true: --precision tf32, which GPUs have unless told otherwise; false: fp32")
      ->expected(0, 1)
      ->default_str("true")
      ->excludes("--precision")
      ->group("Hardware");
  app.add_option("--amp", flags.amp,
                 "Bare or true: --precision fp16, with a loss scale that adapts itself; false: fp32")
      ->expected(0, 1)
      ->default_str("true")
      ->excludes("--precision", "--tf32")
      ->group("Hardware");
  app.add_option("--num_clones", flags.launch.clones,
                 "Processes on this machine that train together, each on its share of every batch")
      ->check(osprey::cli::at_least(1))
      ->capture_default_str()
      ->group("Replicas");
  app.add_option("--worker_replicas", flags.launch.machines, "Machines that train together, each with --num_clones")
      ->check(osprey::cli::at_least(1))
      ->capture_default_str()
      ->group("Replicas");
  app.add_option("--task", flags.launch.machine, "Which of these machines this is, from 0")
      ->check(osprey::cli::at_least(0))
      ->group("Replicas");
  app.add_option("--master", flags.master, "HOST:PORT of machine 0, where the replicas meet")->group("Replicas");
  app.add_option("--ps_tasks", flags.ps_tasks,
                 "Parameter servers: 0, since the replicas sum their gradients themselves")
      ->check([](const std::string& value) {
        return value == "0" ? ""
                            : value + ": there are no parameter servers, the replicas sum their gradients themselves";
      })
      ->group("Replicas");
  app.add_option("--worker_job_name", flags.worker_job_name, "Is ignored: replicas have no job names")
      ->group("Replicas");
  app.add_option("--max_restarts", flags.launch.max_restarts,
                 "How often the replicas are started again, from the last checkpoint, after one was lost")
      ->check(osprey::cli::at_least(0))
      ->group("Replicas");
  app.add_option("--replica_timeout", flags.replica_timeout,
                 "Seconds after which a replica without an answer counts as lost")
      ->check(osprey::cli::at_least(1))
      ->capture_default_str()
      ->group("Replicas");
  app.add_flag("--clone_on_cpu", flags.clone_on_cpu, "Puts the copies on the CPU: --device cpu")
      ->excludes("--device")
      ->group("Hardware");
  app.add_option("--benchmark_steps", flags.benchmark_steps,
                 "Times so many steps, prints one JSON line, writes nothing but a --trace")
      ->check(osprey::cli::at_least(1))
      ->group("Trying out");
  app.add_option("--trace", flags.trace,
                 "Writes what the CPU and GPUs do in five more steps into this file, for chrome://tracing or "
                 "ui.perfetto.dev")
      ->needs("--benchmark_steps")
      ->group("Trying out");
  app.add_flag("--dry_run", flags.dry_run, "Builds everything, makes one step, reports memory and data, writes nothing")
      ->excludes("--benchmark_steps")
      ->group("Trying out");
  app.add_option(
         "--find_learning_rate", flags.search_steps,
         "Makes so many steps (200 where none are named) at rates that rise from 1e-6 to 10, says where the loss "
         "falls fastest and where it is lowest, prints one JSON line, writes nothing")
      ->expected(0, 1)
      ->default_str("200")
      ->check(osprey::cli::at_least(20))
      ->excludes("--benchmark_steps", "--dry_run")
      ->group("Trying out");
  app.add_flag("--use_fake_data", flags.job.use_fake_data, "Made-up pictures instead of the train_input_reader")
      ->group("Trying out");
  app.add_flag("--print_config", flags.print_config, "Prints the config after all overrides and ends")
      ->group("Trying out");
  add_flags_of_the_original(app, flags);
  osprey::cli::accept_logging_flags(app);
}

/// Flags that stand for a field are overrides like any other, so that the saved config says what was run.
std::vector<std::string> assignments(const Flags& flags) {
  std::vector<std::string> result = flags.config.overrides.assignments;
  const auto set = [&](const char* field, const std::optional<int64_t>& value) {
    if (value) result.push_back(fmt::format("{}={}", field, *value));
  };
  set("train_config.num_steps", flags.num_train_steps);
  if (flags.num_train_steps) result.push_back("train_config.num_epochs=");
  set("train_config.batch_size", flags.batch_size);
  set("train_config.checkpoint.every_n_steps", flags.checkpoint_every_n);
  set("train_config.log_every_n_steps", flags.log_every_n);
  set("eval_config.eval_every_n_steps", flags.eval_every_n);
  std::string precision = flags.precision;
  for (char& c : precision) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (flags.amp) precision = *flags.amp ? "FP16" : "FP32";
  if (flags.tf32) precision = *flags.tf32 ? "TF32" : "FP32";
  if (!precision.empty()) result.push_back("train_config.precision=" + precision);
  return result;
}

/// Flags of the launcher that nobody would obey.
void check_launch_flags(const Flags& flags, const std::optional<osprey::train::ReplicaPlace>& place) {
  const osprey::train::LaunchOptions& launch = flags.launch;
  const bool several = launch.clones * launch.machines > 1;
  const bool others = launch.machine > 0 || launch.max_restarts > 0 || !flags.master.empty();
  if (place && place->starter != "train_detector" && (several || others))
    throw osprey::ConfigError(fmt::format(
        "{} has started this process as one of {} replicas; --num_clones, --worker_replicas, --task, --master and "
        "--max_restarts are for replicas that train_detector starts itself",
        place->starter, place->size));
  if (!place && !several && others)
    throw osprey::ConfigError(
        "--task, --master and --max_restarts need several replicas: --num_clones or --worker_replicas");
}

/// Starts the replicas and watches over them.
int launch(Flags& flags, const osprey::config::Pipeline& pipeline) {
  osprey::train::LaunchOptions& options = flags.launch;
  osprey::train::check_shares(pipeline, options.clones * options.machines);
  if (!flags.master.empty()) {
    const size_t colon = flags.master.rfind(':');
    const char* const end = flags.master.data() + flags.master.size();
    int port = 0;
    const bool is_number =
        colon != std::string::npos && std::from_chars(flags.master.data() + colon + 1, end, port).ptr == end;
    if (!is_number || port < 1 || port > 65535)
      throw osprey::ConfigError(fmt::format("--master {}: must be HOST:PORT", flags.master));
    options.master_address = flags.master.substr(0, colon);
    options.master_port = port;
  }
  return osprey::train::launch_replicas(options);
}

/// Calls `body`; where the config is at fault on every replica, the first tells it and the others are ended before they
/// do.
template <class Body>
auto after_the_chief(const std::optional<osprey::train::ReplicaPlace>& place, Body body) {
  try {
    return body();
  } catch (const osprey::ConfigError&) {
    if (place && place->local_rank > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    throw;
  }
}

/// The override that gives a config's ResNet another depth: "ssd_resnet50_v1_fpn" becomes "ssd_resnet101_v1_fpn".
std::string depth_assignment(const osprey::config::Pipeline& pipeline, int64_t depth) {
  const std::string& type = pipeline.message->model().ssd().feature_extractor().type();
  std::smatch parts;
  if (!std::regex_match(type, parts, std::regex("(ssd_resnet)[0-9]+(_.*)")))
    throw osprey::ConfigError(fmt::format("--resnet_depth: the feature extractor is '{}', not a ResNet", type));
  return fmt::format("model.ssd.feature_extractor.type={}{}{}", parts[1].str(), depth, parts[2].str());
}

/// The config with all that the flags say.
osprey::config::Pipeline pipeline_of(const Flags& flags) {
  osprey::config::Overrides overrides = flags.config.overrides;
  overrides.assignments = assignments(flags);
  const std::string& file = flags.config.pipeline_config;
  osprey::config::Pipeline pipeline = osprey::config::load_pipeline(file, overrides);
  if (!flags.resnet_depth && !flags.sample_1_of_n) return pipeline;
  if (flags.resnet_depth) overrides.assignments.push_back(depth_assignment(pipeline, *flags.resnet_depth));
  if (flags.sample_1_of_n)
    for (int i = 0; i < pipeline.message->eval_input_reader_size(); ++i)
      overrides.assignments.push_back(
          fmt::format("eval_input_reader[{}].sample_1_of_n_examples={}", i, *flags.sample_1_of_n));
  return osprey::config::load_pipeline(file, overrides);
}

/// Says what --num_train_steps takes the place of.
void tell_dropped_epochs(const Flags& flags) {
  if (!flags.num_train_steps) return;
  const auto pipeline = osprey::config::load_pipeline(flags.config.pipeline_config, flags.config.overrides);
  if (pipeline.message->train_config().has_num_epochs())
    SPDLOG_INFO("--num_train_steps {} is obeyed, train_config.num_epochs {:g} is not", *flags.num_train_steps,
                pipeline.message->train_config().num_epochs());
}

int execute(Flags& flags) {
  if (flags.clone_on_cpu) flags.job.device = "cpu";
  osprey::config::Pipeline pipeline = pipeline_of(flags);
  osprey::config::check(pipeline, osprey::config::Purpose::kTrain);
  if (flags.print_config) {
    osprey::cli::print(osprey::config::annotated_text(pipeline));
    return static_cast<int>(osprey::ExitCode::kDone);
  }
  const auto place = osprey::train::place_from_environment(std::getenv);
  check_launch_flags(flags, place);
  if (!place && flags.launch.clones * flags.launch.machines > 1) return launch(flags, pipeline);
  std::unique_ptr<osprey::train::Replicas> replicas;
  if (place) {
    if (place->rank > 0) osprey::log_as_replica(place->rank);
    replicas = osprey::train::join_replicas(*place, flags.replica_timeout);
    flags.job.replicas = replicas.get();
  }
  tell_dropped_epochs(flags);
  const bool speaks = !place || place->rank == 0;
  if (flags.dry_run) {
    const std::string report = osprey::train::dry_run(std::move(pipeline), flags.job);
    if (speaks) osprey::cli::print(report);
  } else if (flags.search_steps > 0) {
    const std::string line = osprey::train::find_learning_rate(std::move(pipeline), flags.job, flags.search_steps);
    if (speaks) osprey::cli::print(line + "\n");
  } else if (flags.benchmark_steps > 0) {
    const std::string line =
        osprey::train::benchmark(std::move(pipeline), flags.job, flags.benchmark_steps, flags.trace);
    if (speaks) osprey::cli::print(line + "\n");
  } else {
    const osprey::train::RunOutcome outcome =
        after_the_chief(place, [&] { return osprey::train::train(std::move(pipeline), flags.job); });
    if (outcome.signal != 0) return 128 + outcome.signal;
  }
  return static_cast<int>(osprey::ExitCode::kDone);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Trains a detector as its pipeline config says: saves, evaluates and logs on the way, resumes what it finds."};
  Flags flags;
  add_flags(app, flags);
  flags.launch.arguments.assign(argv, argv + argc);
  for (int i = 0; i < argc; ++i) flags.job.command_line += (i == 0 ? "" : " ") + std::string(argv[i]);
  return osprey::cli::run_with_code(
      app, "train_detector --pipeline_config pipeline.config --model_dir run1 --num_train_steps 20000", argc, argv,
      [&] { return execute(flags); });
}
