#include "osprey/export/exporter.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <spdlog/spdlog.h>
#include <torch/csrc/jit/serialization/import.h>

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>

#include "export/calibration.h"
#include "export/model_card.h"
#include "export/onnx/model.h"
#include "export/parity.h"
#include "export/pictures.h"
#include "export/served_module.h"
#include "export/tflite/metadata.h"
#include "export/tflite/model.h"
#include "export/unchecked_file.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/checkpoint/model_weights.h"
#include "osprey/checkpoint/tensorflow_checkpoint.h"
#include "osprey/config/effective.h"
#include "osprey/config/label_map.h"
#include "osprey/config/resolve.h"
#include "osprey/config/support.h"
#include "osprey/data/image_resizer.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/models/builder.h"

namespace fs = std::filesystem;

namespace osprey {
namespace {

/// What an export reads of the config's model.
struct ServedParts {
  config::ConfigNode<proto::ImageResizer> image_resizer;
  std::string feature_extractor;
};

template <class MetaArchitecture>
ServedParts parts_of_chosen(const config::ConfigNode<MetaArchitecture>& node) {
  return {node.child("image_resizer", node->image_resizer()), node->feature_extractor().type()};
}

ServedParts parts_of(const config::ConfigNode<proto::DetectionModel>& model) {
  if (model->has_ssd()) return parts_of_chosen(model.child("ssd", model->ssd()));
  if (!model->has_image_classifier()) model.unsupported("");
  const auto classifier = model.child("image_classifier", model->image_classifier());
  ServedParts parts = parts_of_chosen(classifier);
  if (classifier->has_evaluation_image_resizer())
    parts.image_resizer = classifier.child("evaluation_image_resizer", classifier->evaluation_image_resizer());
  return parts;
}

/// How the served model is to resize. Only resizers with one canvas for all pictures can be served, or with a largest
/// one, which then is that of all.
ServedResize resize_of(const config::ConfigNode<proto::ImageResizer>& node, const data::ImageResizer& resizer) {
  auto canvas = resizer.static_size();
  if (!canvas && node->has_keep_aspect_ratio_resizer()) {
    const int64_t largest = node->keep_aspect_ratio_resizer().max_dimension();
    canvas = data::ImageSize{largest, largest};
    SPDLOG_INFO("{}: the exported model pads every picture to {} x {}", node.path(), largest, largest);
  }
  if (!canvas)
    node.fail("",
              "cannot be exported: the size of the canvas depends on the picture, and there is no largest; use "
              "keep_aspect_ratio_resizer or fixed_shape_resizer");
  if (resizer.method() != data::ResizeMethod::kBilinear)
    node.unsupported(node->has_fixed_shape_resizer() ? "fixed_shape_resizer.resize_method"
                                                     : "keep_aspect_ratio_resizer.resize_method");
  if (resizer.channels() != 3)
    node.unsupported(node->has_fixed_shape_resizer() ? "fixed_shape_resizer.convert_to_grayscale"
                                                     : "keep_aspect_ratio_resizer.convert_to_grayscale");
  ServedResize served{canvas->height, canvas->width, 0, 0};
  if (node->has_keep_aspect_ratio_resizer()) {
    served.min_dimension = node->keep_aspect_ratio_resizer().min_dimension();
    served.max_dimension = node->keep_aspect_ratio_resizer().max_dimension();
  } else if (!node->has_fixed_shape_resizer()) {
    node.unsupported("");
  }
  return served;
}

/// The label map that an evaluation takes its names from; where its file is not here, the copy that training left
/// beside the checkpoint.
config::LabelMap label_map(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root, int64_t num_classes,
                           const fs::path& checkpoint) {
  const auto reader = eval::naming_reader(root, 0);
  const std::string copy = (checkpoint.parent_path() / "label_map.pbtxt").string();
  std::error_code unreadable;
  const bool has_copy = fs::exists(copy, unreadable);
  if (reader->has_label_map() || fs::is_regular_file(reader->label_map_path(), unreadable)) {
    const config::LabelMap map = *eval::label_map_within(reader, num_classes);
    eval::warn_of_other_names(reader, map, checkpoint);
    return map;
  }
  if (!has_copy)
    root.fail("eval_input_reader",
              "no label map: neither the label_map_path of eval_input_reader[0] or train_input_reader nor " + copy +
                  " is there");
  proto::InputReader beside;
  beside.set_label_map_path(copy);
  return *eval::label_map_within({beside, reader.path()}, num_classes);
}

/// Whether a folder is that of a training, whose pipeline.config and label_map.pbtxt an export would write over.
/// exported  the checkpoint that is exported, whatever it is called
bool is_of_a_training(const fs::path& folder, const fs::path& exported) {
  std::error_code unreadable;
  if (fs::exists(folder / "run_info.json", unreadable)) return true;
  if (!fs::exists(folder / "pipeline.config", unreadable)) return false;
  return !checkpoint::list(folder).empty() || checkpoint::is_tensorflow(folder) ||
         fs::equivalent(fs::absolute(exported).parent_path(), folder, unreadable);
}

/// The bytes of a further form of the model; nothing, and why, where that form lacks what the model does.
std::optional<std::string> bytes_of(const std::function<std::string()>& form, std::string& why_not) {
  try {
    return form();
  } catch (const ConfigError& error) {
    why_not = error.what();
  } catch (const c10::Error& error) {  // the other file is no worse for a form that no rule thought of
    why_not = fmt::format("a bug of Osprey: {}", error.what_without_backtrace());
  }
  return std::nullopt;
}

/// The forms of a model in a folder. They have no names there until all are written and checked.
class ExportedModel {
 public:
  /// All of them must outlive this.
  ExportedModel(models::DetectionModel& model, const data::ImageResizer& resizer, const ServedResize& resize,
                const ExportOptions& options, const fs::path& folder)
      : model_(model),
        resizer_(resizer),
        resize_(resize),
        options_(options),
        torchscript_(folder / "model.pt"),
        onnx_(folder / "model.onnx"),
        tflite_(folder / "model.tflite") {}

