#include "cli/cli.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <new>
#include <system_error>

#include "osprey/base/error.h"
#include "support/golden.h"
#include "support/temp_dir.h"

namespace osprey::cli {
namespace {

using osprey::testing::read_file;
using osprey::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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

TEST(Cli, MisspeltFlagIsNamedBeforeTheOneThatItLeavesMissing) {
  CLI::App app{"A program."};
  std::string model;
  app.add_option("--model", model, "Model")->required();
  char program[] = "program", flag[] = "--modle=x";
  char* argv[] = {program, flag};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run(app, "program --model x", 2, argv, [] {}), 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("'--modle=x'; did you mean --model?"));
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
  EXPECT_EQ(code_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))), 3);
  EXPECT_EQ(code_of(std::system_error(std::make_error_code(std::errc::invalid_argument))), 1);
}

TEST(Cli, AFileSystemErrorIsOneLineWithThePath) {
  const Result result = run_program({}, [](int, bool) { std::filesystem::directory_iterator("/no/such/file"); });
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.err, "program: /no/such/file: cannot be used: No such file or directory\n");
}

// Sends stdout, which is captured, to a disk that is full.
void fill_the_disk() {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ::dup2(full, STDOUT_FILENO);
  ::close(full);
}

TEST(Cli, OutputThatIsLostIsAnErrorOfTheDisk) {
  for (const bool at_once : {false, true}) {
    const Result result = run_program({}, [&](int, bool) {
      fill_the_disk();
      at_once ? print("text\n") : void(std::fputs("text\n", stdout));
    });
    EXPECT_EQ(result.code, 3);
    EXPECT_EQ(result.err, "program: the output cannot be written: No space left on device\n");
    std::clearerr(stdout);
  }
}

TEST(Cli, NumbersOutsideTheirRangeAreRefused) {
  for (std::string text : {"-0.1", "1.5", "nan", "x", "0.5x"})
    EXPECT_THAT(within(0, 1)(text), HasSubstr("in 0..1, got '" + text + "'"));
  for (std::string text : {"0", "1", "0.25"}) EXPECT_EQ(within(0, 1)(text), "");
}

TEST(Cli, FilesOfResultsAppearWholeAndTheirFolderIsLookedAtBefore) {
  TempDir dir;
  check_writable(dir / "x.json");
  EXPECT_TRUE(std::filesystem::is_empty(dir / ""));
  write_file(dir / "x.json", "text");
  EXPECT_EQ(read_file(dir / "x.json"), "text");
  std::filesystem::create_symlink(dir / "x.json", dir / "link.json");
  write_file(dir / "link.json", "other");
  EXPECT_EQ(read_file(dir / "x.json"), "other");
  EXPECT_THAT([&] { check_writable(dir / "no/x.json"); }, ThrowsMessage<DataError>(HasSubstr("No such file")));
  EXPECT_THAT([&] { check_writable(dir / ""); }, ThrowsMessage<DataError>(HasSubstr("directory")));
}

TEST(Cli, AFileCalledMinusIsStdout) {
  const Result result = run_program({}, [](int, bool) {
    check_writable(kStdout);
    write_file("-", "text\n");
  });
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "text\n");
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST(Cli, MessageOfAnErrorStandsOnStderr) {
  const Result result = run_program({}, [](int, bool) { throw DataError("photos.record: record 7: truncated"); });
  EXPECT_EQ(result.err, "program: photos.record: record 7: truncated\n");
}

}  // namespace
}  // namespace osprey::cli
