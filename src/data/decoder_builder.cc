#include "osprey/data/decoder_builder.h"

namespace osprey::data {
namespace {

DecoderOptions::InvalidBox invalid_boxes(const proto::InputReader& reader) {
  switch (reader.invalid_box_policy()) {
    case proto::InputReader::DROP:
      return DecoderOptions::InvalidBox::kDrop;
    case proto::InputReader::FAIL:
      return DecoderOptions::InvalidBox::kFail;
    default:
      return DecoderOptions::InvalidBox::kClip;
  }
}

DecoderOptions::Exif exif(const proto::InputReader& reader) {
  switch (reader.exif()) {
    case proto::InputReader::IGNORE:
      return DecoderOptions::Exif::kIgnore;
    case proto::InputReader::APPLY:
      return DecoderOptions::Exif::kApply;
    default:
      return DecoderOptions::Exif::kAuto;
  }
}

}  // namespace

DecoderOptions decoder_options(const config::ConfigNode<proto::InputReader>& reader, int64_t num_classes) {
  if (reader->input_type() == proto::TF_SEQUENCE_EXAMPLE) reader.unsupported("input_type");
  if (reader->num_additional_channels() < 0) reader.fail("num_additional_channels", "must be >= 0");
  if (reader->num_additional_channels() > 0) reader.unsupported("num_additional_channels");
  if (reader->load_context_features()) reader.unsupported("load_context_features");
  if (reader->expand_labels_hierarchy()) reader.unsupported("expand_labels_hierarchy");

  DecoderOptions options;
  options.num_classes = num_classes;
  options.invalid_boxes = invalid_boxes(*reader);
  options.exif = exif(*reader);
  options.num_keypoints = reader->num_keypoints();
  options.multiclass_scores = reader->load_multiclass_scores();
  options.use_display_name = reader->use_display_name();
  if (reader->load_instance_masks())
    options.masks =
        reader->mask_type() == proto::PNG_MASKS ? DecoderOptions::Masks::kPng : DecoderOptions::Masks::kNumerical;
  return options;
}

std::unique_ptr<ExampleDecoder> build_example_decoder(const config::ConfigNode<proto::InputReader>& reader,
                                                      int64_t num_classes,
                                                      std::shared_ptr<const config::LabelMap> label_map) {
  return std::make_unique<ExampleDecoder>(decoder_options(reader, num_classes), std::move(label_map));
}

}  // namespace osprey::data
