// The input pipeline alone: decode, ssd_random_crop, flip, resize to 300 x 300, pad, batch.
// usage: loader_bench RECORDS [WORKERS] [BATCHES] [READER]; prints one JSON line. WORKERS 1 gives images/s of one core;
// READER are more fields of the input reader, e.g. "decode_reduced: true".
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "osprey/base/clock.h"
#include "osprey/config/parse.h"
#include "osprey/data/loader.h"

int main(int argc, char** argv) {
  using namespace osprey;
  if (argc < 2) {
    std::fprintf(stderr, "usage: loader_bench RECORDS [WORKERS] [BATCHES] [READER]\n");
    return 2;
  }
  const int workers = argc > 2 ? std::atoi(argv[2]) : 1, batches = argc > 3 ? std::atoi(argv[3]) : 64;
  const auto reader = config::parse<proto::InputReader>(
      fmt::format("tf_record_input_reader {{ input_path: '{}' }} {}", argv[1], argc > 4 ? argv[4] : ""), "reader");
  const auto resizer = config::parse<proto::ImageResizer>("fixed_shape_resizer {}", "resizer");
  const auto train = config::parse<proto::TrainConfig>(
      "data_augmentation_options { ssd_random_crop {} } data_augmentation_options { random_horizontal_flip {} }",
      "train");
  data::SourceOptions options;
  options.batch_size = 16;
  options.num_classes = 1000;  // more than any of the usual sets; only checked here
  options.num_workers = workers;
  options.resizer = data::build_image_resizer(resizer.node());
  options.augmenter = data::build_augmenter(train.node());
  const auto source = data::make_source(reader.node(), options);

  for (int i = 0; i < 4; ++i) source->next();  // the first batches also fill the prefetch queue
  const data::StageSeconds before = source->stage_seconds();
  const double begin = now();
  for (int i = 0; i < batches; ++i) source->next();
  const double seconds = now() - begin;
  const data::StageSeconds after = source->stage_seconds();
  const double images = static_cast<double>(batches) * 16;
  const auto per_image = [&](double stage) { return stage / images * 1e3; };
  fmt::print(
      "{{\"workers\": {}, \"img_s\": {:.1f}, \"ms_per_image\": {{\"read\": {:.3f}, \"decode\": {:.3f}, \"augment\": "
      "{:.3f}, "
      "\"collate\": {:.3f}}}}}\n",
      workers, images / seconds, per_image(after.read - before.read), per_image(after.decode - before.decode),
      per_image(after.augment - before.augment), per_image(after.collate - before.collate));
}
