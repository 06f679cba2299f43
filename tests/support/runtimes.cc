#include "support/runtimes.h"

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
    {"uint8", at::kByte}, {"int64", at::kLong}, {"float32", at::kFloat}, {"bool", at::kBool}, {"int8", at::kChar}};

std::string name_of(at::ScalarType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  throw std::runtime_error("a type that is not handed over");
}

at::ScalarType type_of(const std::string& name) {
  for (const auto& [known, type] : kTypes)
    if (known == name) return type;
  throw std::runtime_error(name + " is a type that is not handed over");
}

bool has_package(const std::string& name) {
  return std::system((kPython + " -c 'import " + name + "' 2>/dev/null").c_str()) == 0;
}

/// What a script makes of `model` in a folder and the inputs beside it; see run_onnx.py.
std::map<std::string, at::Tensor> run(const std::string& script, const std::string& model,
                                      const std::map<std::string, at::Tensor>& inputs) {
  const TempDir folder;
  write_file(folder / "model", model);
  nlohmann::json described = nlohmann::json::array();
  for (const auto& [name, value] : inputs) {
    const at::Tensor plain = value.contiguous();
    write_file(folder / (name + ".in"), {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()});
    described.push_back({{"name", name}, {"type", name_of(value.scalar_type())}, {"shape", value.sizes().vec()}});
  }
  write_file(folder / "inputs.json", described.dump());
  if (std::system((kPython + " " OSPREY_SOURCE_DIR "/tests/support/" + script + " " + (folder / "")).c_str()) != 0)
    throw std::runtime_error(script + " cannot run the model");
  std::map<std::string, at::Tensor> result;
  for (const auto& one : read_json(folder / "outputs.json")) {
    const std::string name = one.at("name"), bytes = read_file(folder / (name + ".out"));
    result[name] = at::from_blob(const_cast<char*>(bytes.data()), one.at("shape").get<std::vector<int64_t>>(),
                                 type_of(one.at("type")))
                       .clone();
  }
  return result;
}

}  // namespace

bool has_onnx_runtime() {
  static const bool result = has_package("onnxruntime");
  return result;
}

std::map<std::string, at::Tensor> run_onnx(const std::string& model, const std::map<std::string, at::Tensor>& inputs) {
  return run("run_onnx.py", model, inputs);
}

bool has_tflite_runtime() {
  static const bool result = has_package("ai_edge_litert");
  return result;
}

std::map<std::string, at::Tensor> run_tflite(const std::string& model,
                                             const std::map<std::string, at::Tensor>& inputs) {
  return run("run_tflite.py", model, inputs);
}

}  // namespace osprey::testing
