#include "osprey/nn/quantization.h"

#include <fmt/format.h>

#include <regex>

#include "osprey/nn/name_map.h"

namespace osprey::nn {
namespace {

constexpr double kInitial = 6;  // what ranges end at before any training

std::shared_ptr<FakeQuantize> map_quantizer(const Quantization& quantization, double initial_min) {
  return std::make_shared<FakeQuantize>(
      FakeQuantizeOptions{.delay = quantization.delay, .initial_min = initial_min, .initial_max = kInitial});
}

}  // namespace

std::optional<Quantization> behind_activations(std::optional<Quantization> quantization) {
  if (quantization) quantization->before_activation = false;
  return quantization;
}

std::vector<ConvolutionQuantizers> quantizers_of_maps(torch::nn::Module& parent, const std::string& scope,
                                                      int64_t channels, const std::optional<Quantization>& quantization,
                                                      const QuantizedMaps& maps) {
  std::vector<ConvolutionQuantizers> result;
  if (!quantization) return result;
  const FakeQuantizeOptions of_weights{.range = FakeQuantizeOptions::Range::kLast,
                                       .narrow = true,
                                       .channels = quantization->weights_per_channel ? channels : 0,
                                       .delay = quantization->delay,
                                       .initial_min = -kInitial,
                                       .initial_max = kInitial};
  for (size_t map = 0; map < maps.count; ++map) {
    const std::string end = maps.count > 1 ? fmt::format("/feature_{}", map) : "";
    ConvolutionQuantizers of_map;
    of_map.weights = map > 0 && !maps.own_weights
                         ? result[0].weights
                         : add_child(parent, scope + "weights_quant" + (maps.own_weights ? end : ""),
                                     std::make_shared<FakeQuantize>(of_weights));
    of_map.result = add_child(parent, scope + "act_quant" + end, map_quantizer(*quantization, 0));
    of_map.before_activation = quantization->before_activation;
    result.push_back(of_map);
  }
  return result;
}

std::shared_ptr<FakeQuantize> add_sum_quantizer(torch::nn::Module& parent, const std::string& scope,
                                                const std::optional<Quantization>& quantization) {
  return quantization ? add_child(parent, scope, map_quantizer(*quantization, -kInitial)) : nullptr;
}

bool is_of_quantizer(const std::string& our_name) { return our_name.find("_quant.") != std::string::npos; }

std::vector<std::string> tf_quantizer_names(const std::string& our_name) {
  static const std::regex range("(.*_quant)(/feature_([0-9]+))?(/min|/max)");
  std::smatch parts;
  std::string name = tf_name(our_name);
  if (!std::regex_match(name, parts, range)) return {};
  const std::string map = parts[3].matched && parts[3] != "0" ? "_" + parts[3].str() : "";
  name = parts[1].str() + parts[4].str();
  // The scope of a predictor that maps share is opened once more for each: WeightSharedConvolutionalBoxPredictor_1
  if (!map.empty()) name.insert(name.find('/'), map);
  static const std::regex projection("^([^/]*)/(ProjectionLayer/conv2d_)([1-9][0-9]*)/");
  name = std::regex_replace(name, projection, "$1_$3/$2$3/");
  static const std::regex descending("/fpn/(projection|smoothing)_"), sum("/fpn/sum(_[0-9]+)?_quant/"),
      backbone("FeatureExtractor/([^/]+)/");
  name = std::regex_replace(name, descending, "/fpn/top_down/$1_");
  if (std::regex_search(name, sum))  // by the operation, which has another name in older graphs
    return {std::regex_replace(name, sum, "/fpn/top_down/add$1/activation_AddV2_quant/"),
            std::regex_replace(name, sum, "/fpn/top_down/add$1/activation_Add_quant/")};
  return {name, std::regex_replace(name, backbone, "FeatureExtractor/$1/$1/")};
}

}  // namespace osprey::nn
