#include "osprey/train/machine_check.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "osprey/base/json_text.h"
#include "osprey/base/versions.h"
#include "osprey/kernels/device.h"
#include "train/machine_findings.h"

namespace osprey::train {
namespace {
using State = MachineFinding::State;

const char* state_name(State state) {
  switch (state) {
    case State::kOk:
      return "ok";
    case State::kWarning:
      return "warning";
    case State::kProblem:
      break;
  }
  return "problem";
}

std::string counted(const Findings& findings, State state) {
  const auto count = std::ranges::count(findings, state, &MachineFinding::state);
  return fmt::format("{} {}{}", count, state_name(state), count == 1 ? "" : "s");
}

}  // namespace

std::vector<MachineFinding> check_machine(const MachineCheckOptions& options) {
  Findings findings;
  look_at_host(findings);
  look_at_gpus(findings);
  if (!options.model_dir.empty()) look_at_folder(findings, options.model_dir);
  try_steps(findings, "cpu", options.pipeline);
  if (at::hasCUDA() && kernels::device::compiled())
    for (int i = 0; i < at::detail::getCUDAHooks().deviceCount(); ++i)
      try_steps(findings, fmt::format("cuda:{}", i), options.pipeline);
  return findings;
}

bool has_problem(const std::vector<MachineFinding>& findings) {
  return std::ranges::find(findings, State::kProblem, &MachineFinding::state) != findings.end();
}

std::string machine_text(const std::vector<MachineFinding>& findings) {
  std::string text;
  for (const MachineFinding& finding : findings) {
    text += fmt::format("{:<7}  {:<15} {}\n", state_name(finding.state), finding.subject, finding.found);
    if (!finding.advice.empty()) text += fmt::format("{:<24} -> {}\n", "", finding.advice);
  }
  return text + fmt::format("{}, {}\n", counted(findings, State::kProblem), counted(findings, State::kWarning));
}

std::string machine_json(const std::vector<MachineFinding>& findings) {
  nlohmann::ordered_json json = {{"problem", has_problem(findings)}, {"versions", nlohmann::ordered_json::object()}};
  for (const Version& version : versions()) json["versions"][version.part] = version.number;
  json["findings"] = nlohmann::ordered_json::array();
  for (const MachineFinding& finding : findings)
    json["findings"].push_back({{"subject", finding.subject},
                                {"state", state_name(finding.state)},
                                {"found", finding.found},
                                {"advice", finding.advice}});
  return json_text(json, /*indent=*/2) + "\n";
}

}  // namespace osprey::train
