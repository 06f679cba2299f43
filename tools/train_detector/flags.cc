#include "train_detector/flags.h"

#include "train_detector/foreign_flags.h"

namespace osprey::tools {
void add_flags(CLI::App& app, TrainFlags& flags) {
  cli::add_config_flags(app, flags.config);
  app.add_option("--model_dir,--train_dir", flags.job.model_dir,
                 "Where checkpoints and logs go; a run that lies there is resumed")
      ->group("Run");
  app.add_option("--num_train_steps,--train_steps", flags.num_train_steps,
                 "Steps of the whole run, a total (train_config.num_steps)")
      ->check(cli::at_least(0))
      ->group("Run");
  app.add_option("--train_batch_size", flags.batch_size, "Images per step (train_config.batch_size)")
      ->check(cli::at_least(1))
      ->group("Run");
  app.add_option("--checkpoint_every_n", flags.checkpoint_every_n,
                 "Steps between checkpoints (train_config.checkpoint.every_n_steps)")
      ->check(cli::at_least(0))
      ->group("Run");
  app.add_option("--log_every_n,--log_steps", flags.log_every_n,
                 "Steps between log lines (train_config.log_every_n_steps)")
      ->check(cli::at_least(1))
      ->group("Run");
  app.add_option("--eval_every_n", flags.eval_every_n,
                 "Steps between evaluations; 0: at every checkpoint (eval_config.eval_every_n_steps)")
      ->check(cli::at_least(0))
      ->group("Run");
  app.add_option("--resnet_depth,--resnet_size", flags.resnet_depth,
                 "Layers of the config's ResNet (feature_extractor.type of its model): 18, 34, 50, 101, 152 or 200")
      ->check(CLI::IsMember({18, 34, 50, 101, 152, 200}))
      ->group("Run");
  cli::add_device_flag(app, flags.job.device)->group("Hardware");
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
      ->check(cli::at_least(1))
      ->capture_default_str()
      ->group("Replicas");
  app.add_option("--worker_replicas", flags.launch.machines, "Machines that train together, each with --num_clones")
      ->check(cli::at_least(1))
      ->capture_default_str()
      ->group("Replicas");
  app.add_option("--task", flags.launch.machine, "Which of these machines this is, from 0")
      ->check(cli::at_least(0))
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
      ->check(cli::at_least(0))
      ->group("Replicas");
  app.add_option("--replica_timeout", flags.replica_timeout,
                 "Seconds after which a replica without an answer counts as lost")
      ->check(cli::at_least(1))
      ->capture_default_str()
      ->group("Replicas");
  app.add_flag("--clone_on_cpu", flags.clone_on_cpu, "Puts the copies on the CPU: --device cpu")
      ->excludes("--device")
      ->group("Hardware");
  app.add_option("--benchmark_steps", flags.benchmark_steps,
                 "Times so many steps, prints one JSON line, writes nothing but a --trace")
      ->check(cli::at_least(1))
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
      ->check(cli::at_least(20))
      ->excludes("--benchmark_steps", "--dry_run")
      ->group("Trying out");
  app.add_flag("--use_fake_data", flags.job.use_fake_data, "Made-up pictures instead of the train_input_reader")
      ->group("Trying out");
  app.add_flag("--print_config", flags.print_config, "Prints the config after all overrides and ends")
      ->group("Trying out");
  add_foreign_flags(app, flags);
  cli::accept_logging_flags(app);
}

}  // namespace osprey::tools
