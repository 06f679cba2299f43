#include "eval_detector/flags.h"

#include <fmt/format.h>

#include "osprey/base/error.h"

namespace osprey::tools {

void add_flags(CLI::App& app, EvalFlags& flags) {
  cli::add_config_flags(app, flags.config, /*required=*/false);
  app.get_option("--pipeline_config")
      ->description("The pipeline.config; default: the one beside the checkpoint, or the exported model");
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
          ->check(cli::at_least(0))
          ->group("Checkpoints")
          ->excludes(one)
          ->excludes(all);
  auto* last = app.add_option("--last_step", flags.last_step, "... up to this step; both ends belong to the range")
                   ->check(cli::at_least(0))
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
      ->check(cli::at_least(0))
      ->group("Checkpoints");
  auto* exported = app.add_option("--exported", flags.exported,
                                  "Evaluates the model.pt that export_model wrote to this folder, by the "
                                  "pipeline.config there; results go to its eval/")
                       ->group("Exported models");
  for (CLI::Option* option : app.get_options())
    if (option->get_group() == "Checkpoints") exported->excludes(option);
  app.add_option("--sample_1_of_n_eval_examples", flags.sample_1_of_n, "Evaluates every n-th example only")
      ->check(cli::at_least(1))
      ->group("Data");
  app.add_option("--eval_reader", flags.reader,
                 "Which eval_input_reader, from 0; results of those behind the first go to eval/<name>/, or "
                 "eval/reader_<number>/ where it has no name")
      ->capture_default_str()
      ->check(cli::at_least(0))
      ->group("Data");
  app.add_flag("--skip_bad_records", flags.skip_bad,
               "Leaves out, and counts, records that cannot be used; otherwise they end the program")
      ->group("Data");
  auto* tile_size =
      app.add_option("--tile_size", flags.tiles.side_px,
                     "Looks at squares of so many pixels of each picture, and at the whole, as detect does with this "
                     "flag; results go to eval_tiles_<size>_<overlap>/")
          ->check(cli::at_least(1))
          ->group("Data");
  app.add_option("--tile_overlap", flags.tiles.overlap, "Share of a square that its neighbour sees, too")
      ->check(cli::within(0, 0.9))
      ->capture_default_str()
      ->needs(tile_size)
      ->group("Data");
  cli::add_device_flag(app, flags.device)->group("Run");
  auto* num_threads = app.add_option("--num_threads", flags.num_threads, "Threads of the metrics; 0: one per core")
                          ->check(cli::at_least(0))
                          ->group("Run");
  auto* json = app.add_option("--json", flags.json,
                              "Also writes the numbers as JSON to this file; without one prints them instead of the "
                              "text")
                   ->expected(0, 1)
                   ->group("Output");
  app.add_option("--gallery", flags.gallery,
                 "Shows this many of the worst images, and as many of the best, in "
                 "eval/gallery_<step>/index.html; default: eval_config.gallery_images")
      ->check(cli::at_least(0))
      ->group("Output");
  auto* truth = app.add_option("--ground_truth", flags.ground_truth, "COCO annotations (JSON); with --detections")
                    ->group("Plain COCO evaluation");
  auto* found = app.add_option("--detections", flags.detections, "COCO results (JSON)")->group("Plain COCO evaluation");
  truth->needs(found);
  found->needs(truth);
  for (CLI::Option* option : app.get_options())  // all others are of checkpoints
    if (option != truth && option != found && option != json && option != num_threads && option != app.get_help_ptr())
      truth->excludes(option);
  cli::accept_logging_flags(app);
}

void complete_flags(const CLI::App& app, EvalFlags& flags) {
  const auto is_given = [&](const char* flag) { return app.get_option(flag)->count() > 0; };
  if (is_given("--json") && flags.json.empty()) flags.json = cli::kStdout;
  if (!flags.json.empty()) cli::check_writable(flags.json);
  if (is_given("--first_step") || is_given("--last_step")) flags.several = true;
  if (flags.first_step > flags.last_step)
    throw ConfigError(fmt::format("--first_step {} lies behind --last_step {}", flags.first_step, flags.last_step));
}

}  // namespace osprey::tools
