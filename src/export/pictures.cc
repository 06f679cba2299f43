#include "export/pictures.h"

#include <ATen/ATen.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "osprey/base/error.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/example_index.h"
#include "osprey/data/image_codec.h"

namespace osprey {
namespace {

std::vector<at::Tensor> pictures_of(const config::ConfigNode<proto::InputReader>& reader,
                                    const config::LabelMap& labels, int64_t wanted) {
  const auto examples = data::open_examples(reader, std::make_shared<config::LabelMap>(labels));
  data::DecoderOptions options = data::decoder_options(reader, labels.max_id());
  options.only_picture = true;
  const data::ExampleDecoder decoder(options, nullptr);
  data::ReadReport report;
  std::vector<at::Tensor> pictures;
  for (int64_t i = 0; i < std::min(wanted, examples->size()); ++i) {
    const int64_t index = i * examples->size() / std::min(wanted, examples->size());
    pictures.push_back(decoder.decode(examples->read(index), examples->origin(index), report).image);
  }
  return pictures;
}

std::vector<at::Tensor> evaluation_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels,
                                            int64_t wanted) {
  if (pipeline.message->eval_input_reader_size() == 0) throw DataError("the config has no eval_input_reader");
  return pictures_of(pipeline.root().child("eval_input_reader", 0, pipeline.message->eval_input_reader(0)), labels,
                     wanted);
}

}  // namespace

std::vector<at::Tensor> parity_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels,
                                        int64_t wanted, bool& real) {
  try {
    real = true;
    return evaluation_pictures(pipeline, labels, wanted);
  } catch (const Error& error) {  // also a ConfigError: paths may lead to what another folder has by these names
    SPDLOG_WARN("the export is compared on noise instead of evaluation pictures: {}", error.what());
  }
  real = false;
  std::vector<at::Tensor> pictures;
  at::Generator generator = at::detail::createCPUGenerator(1);
  for (int64_t i = 0; i < wanted; ++i)
    pictures.push_back(at::randint(0, 256, {240 + 37 * i, 320, 3}, generator, at::kByte));
  return pictures;
}

std::vector<at::Tensor> training_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels,
                                          int64_t wanted) {
  if (!pipeline.message->has_train_input_reader()) throw DataError("the config has no train_input_reader");
  std::vector<at::Tensor> pictures =
      pictures_of(pipeline.root().child("train_input_reader", pipeline.message->train_input_reader()), labels, wanted);
  if (pictures.empty()) throw DataError("train_input_reader has no pictures");
  return pictures;
}

Batch on_canvas(const ServedResize& size, const data::ImageResizer& resizer, const at::Tensor& picture) {
  at::Tensor canvas = at::zeros({size.height, size.width, 3}, at::kByte);
  const data::ImageSize content = resizer.resize_into(picture, canvas);
  Batch batch;
  batch.images = canvas.permute({2, 0, 1}).unsqueeze(0);
  batch.true_shapes = at::tensor({content.height, content.width}, at::kLong).unsqueeze(0);
  return batch;
}

}  // namespace osprey
