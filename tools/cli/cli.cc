#include "cli/cli.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>

#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/base/logging.h"
#include "osprey/base/memory.h"
#include "osprey/base/nearest.h"
#include "osprey/base/versions.h"
#include "osprey/kernels/device.h"

namespace osprey::cli {
namespace {
namespace fs = std::filesystem;

/// A device, pipe or link, such as /dev/stdout, that must not be replaced by a file.
bool is_special(const std::string& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) && !fs::is_regular_file(fs::symlink_status(file, ignored));
}

constexpr const char* kExitCodes =
    "Exit codes: 0 done, 1 a bug of Osprey, 2 flags or config, 3 data, files or disk, 4 diverged, 5 out of memory,\n"
    "            6 the export differs from its checkpoint, 130 or 143 stopped by a signal";

/// The flag of the program closest to an unknown one; "" where none is close.
std::string nearest_flag(const CLI::App& app, const std::string& unknown) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  return nearest(unknown.substr(0, unknown.find('=')), known);
}

/// `--noflag` becomes `--flag=false` where `flag` is a switch of the program and `noflag` is not.
std::vector<std::string> arguments(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> result(argv + 1, argv + argc);
  for (std::string& argument : result) {
    if (argument.rfind("--no", 0) != 0 || app.get_option_no_throw(argument) != nullptr) continue;
    const CLI::Option* flag = app.get_option_no_throw("--" + argument.substr(4));
    if (flag != nullptr && flag->get_expected_min() == 0) argument = "--" + argument.substr(4) + "=false";
  }
  std::reverse(result.begin(), result.end());  // CLI11 takes them from the back
  return result;
}

/// Of a flag given twice the last counts, unless it collects.
void let_the_last_count(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (option->get_expected_max() == 1 && option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

int failure(const CLI::App& app, ExitCode code, const std::string& message) {
  std::fputs(fmt::format("{}: {}\n", app.get_name(), message).c_str(), stderr);  // fmt::print throws on a full disk
  note_in_log_file(message);
  return static_cast<int>(code);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string message = error.what();
  const bool only_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  for (const std::string& extra : app.remaining()) {  // a misspelt flag may be the one that is said to be missing
    if (!only_unknown && !extra.starts_with('-')) continue;
    const std::string nearest = nearest_flag(app, extra);
    message = fmt::format("unknown argument '{}'{}", extra,
                          nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
    break;
  }
  return failure(app, ExitCode::kUsage, message + " (see --help)");
}

std::string versions_text() {
  std::string text;
  for (const Version& version : versions())
    text += fmt::format("{}{} {}", text.empty() ? "" : "\n", version.part, version.number);
  return text;
}

std::string unwritten(int reason) {
  return "the output cannot be written" + (reason != 0 ? std::string(": ") + std::strerror(reason) : "");
}

/// What `body` ends with, be it an exception.
int code_of(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(arguments(app, argc, argv));
    return body();
  } catch (const CLI::Success& success) {  // --help and --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  } catch (const Error& error) {
    return failure(app, error.exit_code(), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string path = error.path1().string();
    return failure(app, ExitCode::kData,
                   path.empty() ? error.what() : path + ": cannot be used: " + error.code().message());
  } catch (const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    const std::string message = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
    if (is_out_of_memory(error))
      return failure(app, ExitCode::kOutOfMemory, "out of memory (" + message + "); a smaller batch_size may fit");
    const auto* of_system = dynamic_cast<const std::system_error*>(&error);
    if (of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again)
      return failure(
          app, ExitCode::kData,
          fmt::format("a thread cannot be started: {}; ask for fewer workers, or raise the limit (ulimit -u)",
                      of_system->code().message()));
    return failure(app, ExitCode::kInternal, "internal error: " + message);
  }
}

}  // namespace

CLI::Validator within(double minimum, double maximum) {
  return CLI::Validator(
      [minimum, maximum](std::string& text) -> std::string {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc{} && end == text.data() + text.size() && value >= minimum && value <= maximum) return {};
        return fmt::format("must be a number in {:g}..{:g}, got '{}'", minimum, maximum, text);
      },
      fmt::format("({:g}..{:g})", minimum, maximum), "within");
}

CLI::Validator at_least(double minimum) {
  return CLI::Validator(
      [minimum](std::string& text) -> std::string {
        double value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc{} && end == text.data() + text.size() && value >= minimum) return {};
        return fmt::format("must be a number >= {:g}, got '{}'", minimum, text);
      },
      fmt::format("(>= {:g})", minimum), "at_least");
}

