#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "osprey/config/pipeline.h"

namespace osprey::cli {

/// The flags by which every program receives its config.
struct ConfigFlags {
  std::string pipeline_config;
  config::Overrides overrides;
};

/// A number >= minimum, said as short as that.
CLI::Validator at_least(double minimum);

/// A number in minimum..maximum, both included.
CLI::Validator within(double minimum, double maximum);

/// Adds --pipeline_config (also --pipeline_config_path), --set, --strict, --config_override and --data_dir.
void add_config_flags(CLI::App& app, ConfigFlags& flags, bool required = true);

/// Adds --device; `device` is a GPU from here on where there is one and this build has kernels for it, else the CPU.
CLI::Option* add_device_flag(CLI::App& app, std::string& device);

/// Writes to stdout, at once.
///
/// throws  DataError with the reason, such as a full disk
void print(const std::string& text);

/// The name of a file that stands for stdout in the two below.
inline constexpr const char* kStdout = "-";

/// Asks before the work whether `file`, which a flag names, can be written; makes nothing.
/// throws DataError with the reason
void check_writable(const std::string& file);

/// Writes a file of results: whole or not at all; devices, pipes and links as they are.
///
/// throws  DataError with the reason
void write_file(const std::string& file, const std::string& bytes);

/// Accepts --logtostderr and --alsologtostderr, which tutorials of other tools carry; the log goes to stderr anyway.
void accept_logging_flags(CLI::App& app);

/// From here on products of float32 have all their bits on GPUs, too, where libtorch shortens those of convolutions
/// unless it is told not to. Programs start so; training turns TF32 on where its precision says so.
void use_exact_float32();

/// The habits that all programs share: help with an example and the exit codes, --version, the nearest flag for a
/// misspelt one, `--noflag` for `--flag=false`, log to stderr, every error as one line (or block) on stderr and its
/// exit code; output that could not be written is one, too.
///
///     int main(int argc, char** argv) {
///       CLI::App app{"Draws and lists what a detector finds."};
///       ... add flags ...
///       return osprey::cli::run(app, "detect --model exported photo.jpg", argc, argv, [&] { ...; });
///     }
///
/// example  a command line to copy, shown by --help
/// body     runs after the flags are parsed; what it throws becomes the exit code
int run(CLI::App& app, const std::string& example, int argc, char** argv, const std::function<void()>& body);

/// As above, for a program whose body ends with an exit code of its own (130 or 143 after a signal).
int run_with_code(CLI::App& app, const std::string& example, int argc, char** argv, const std::function<int()>& body);

}  // namespace osprey::cli
