// Says whether this machine can train, before a training.
#include "cli/cli.h"
#include "osprey/train/machine_check.h"

int main(int argc, char** argv) {
  CLI::App app{
      "Looks at this machine before a training: CPU, threads, memory, GPUs, disk, and a few steps on each device."};
  osprey::cli::ConfigFlags flags;
  osprey::train::MachineCheckOptions options;
  bool json = false;
  osprey::cli::add_config_flags(app, flags, /*required=*/false);
  for (const char* flag : {"--set", "--config_override", "--strict", "--data_dir"})
    app.get_option(flag)->needs("--pipeline_config");
  app.add_option("--model_dir", options.model_dir,
                 "A folder for checkpoints: may it be written, and is there room; left as it is");
  app.add_flag("--json", json, "Prints one JSON object");
  osprey::cli::accept_logging_flags(app);
  return osprey::cli::run_with_code(app, "doctor --model_dir run", argc, argv, [&] {
    using namespace osprey;
    if (!flags.pipeline_config.empty())
      options.pipeline = config::load_pipeline(flags.pipeline_config, flags.overrides);
    const auto findings = train::check_machine(options);
    cli::print(json ? train::machine_json(findings) : train::machine_text(findings));
    return static_cast<int>(train::has_problem(findings) ? ExitCode::kData : ExitCode::kDone);
  });
}
