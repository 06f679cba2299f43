// Evaluates checkpoints of a detector, or, given two COCO files, the detections in them.
#include <spdlog/spdlog.h>

#include "cli/cli.h"
#include "eval_detector/checkpoints.h"
#include "eval_detector/flags.h"
#include "eval_detector/output.h"
#include "osprey/eval/report.h"

namespace {

using namespace osprey;

void evaluate_files(const tools::EvalFlags& flags) {
  const eval::CocoReport report = eval::evaluate_coco_files(flags.ground_truth, flags.detections, flags.num_threads);
  for (const std::string& warning : report.warnings) SPDLOG_WARN("{}", warning);
  SPDLOG_INFO("read in {:.2f} s, evaluated in {:.2f} s", report.read_seconds, report.evaluate_seconds);
  tools::show(report.summary, report.json, flags.json);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Measures a detector: COCO's twelve numbers and a table per class on stdout, the same and the detections as "
      "JSON,\n"
      "TensorBoard events and side-by-side pictures in the model directory; with --gallery a page of the worst "
      "images."};
  tools::EvalFlags flags;
  tools::add_flags(app, flags);
  return cli::run(app, "eval_detector --model_dir runs/bccd --json metrics.json", argc, argv, [&] {
    tools::complete_flags(app, flags);
    if (flags.ground_truth.empty())
      tools::evaluate_checkpoints(flags);
    else
      evaluate_files(flags);
  });
}
