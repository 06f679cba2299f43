// Says what is wrong with the records of a config, before a training.
#include <fmt/format.h>

#include "cli/cli.h"
#include "osprey/train/dataset_check.h"

int main(int argc, char** argv) {
  CLI::App app{"Looks at all records of a config before a training: counts, classes, sizes, and what is wrong."};
  osprey::cli::ConfigFlags flags;
  osprey::train::DatasetCheckOptions options;
  std::string json, output_dir;
  options.num_pictures = 12;
  osprey::cli::add_config_flags(app, flags);
  app.add_option("--json", json, "File for the whole report, with every problem; -: stdout, in place of the text")
      ->group("Output");
  app.add_option("--output_dir", output_dir,
                 "Folder for drawings of the worst pictures: problems first, then many boxes")
      ->group("Output");
  app.add_option("--num_pictures", options.num_pictures, "At most so many drawings")
      ->check(osprey::cli::at_least(0))
      ->capture_default_str()
      ->group("Output");
  app.add_option("--num_workers", options.num_workers, "Threads; default: one per processor")
      ->check(osprey::cli::at_least(0));
  osprey::cli::accept_logging_flags(app);
  return osprey::cli::run_with_code(
      app, "check_dataset --pipeline_config pipeline.config --data_dir data --output_dir drawn", argc, argv, [&] {
        using namespace osprey;
        auto pipeline = config::load_pipeline(flags.pipeline_config, flags.overrides);
        if (!json.empty()) cli::check_writable(json);
        const train::DatasetCheck check = train::check_dataset(pipeline, options);
        if (!json.empty()) cli::write_file(json, train::dataset_json(check));
        const bool with_text = json != cli::kStdout;
        if (with_text) cli::print(train::dataset_text(check));
        if (!output_dir.empty()) {
          const size_t drawn = train::draw_worst(pipeline, check, options.num_pictures, output_dir).size();
          if (with_text) cli::print(fmt::format("{} drawings in {}\n", drawn, output_dir));
        }
        return static_cast<int>(check.would_stop() ? ExitCode::kData : ExitCode::kDone);
      });
}
