#include "osprey/data/source_options.h"

#include <fmt/format.h>

#include "osprey/config/registry.h"
#include "osprey/config/resolve.h"

namespace osprey::data {
namespace {
using Root = config::ConfigNode<proto::TrainEvalPipelineConfig>;

SourceOptions common_options(const Root& root, const config::ConfigNode<proto::InputReader>& reader, ResizerUse use) {
  const auto model = root.child("model", root->model());
  const std::optional<config::Node> meta_architecture = config::chosen(model, "model");
  if (!meta_architecture) root.fail("model", "no model is chosen");
  SourceOptions options;
  options.num_classes = config::num_classes(*root);
  options.resizer = build_image_resizer_of(*meta_architecture, use);
  options.confidences = root->model().has_ssd() && root->model().ssd().use_confidences_as_targets();
  options.max_boxes = config::max_number_of_boxes(*root, *reader);
  options.float_images = reader->float_images();
  options.strict = root->strict();
  options.seed = root->train_config().seed();
  options.max_bad_fraction = root->train_config().max_bad_fraction();
  return options;
}

config::ConfigNode<proto::InputReader> train_reader(const Root& root) {
  return root.child("train_input_reader", root->train_input_reader());
}
config::ConfigNode<proto::InputReader> eval_reader(const Root& root, int index) {
  if (index < 0 || index >= root->eval_input_reader_size())
    root.fail("eval_input_reader", "has " + std::to_string(root->eval_input_reader_size()) + " readers, number " +
                                       std::to_string(index) + " is asked for");
  return root.child("eval_input_reader", index, root->eval_input_reader(index));
}

/// The canvas of pictures that the device resizes, where it does.
std::optional<ImageSize> device_canvas(const config::ConfigNode<proto::TrainConfig>& train,
                                       const ImageResizer& resizer) {
  if (!train->accelerator().has_resize()) return std::nullopt;
  const auto accelerator = train.child("accelerator", train->accelerator());
  const auto resize = accelerator.child("resize", accelerator->resize());
  const auto size = resizer.static_size();
  if (!size || resizer.method() != ResizeMethod::kBilinear || resizer.align_corners() || resizer.channels() != 3)
    accelerator.fail("resize", "needs an image_resizer of bilinear resizing in colour to a fixed size");
  if (resize->max_height() < size->height)
    resize.fail("max_height",
                fmt::format("must be at least the network's {}, got {}", size->height, resize->max_height()));
  if (resize->max_width() < size->width)
    resize.fail("max_width",
                fmt::format("must be at least the network's {}, got {}", size->width, resize->max_width()));
  return ImageSize{resize->max_height(), resize->max_width()};
}
}  // namespace

BatchShape shape_of(const SourceOptions& options) {
  BatchShape shape;
  shape.batch_size = options.batch_size;
  shape.image = options.canvas ? options.canvas : options.resizer->static_size();
  shape.resize_later = options.canvas.has_value();
  shape.channels = options.resizer->channels();
  shape.max_boxes = options.max_boxes;
  shape.num_classes = options.num_classes;
  const bool overshoots = options.resizer->method() == ResizeMethod::kBicubic;  // 0..255
  shape.float_images = options.float_images || overshoots ||
                       (options.training && options.augmenter && options.augmenter->leaves_levels());
  shape.multi_label = options.multi_label;
  shape.class_scores = options.class_scores && !options.multi_label;  // merged boxes have classes of their own
  shape.confidences = options.confidences;
  return shape;
}

int64_t pictures_of(const SourceOptions& options) {
  return options.training && options.augmenter ? options.augmenter->num_pictures() : 1;
}

SourceOptions train_options(const Root& root) {
  const auto train = root.child("train_config", root->train_config());
  SourceOptions options = common_options(root, train_reader(root), ResizerUse::kTraining);
  options.batch_size = train->batch_size();
  options.multi_label = train->merge_multiple_label_boxes();
  options.class_scores = train->use_multiclass_scores();
  options.augmenter = build_augmenter(train);
  for (int i = 0; i < train->data_augmentation_options_size(); ++i) {
    const auto option = train.child("data_augmentation_options", i, train->data_augmentation_options(i));
    if (options.num_classes > 0 && option->remap_labels().new_label() > options.num_classes)
      option.child("remap_labels", option->remap_labels())
          .fail("new_label", fmt::format("must be at most the model's num_classes, {}", options.num_classes));
  }
  options.canvas = device_canvas(train, *options.resizer);
  const config::InputQueue queue = config::input_queue(*root);
  options.num_workers = queue.threads;
  options.prefetch_batches = queue.batches;
  return options;
}

SourceOptions eval_options(const Root& root, int index) {
  SourceOptions options = common_options(root, eval_reader(root, index), ResizerUse::kEvaluation);
  options.training = false;
  if (root->eval_config().batch_size() < 1) root.fail("eval_config.batch_size", "must be >= 1");
  options.batch_size = root->eval_config().batch_size();
  return options;
}

}  // namespace osprey::data
