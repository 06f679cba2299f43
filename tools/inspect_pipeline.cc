// Shows what a pipeline config means, without data and without training anything.
#include "cli/cli.h"
#include "osprey/config/resolve.h"
#include "osprey/config/validate.h"
#include "osprey/data/reader_classes.h"
#include "osprey/models/inspection.h"

int main(int argc, char** argv) {
  CLI::App app{"Shows the effective config, the origin of its values, its static-shape report and its model."};
  osprey::cli::ConfigFlags flags;
  bool json = false;
  osprey::cli::add_config_flags(app, flags);
  app.add_flag("--json", json, "Prints one JSON object instead of the text")->group("Output");
  osprey::cli::accept_logging_flags(app);
  return osprey::cli::run(app, "inspect_pipeline --pipeline_config pipeline.config --json", argc, argv, [&] {
    using namespace osprey;
    auto pipeline = config::load_pipeline(flags.pipeline_config, flags.overrides);
    if (config::num_classes(*pipeline.message) == 0) data::derive_classes(pipeline);
    config::validate(pipeline);
    if (!json) cli::print(models::config_report(pipeline));
    config::require_supported(pipeline);
    const auto summary = models::summarize_model(pipeline.root());
    cli::print(json ? models::inspection_json(pipeline, summary) : models::model_report(summary));
  });
}
