#include "support/onnx.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::testing {
namespace {

const std::string kPython = OSPREY_SOURCE_DIR "/build/venv/bin/python";

const std::vector<std::pair<std::string, at::ScalarType>> kTypes{
    {"uint8", at::kByte}, {"int64", at::kLong}, {"float32", at::kFloat}, {"bool", at::kBool}};

std::string name_of(at::ScalarType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  throw std::runtime_error("run_onnx: a type that it does not hand over");
}

at::ScalarType type_of(const std::string& name) {
  for (const auto& [known, type] : kTypes)
    if (known == name) return type;
  throw std::runtime_error("run_onnx: " + name + " is a type that it does not hand over");
}

}  // namespace

bool has_onnx_runtime() {
  static const bool result = std::system((kPython + " -c 'import onnxruntime' 2>/dev/null").c_str()) == 0;
  return result;
}

std::map<std::string, at::Tensor> run_onnx(const std::string& model, const std::map<std::string, at::Tensor>& inputs) {
  const TempDir folder;
  write_file(folder / "model.onnx", model);
  nlohmann::json described = nlohmann::json::array();
  for (const auto& [name, value] : inputs) {
    const at::Tensor plain = value.contiguous();
    write_file(folder / (name + ".in"), {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()});
    described.push_back({{"name", name}, {"type", name_of(value.scalar_type())}, {"shape", value.sizes().vec()}});
  }
  write_file(folder / "inputs.json", described.dump());
  if (std::system((kPython + " " OSPREY_SOURCE_DIR "/tests/support/run_onnx.py " + (folder / "")).c_str()) != 0)
    throw std::runtime_error("ONNX Runtime cannot run the model");
  std::map<std::string, at::Tensor> result;
  for (const auto& one : read_json(folder / "outputs.json")) {
    const std::string name = one.at("name"), bytes = read_file(folder / (name + ".out"));
    result[name] = at::from_blob(const_cast<char*>(bytes.data()), one.at("shape").get<std::vector<int64_t>>(),
                                 type_of(one.at("type")))
                       .clone();
  }
  return result;
}

}  // namespace osprey::testing
