#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "osprey/base/cpu.h"
#include "osprey/base/error.h"
#include "osprey/base/memory.h"
#include "osprey/train/run_directory.h"
#include "train/machine_findings.h"

namespace osprey::train {
namespace {
namespace fs = std::filesystem;
using State = MachineFinding::State;

constexpr double kGib = 1 << 30;

std::string gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / kGib); }

const char* words_for(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAny:
      return "any CPU (neither AVX2 nor AVX-512)";
    case InstructionSet::kAvx2:
      return "AVX2";
    case InstructionSet::kAvx512:
      return "AVX-512";
    case InstructionSet::kAvx512Bf16:
      return "AVX-512 with BF16";
    case InstructionSet::kAmxBf16:
      break;
  }
  return "AMX with BF16";
}

void look_at_processor(Findings& findings) {
  const char* const limit = std::getenv("OSPREY_MAX_CPU_ISA");
  std::string found = fmt::format("{}: kernels for {}", processor_name(), words_for(instruction_set()));
  if (limit != nullptr) found += fmt::format(", as OSPREY_MAX_CPU_ISA={} allows", limit);
  if (!has_bfloat16_arithmetic()) found += "; no arithmetic of bf16, precision AUTO is fp32";
  if (limit == nullptr && instruction_set() == InstructionSet::kAny)
    findings.push_back({"cpu", State::kWarning, found, "a CPU with AVX2 trains several times as fast"});
  else
    findings.push_back({"cpu", State::kOk, found, ""});
}

void look_at_memory(Findings& findings) {
  const auto bytes = static_cast<double>(available_bytes());
  if (bytes == 0) return findings.push_back({"memory", State::kOk, "the system does not say what is free", ""});
  const std::string found = gib(bytes) + " can be taken";
  const char* const advice =
      "end other programs, or raise the limit of the container (docker run --memory) or of the shell (ulimit -v)";
  constexpr double kLeast = 1 * kGib, kEnough = 4 * kGib;  // a small model, batch 8; the same with room for records
  if (bytes < kLeast)
    findings.push_back({"memory", State::kProblem, found, advice});
  else if (bytes < kEnough)
    findings.push_back({"memory", State::kWarning, found + ": enough for small batches only", advice});
  else
    findings.push_back({"memory", State::kOk, found, ""});
}

/// Replicas of one machine sum in it: ours where they are on the CPU, NCCL where they are on GPUs.
void look_at_shared_memory(Findings& findings) {
  std::error_code error;
  const fs::space_info space = fs::space("/dev/shm", error);
  if (::access("/dev/shm", W_OK) != 0) error = {errno, std::generic_category()};
  constexpr double kEnough = 256 << 20;
  if (!error && static_cast<double>(space.available) >= kEnough)
    return findings.push_back(
        {"/dev/shm", State::kOk, gib(static_cast<double>(space.available)) + " of shared memory are free", ""});
  findings.push_back(
      {"/dev/shm", State::kWarning,
       error ? "cannot be used: " + error.message()
             : fmt::format("{} MiB of shared memory are free", space.available >> 20),
       "several replicas on this machine need it (--num_clones): docker run --shm-size=1g, or --ipc=host"});
}

void look_at_open_files(Findings& findings) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::string found =
      fmt::format("{} at once", limit.rlim_cur == RLIM_INFINITY ? "any number" : std::to_string(limit.rlim_cur));
  constexpr rlim_t kEnough = 1024;  // every record file of a reader is held open
  if (limit.rlim_cur >= kEnough) return findings.push_back({"open files", State::kOk, found, ""});
  findings.push_back({"open files", State::kWarning, found,
                      "a data set of many record files holds each of them open: ulimit -n 4096"});
}

/// The file of the library that answers for malloc.
std::string allocator_library() {
  Dl_info info{};
  void* const place = ::dlsym(RTLD_DEFAULT, "malloc");
  if (place == nullptr || ::dladdr(place, &info) == 0 || info.dli_fname == nullptr) return "";
  return fs::path(info.dli_fname).filename().string();
}

/// Whether the system gives huge pages to those who ask for them, or does not know them.
bool gives_huge_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return !std::getline(in, line) || line.find("[never]") == line.npos;
}

void look_at_allocator(Findings& findings) {
  const std::string library = allocator_library();
  if (library.starts_with("libc.") || library.starts_with("libc-"))
    findings.push_back({"allocator", State::kWarning, library + ", which gives large blocks back to the system at once",
                        "steps on the CPU are slower and need more memory: build with OSPREY_TCMALLOC=ON, or set "
                        "LD_PRELOAD=libtcmalloc_minimal.so.4"});
  else if (!gives_huge_pages())
    findings.push_back(
        {"allocator", State::kWarning, library + ", but the system gives no huge pages",
         "steps on the CPU are slower: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)"});
  else
    findings.push_back({"allocator", State::kOk, library.empty() ? "of the program" : library, ""});
}

}  // namespace

void look_at_threads(Findings& findings, int64_t threads, const ProcessorLimits& limits) {
  const int64_t usable = limits.usable();
  std::string found = fmt::format("{} for a step, on {} processors", threads, limits.of_machine);
  if (limits.allowed < limits.of_machine) found += fmt::format(", of which this process may use {}", limits.allowed);
  if (limits.share > 0) found += fmt::format(", with the time of {:g} (control group)", limits.share);
  if (threads > usable)
    findings.push_back({"threads", State::kWarning, found,
                        fmt::format("they wait for each other: set OMP_NUM_THREADS={}, or allow more", usable)});
  else if (threads < usable / 2)
    findings.push_back({"threads", State::kWarning, found,
                        fmt::format("most processors are idle in a step on the CPU: set OMP_NUM_THREADS={}", usable)});
  else
    findings.push_back({"threads", State::kOk, found, ""});
}

void look_at_host(Findings& findings) {
  look_at_processor(findings);
  look_at_threads(findings, at::get_num_threads(), processor_limits());
  look_at_memory(findings);
  look_at_shared_memory(findings);
  look_at_open_files(findings);
  look_at_allocator(findings);
}

void look_at_folder(Findings& findings, const std::string& model_dir) {
  std::vector<fs::path> made;  // the innermost first
  std::error_code error;
  const fs::path whole = fs::absolute(model_dir).lexically_normal();
  if (!fs::exists(whole / ".lock", error)) made.push_back(whole / ".lock");
  for (fs::path folder = whole; !fs::exists(folder, error) && folder.has_relative_path(); folder = folder.parent_path())
    made.push_back(folder);
  constexpr double kEnough = 2 * kGib;  // some checkpoints of a model with 50 million parameters
  try {
    const RunDirectory held(model_dir);
    const auto bytes = static_cast<double>(fs::space(whole).available);
    const std::string found = fmt::format("{} can be written, {} are free", model_dir, gib(bytes));
    if (bytes < kEnough)
      findings.push_back({"model_dir", State::kWarning, found,
                          "a checkpoint holds the weights three times or so: free some space, or keep fewer of them "
                          "(train_config.checkpoint.keep_last)"});
    else
      findings.push_back({"model_dir", State::kOk, found, ""});
  } catch (const DataError& failure) {
    findings.push_back(
        {"model_dir", State::kProblem, failure.what(), "name another folder, or change who may write it"});
  }
  for (const fs::path& path : made) fs::remove(path, error);
}

}  // namespace osprey::train