  /// Writes the served form and compares it with the model.
  ExportReport serve(const std::vector<at::Tensor>& pictures) {
    write_served();
    torch::jit::Module loaded = load_served();
    return compare(model_, resizer_, loaded, options_.batch_size, pictures, options_.parity_tolerance);
  }

  /// Writes the served form again, rounded by the ranges that its values have on pictures of the training, as all that
  /// is added after it will be.
  RoundingReport quantize(const config::Pipeline& pipeline, const config::LabelMap& labels,
                          const std::vector<at::Tensor>& pictures) {
    calibrator_.emplace(model_, std::array{resize_.height, resize_.width});
    const int64_t count = show_training_pictures(
        pipeline, labels, options_.calibration_images,
        [&](const at::Tensor& picture) { calibrator_->show(on_canvas(resize_, resizer_, picture)); });
    write_served();
    torch::jit::Module loaded = load_served();
    RoundingReport report = agreement(model_, resizer_, loaded, options_.batch_size, pictures);
    report.calibration_images = count;
    return report;
  }

  /// returns  whether it is there; `why_not` where it is not
  bool add_onnx(std::string& why_not) {
    const auto bytes = bytes_of([&] { return onnx_model(served_, options_.batch_size); }, why_not);
    if (bytes) onnx_.write(*bytes);
    return bytes.has_value();
  }

  /// returns  the type of its input; nothing, and why, where it is not there
  std::optional<std::string> add_tflite(const config::LabelMap& labels, bool classifies, std::string& why_not) {
    // Of a classifier the middle that its network sees, else the canvas.
    const std::array canvas = model_.any_input_size() ? std::array{resize_.height, resize_.width} : model_.input_size();
    std::string input_type;
    const auto bytes = bytes_of(
        [&] {
          const tflite::File file = (classifies ? tflite::classifier : tflite::detector)(model_, canvas, calibration());
          input_type = file.input_type;
          return file.bytes;
        },
        why_not);
    if (!bytes) return std::nullopt;
    tflite_.write(*bytes);
    tflite::attach_labels(tflite_.path(), labels, model_.num_classes());
    return input_type;
  }

