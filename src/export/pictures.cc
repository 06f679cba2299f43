#include "export/pictures.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "osprey/base/error.h"
#include "osprey/data/decoder_builder.h"
#include "osprey/data/example_index.h"
#include "osprey/data/image_codec.h"

namespace osprey {
namespace {

/// Some pictures of a reader's data, spread over it.
class SpreadPictures {
 public:
  SpreadPictures(const config::ConfigNode<proto::InputReader>& reader, const config::LabelMap& labels, int64_t wanted)
      : examples_(data::open_examples(reader, std::make_shared<config::LabelMap>(labels))),
        decoder_(options(reader, labels), nullptr),
        count_(std::min(wanted, examples_->size())) {}

  int64_t size() const { return count_; }
  at::Tensor picture(int64_t i) {
    return decoder_.decode(examples_->read(index(i)), examples_->origin(index(i)), report_).image;
  }
  std::string origin(int64_t i) const { return examples_->origin(index(i)).describe(); }

 private:
  int64_t index(int64_t i) const { return i * examples_->size() / count_; }
  static data::DecoderOptions options(const config::ConfigNode<proto::InputReader>& reader,
                                      const config::LabelMap& labels) {
    data::DecoderOptions options = data::decoder_options(reader, labels.max_id());
    options.only_picture = true;
    return options;
  }

  std::shared_ptr<data::ExampleIndex> examples_;
  data::ExampleDecoder decoder_;
  data::ReadReport report_;
  int64_t count_;
};

std::vector<at::Tensor> evaluation_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels,
                                            int64_t wanted) {
  if (pipeline.message->eval_input_reader_size() == 0) throw DataError("the config has no eval_input_reader");
  SpreadPictures spread(pipeline.root().child("eval_input_reader", 0, pipeline.message->eval_input_reader(0)), labels,
                        wanted);
  std::vector<at::Tensor> pictures;
  for (int64_t i = 0; i < spread.size(); ++i) pictures.push_back(spread.picture(i));
  return pictures;
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

int64_t show_training_pictures(const config::Pipeline& pipeline, const config::LabelMap& labels, int64_t wanted,
                               const std::function<void(const at::Tensor& picture)>& look) {
  if (!pipeline.message->has_train_input_reader()) throw DataError("the config has no train_input_reader");
  SpreadPictures spread(pipeline.root().child("train_input_reader", pipeline.message->train_input_reader()), labels,
                        wanted);
  SPDLOG_INFO("Looking at {} pictures of train_input_reader for the ranges to round by", spread.size());
  int64_t shown = 0;
  std::string unreadable;
  for (int64_t i = 0; i < spread.size(); ++i) {
    at::Tensor picture;
    try {
      picture = spread.picture(i);
    } catch (const DataError& error) {
      unreadable = error.what();
      continue;
    }
    try {
      look(picture);
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}: {}", spread.origin(i), error.what()));
    }
    ++shown;
  }
  if (shown == 0) throw DataError("train_input_reader has no picture" + (unreadable.empty() ? "" : ": " + unreadable));
  if (shown < spread.size())
    SPDLOG_WARN("{} of {} pictures of train_input_reader are left out: {}", spread.size() - shown, spread.size(),
                unreadable);
  return shown;
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
