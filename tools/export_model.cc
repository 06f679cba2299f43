// Writes the served form of a trained model and checks it against the checkpoint.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/cli.h"
#include "osprey/config/resolve.h"
#include "osprey/config/validate.h"
#include "osprey/data/reader_classes.h"
#include "osprey/export/exporter.h"

namespace {

void tell_of_rounding(const osprey::RoundingReport& rounding) {
  const std::string by = fmt::format("rounded to 8 bits by {} pictures", rounding.calibration_images);
  if (rounding.detections == 0) {
    SPDLOG_WARN("{}; nothing scores 0.5 on the pictures compared, so that what this costs is not known", by);
    return;
  }
  osprey::cli::print(
      fmt::format("{} it finds {} of {} detections that score 0.5 or more, scores {:.2g} off on average\n", by,
                  rounding.found, rounding.detections, rounding.mean_score_difference));
  if (2 * rounding.found < rounding.detections)
    SPDLOG_WARN(
        "the rounded network is not the one that was trained; more --calibration_images may help, or a training for 8 "
        "bits (graph_rewriter)");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Writes the served form of a trained model and checks it against the checkpoint."};
  osprey::cli::ConfigFlags config;
  std::string checkpoint, output_dir, input_type = "image_tensor", memory_format = "channels_last";
  osprey::ExportOptions options;
  osprey::cli::add_config_flags(app, config);
  osprey::cli::accept_logging_flags(app);
  app.add_option("--checkpoint,--trained_checkpoint_prefix,--trained_checkpoint_dir", checkpoint,
                 "Checkpoint file or prefix, Osprey's or TensorFlow's, or a model directory (its newest)")
      ->required();
  app.add_option("--output_dir,--output_directory", output_dir,
                 "Folder for model.pt, model.onnx and what belongs to them")
      ->required();
  app.add_option("--batch_size", options.batch_size, "Pictures per call of the served model")
      ->check(osprey::cli::at_least(1))
      ->capture_default_str();
  app.add_option("--parity_images", options.parity_images, "Evaluation pictures on which the export is compared")
      ->check(osprey::cli::at_least(1))
      ->capture_default_str();
  app.add_flag("--quantize", options.quantize,
               "Round the network to 8 bits by the ranges that its values have on pictures of train_input_reader");
  app.add_option("--calibration_images", options.calibration_images, "How many pictures that are")
      ->check(osprey::cli::at_least(1))
      ->needs("--quantize")
      ->capture_default_str();
  app.add_option("--memory_format,--data_format", memory_format,
                 "How maps lie in memory inside the served model; contiguous and channels_first are the same")
      ->check(CLI::IsMember({"channels_last", "contiguous", "channels_first"}))
      ->capture_default_str();
  app.add_flag("--onnx,!--noonnx", options.onnx, "Write model.onnx beside model.pt")->capture_default_str();
  app.add_flag("--tflite,!--notflite", options.tflite,
               "Write model.tflite, too, for TensorFlow Lite; it takes one picture whatever --batch_size says")
      ->capture_default_str();
  app.add_option("--input_type", input_type, "Form of the input; uint8 pictures are the one there is")
      ->check(CLI::IsMember({"image_tensor"}))
      ->capture_default_str();
  return osprey::cli::run(
      app, "export_model --pipeline_config run/pipeline.config --checkpoint run --output_dir exported", argc, argv,
      [&] {
        auto pipeline = osprey::config::load_pipeline(config.pipeline_config, config.overrides);
        osprey::data::derive_classes(pipeline);
        osprey::config::check(pipeline);
        if (memory_format != "channels_last") options.memory_format = at::MemoryFormat::Contiguous;
        const osprey::ExportReport report = osprey::export_model(pipeline, checkpoint, output_dir, options);
        if (report.left_to_rounding > 0)
          SPDLOG_WARN(
              "on {} of {} pictures the export finds something else by rounding alone: noise of 1e-5 in the pixels "
              "moves this network's boxes and scores as far; {}",
              report.left_to_rounding, report.images,
              osprey::config::trains_for_8_bits(*pipeline.message)
                  ? "what lies between two numbers of 8 bits falls to either side"
                  : "were its batch-norm averages trained long enough?");
        osprey::cli::print(fmt::format(
            "{}/model.pt{} agrees with the checkpoint on {} {}: {} detections, boxes within {:.2g}, scores within "
            "{:.2g}\n",
            output_dir, report.rounding ? ", before it is rounded," : "", report.images - report.left_to_rounding,
            report.real_images ? "evaluation pictures" : "pictures of noise", report.detections,
            report.max_box_difference, report.max_score_difference));
        if (report.rounding) tell_of_rounding(*report.rounding);
        const auto tell = [&](const char* file, const char* is_what, const std::string& why_not) {
          if (why_not.empty())
            osprey::cli::print(fmt::format("{}/{} is {}\n", output_dir, file, is_what));
          else
            SPDLOG_WARN("no {}: {}", file, why_not);
        };
        if (options.onnx)
          tell("model.onnx", "the same for ONNX runtimes; it was checked, but not run", report.without_onnx);
        if (options.tflite)
          tell("model.tflite", "the same for TensorFlow Lite, one picture at a time; it was not run",
               report.without_tflite);
      });
}