  void give_names() const {
    for (const UncheckedFile* file : {&torchscript_, &onnx_, &tflite_}) file->give_name();
  }

 private:
  const Calibration* calibration() const { return calibrator_ ? &calibrator_->result() : nullptr; }

  void write_served() {
    served_ = served_module(model_, resize_, options_.batch_size, options_.memory_format, calibration());
    std::ostringstream bytes;  // libtorch's own writer of files ends the program where the disk is full
    served_.save(bytes);
    torchscript_.write(std::move(bytes).str());
  }

  torch::jit::Module load_served() const { return torch::jit::load(torchscript_.path().string()); }

  models::DetectionModel& model_;
  const data::ImageResizer& resizer_;
  const ServedResize& resize_;
  const ExportOptions& options_;
  UncheckedFile torchscript_, onnx_, tflite_;
  torch::jit::Module served_;
  std::optional<Calibrator> calibrator_;
};

/// What the card says but for the checkpoint and further forms.
ModelCard card_of(const models::DetectionModel& model, const proto::ImageResizer& image_resizer,
                  const ServedResize& resize, const ExportOptions& options, const ExportReport& report) {
  ModelCard card;
  card.batch_size = options.batch_size;
  card.memory_format = options.memory_format == at::MemoryFormat::Contiguous ? "contiguous" : "channels_last";
  card.input_height = resize.height;
  card.input_width = resize.width;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(image_resizer, &card.resizer);
  card.num_classes = model.num_classes();
  card.max_detections = model.nms_options().max_total_detections;
  card.parity_images = report.images;
  card.parity_detections = report.detections;
  card.max_box_difference = report.max_box_difference;
  card.max_score_difference = report.max_score_difference;
  return card;
}

}  // namespace

ExportReport export_model(const config::Pipeline& pipeline, const std::string& checkpoint,
                          const std::string& output_dir, const ExportOptions& options) {
  const auto root = pipeline.root();
  config::require_supported(pipeline);
  const auto [image_resizer, feature_extractor] = parts_of(root.child("model", root->model()));
  const std::unique_ptr<data::ImageResizer> resizer = data::build_image_resizer(image_resizer);
  const ServedResize resize = resize_of(image_resizer, *resizer);

  if (options.quantize && config::trains_for_8_bits(*root))
    root.fail("graph_rewriter", "the network is trained for 8 bits, and rounded by the ranges found there already");
  const fs::path file = checkpoint::resolve(checkpoint);
  if (is_of_a_training(output_dir, file))
    throw ConfigError(fmt::format(
        "{} is the folder of a training: its pipeline.config would be written over; export to another folder",
        output_dir));
  const std::shared_ptr<models::DetectionModel> model = models::build_model(root);
  const config::LabelMap labels = label_map(root, model->num_classes(), file);
  const bool averages = root->eval_config().use_moving_averages();
  const int64_t step = checkpoint::load_model(file, *model, averages);
  model->eval();

  std::error_code failed;
  fs::create_directories(output_dir, failed);
  if (failed) throw DataError(output_dir + ": cannot be created: " + failed.message());
  ExportedModel exported(*model, *resizer, resize, options, output_dir);
  bool real = true;
  const std::vector<at::Tensor> pictures = parity_pictures(pipeline, labels, options.parity_images, real);
  ExportReport report = exported.serve(pictures);
  report.real_images = real;
  ModelCard card = card_of(*model, *image_resizer, resize, options, report);
  if (options.quantize) card.rounding = report.rounding = exported.quantize(pipeline, labels, pictures);
  if (options.onnx) card.has_onnx = exported.add_onnx(report.without_onnx);
  if (options.tflite)
    card.tflite_input = exported.add_tflite(labels, root->model().has_image_classifier(), report.without_tflite);

  card.model_type = feature_extractor;
  card.step = step;
  card.moving_averages = averages;
  const fs::path folder(output_dir);
  write_whole(folder / "pipeline.config", config::effective_text(*pipeline.message));
  config::write_label_map(labels, (folder / "label_map.pbtxt").string());
  write_whole(folder / "model_card.json", to_json(card));
  exported.give_names();
  return report;
}

}  // namespace osprey