void add_config_flags(CLI::App& app, ConfigFlags& flags, bool required) {
  app.add_option("--pipeline_config,--pipeline_config_path", flags.pipeline_config,
                 "The pipeline.config (protobuf text)")
      ->required(required)
      ->group("Config");
  app.add_option("--set", flags.overrides.assignments,
                 "Overrides one field: path.to.field=value; list[0].x=value; list+=value; repeatable")
      ->group("Config")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--config_override", flags.overrides.merged_text,
                 "Text of a pipeline config that is merged over the file")
      ->group("Config");
  app.add_flag_callback(
         "--strict", [&flags] { flags.overrides.assignments.emplace_back("strict=true"); },
         "What would only be warned about ends the program (strict)")
      ->group("Config");
  app.add_option(
         "--data_dir", flags.overrides.data_dir,
         "Folder of the data: put before relative paths of the input readers, in place of PATH_TO_BE_CONFIGURED; a "
         "reader without paths reads train-* or validation-* there")
      ->group("Config");
}

CLI::Option* add_device_flag(CLI::App& app, std::string& device) {
  device = at::hasCUDA() && kernels::device::compiled() ? "cuda" : "cpu";
  return app.add_option("--device", device, "cpu, cuda or cuda:<n>; default: cuda where there is one");
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw DataError(unwritten(errno));
}

void check_writable(const std::string& file) {
  if (file == kStdout) return;
  std::error_code ignored;
  const auto refuse = [&](int reason) { throw DataError(file + ": cannot be written: " + std::strerror(reason)); };
  if (fs::is_directory(file, ignored)) refuse(EISDIR);
  const fs::path folder = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : fs::path(".");
  if (::access(is_special(file) ? file.c_str() : folder.c_str(), W_OK) != 0) refuse(errno);
}

void write_file(const std::string& file, const std::string& bytes) {
  if (file == kStdout) return print(bytes);
  if (!is_special(file)) return write_whole(file, bytes);
  std::FILE* const out = std::fopen(file.c_str(), "wb");
  const bool written = out != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
  if ((out != nullptr && std::fclose(out) != 0) || !written)
    throw DataError(file + ": cannot be written: " + std::strerror(errno));
}

void accept_logging_flags(CLI::App& app) {
  app.add_flag(
         "--logtostderr,--alsologtostderr",
         [](int64_t) { SPDLOG_INFO("the log goes to stderr anyway; no flag is needed for that"); },
         "Accepted; the log goes to stderr anyway")
      ->group("As in the TF Object Detection API");
}

int run_with_code(CLI::App& app, const std::string& example, int argc, char** argv, const std::function<int()>& body) {
  set_up_logging();
  use_exact_float32();
  app.name(std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1));
  app.footer(fmt::format("Example:\n  {}\n\n{}", example, kExitCodes));
  app.set_version_flag("--version", versions_text);
  app.get_formatter()->column_width(36);
  let_the_last_count(app);
  const int code = code_of(app, argc, argv, body);
  if (code != static_cast<int>(ExitCode::kDone)) return code;
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return failure(app, ExitCode::kData, unwritten(errno));
}

void use_exact_float32() {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
}

int run(CLI::App& app, const std::string& example, int argc, char** argv, const std::function<void()>& body) {
  return run_with_code(app, example, argc, argv, [&] {
    body();
    return static_cast<int>(ExitCode::kDone);
  });
}

}  // namespace osprey::cli
