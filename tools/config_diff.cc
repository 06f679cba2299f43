// Lists the fields in which two pipeline configs differ.
#include "cli/cli.h"
#include "osprey/config/effective.h"

int main(int argc, char** argv) {
  CLI::App app{"Lists the fields in which two pipeline configs differ; nothing where they are equal."};
  std::string before, after;
  app.add_option("before", before, "A pipeline.config")->required();
  app.add_option("after", after, "Another one")->required();
  return osprey::cli::run(app, "config_diff pipeline.config run/pipeline.config", argc, argv, [&] {
    using namespace osprey::config;
    osprey::cli::print(differences(*load_pipeline(before).message, *load_pipeline(after).message));
  });
}
