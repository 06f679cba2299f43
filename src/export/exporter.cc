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

#include "export/model_card.h"
#include "export/onnx/model.h"
#include "export/parity.h"
#include "export/pictures.h"
#include "export/quantization.h"
#include "export/served_module.h"
#include "export/tflite/metadata.h"
#include "export/tflite/model.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/checkpoint/model_weights.h"
#include "osprey/checkpoint/tensorflow_checkpoint.h"
#include "osprey/config/effective.h"
#include "osprey/config/label_map.h"
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

/// A form of the model until it is checked and has its name; removed where that does not come.
class UncheckedFile {
 public:
  explicit UncheckedFile(const fs::path& name)
      : name_(name), path_(name.parent_path() / ("." + name.filename().string() + ".unchecked")) {}
  ~UncheckedFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  UncheckedFile(const UncheckedFile&) = delete;
  UncheckedFile& operator=(const UncheckedFile&) = delete;

  const fs::path& path() const { return path_; }
  void write(const std::string& bytes) {
    write_whole(path_, bytes);
    is_written_ = true;
  }
  bool is_written() const { return is_written_; }
  /// Where it was not written, one of an earlier export goes, which is not of this model.
  void give_name() const {
    std::error_code failed;
    if (is_written_)
      fs::rename(path_, name_, failed);
    else
      fs::remove(name_, failed);
    if (failed)
      throw DataError(
          fmt::format("{}: cannot be {}: {}", name_.string(), is_written_ ? "written" : "removed", failed.message()));
  }

 private:
  fs::path name_, path_;
  bool is_written_ = false;
};

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

}  // namespace

ExportReport export_model(const config::Pipeline& pipeline, const std::string& checkpoint,
                          const std::string& output_dir, const ExportOptions& options) {
  const auto root = pipeline.root();
  config::require_supported(pipeline);
  const auto [image_resizer, feature_extractor] = parts_of(root.child("model", root->model()));
  const std::unique_ptr<data::ImageResizer> resizer = data::build_image_resizer(image_resizer);
  const ServedResize resize = resize_of(image_resizer, *resizer);

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
  const fs::path folder(output_dir);
  UncheckedFile torchscript(folder / "model.pt"), onnx(folder / "model.onnx"), tflite(folder / "model.tflite");
  const auto write_served = [&](const Calibration* calibration) {
    const torch::jit::Module made =
        served_module(*model, resize, options.batch_size, options.memory_format, calibration);
    std::ostringstream bytes;  // libtorch's own writer of files ends the program where the disk is full
    made.save(bytes);
    torchscript.write(std::move(bytes).str());
    return made;
  };
  torch::jit::Module made = write_served(nullptr);
  bool real = true;
  const std::vector<at::Tensor> pictures = parity_pictures(pipeline, labels, options.parity_images, real);
  torch::jit::Module served = torch::jit::load(torchscript.path().string());
  ExportReport report = compare(*model, *resizer, served, options.batch_size, pictures, options.parity_tolerance);
  report.real_images = real;

  ModelCard card;
  std::optional<Calibrator> calibrator;
  const Calibration* calibration = nullptr;
  if (options.quantize) {
    card.calibration_images =
        show_training_pictures(pipeline, labels, options.calibration_images, [&](const at::Tensor& picture) {
          const Batch batch = on_canvas(resize, *resizer, picture);
          if (!calibrator) calibrator.emplace(*model, batch);
          calibrator->show(batch);
        });
    calibration = &calibrator->result();
    made = write_served(calibration);
    served = torch::jit::load(torchscript.path().string());
    report.rounding = agreement(*model, *resizer, served, options.batch_size, pictures);
  }
  if (options.onnx)
    if (const auto form = bytes_of([&] { return onnx_model(made, options.batch_size); }, report.without_onnx))
      onnx.write(*form);
  if (options.tflite) {
    const bool classifies = root->model().has_image_classifier();
    // Of a classifier the middle that its network sees, else the canvas.
    const std::array canvas = model->any_input_size() ? std::array{resize.height, resize.width} : model->input_size();
    const auto form = bytes_of(
        [&] {
          const tflite::File whole = (classifies ? tflite::classifier : tflite::detector)(*model, canvas, calibration);
          card.tflite_input = whole.input_type;
          return whole.bytes;
        },
        report.without_tflite);
    if (form) {
      tflite.write(*form);
      tflite::attach_labels(tflite.path(), labels, model->num_classes());
    }
  }

  card.model_type = feature_extractor;
  card.step = step;
  card.batch_size = options.batch_size;
  card.memory_format = options.memory_format == at::MemoryFormat::Contiguous ? "contiguous" : "channels_last";
  card.input_height = resize.height;
  card.input_width = resize.width;
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintToString(*image_resizer, &card.resizer);
  card.num_classes = model->num_classes();
  card.max_detections = model->nms_options().max_total_detections;
  card.moving_averages = averages;
  card.parity_images = report.images;
  card.parity_detections = report.detections;
  card.max_box_difference = report.max_box_difference;
  card.max_score_difference = report.max_score_difference;
  card.has_onnx = onnx.is_written();
  write_whole(folder / "pipeline.config", config::effective_text(*pipeline.message));
  config::write_label_map(labels, (folder / "label_map.pbtxt").string());
  write_whole(folder / "model_card.json", to_json(card));
  for (const UncheckedFile* file_of_form : {&torchscript, &onnx, &tflite}) file_of_form->give_name();
  return report;
}

}  // namespace osprey
