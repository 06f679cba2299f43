#include "cli/cli.h"

#include <gmock/gmock.h>

#include <new>

#include "osprey/base/error.h"

namespace osprey::cli {
namespace {

using ::testing::HasSubstr;

struct Result {
  int code;
  std::string out, err;
};

/// Runs a program with two flags, --steps N and --verbose, and the given body.
Result run_program(std::vector<std::string> arguments, const std::function<void(int steps, bool verbose)>& body) {
  CLI::App app{"A program."};
  int steps = 0;
  bool verbose = true;
  app.add_option("--steps", steps, "Steps");
  app.add_flag("--verbose", verbose, "Talk");
  arguments.insert(arguments.begin(), "/bin/program");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code =
      run(app, "program --steps 3", static_cast<int>(argv.size()), argv.data(), [&] { body(steps, verbose); });
  return {code, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
}

void nothing(int, bool) {}

TEST(Cli, HelpShowsTheExampleAndTheExitCodes) {
  const Result result = run_program({"--help"}, nothing);
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("program --steps 3"));
  EXPECT_THAT(result.out, HasSubstr("2 flags or config"));
}

TEST(Cli, MisspeltFlagNamesTheNearestOne) {
  const Result result = run_program({"--stesp=3"}, nothing);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("'--stesp=3'; did you mean --steps?"));
}

TEST(Cli, OfAFlagGivenTwiceTheLastCounts) {
  EXPECT_EQ(run_program({"--steps=3", "--steps", "4"}, [](int steps, bool) { EXPECT_EQ(steps, 4); }).code, 0);
}

TEST(Cli, NoFlagTurnsASwitchOff) {
  EXPECT_EQ(run_program({"--noverbose", "--steps=3"},
                        [](int steps, bool verbose) {
                          EXPECT_FALSE(verbose);
                          EXPECT_EQ(steps, 3);
                        })
                .code,
            0);
}

TEST(Cli, ErrorsBecomeTheirExitCodes) {
  const auto code_of = [](auto error) { return run_program({}, [&](int, bool) { throw error; }).code; };
  EXPECT_EQ(code_of(ConfigError("x")), 2);
  EXPECT_EQ(code_of(DataError("x")), 3);
  EXPECT_EQ(code_of(CheckpointError("x")), 3);
  EXPECT_EQ(code_of(CheckpointError("x", ExitCode::kUsage)), 2);
  EXPECT_EQ(code_of(DivergedError("x")), 4);
  EXPECT_EQ(code_of(std::bad_alloc()), 5);
  EXPECT_EQ(code_of(ExportError("x")), 6);
  EXPECT_EQ(code_of(std::logic_error("x")), 1);
}

TEST(Cli, MessageOfAnErrorStandsOnStderr) {
  const Result result = run_program({}, [](int, bool) { throw DataError("photos.record: record 7: truncated"); });
  EXPECT_EQ(result.err, "program: photos.record: record 7: truncated\n");
}

}  // namespace
}  // namespace osprey::cli
