#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/epoch_order.h"
#include "data/problem_log.h"
#include "osprey/data/example_decoder.h"
#include "osprey/data/example_index.h"
#include "osprey/data/loader.h"

namespace osprey::data {

/// What batches are made of.
struct LoaderParts {
  std::unique_ptr<ExampleIndex> index;
  std::unique_ptr<ExampleDecoder> decoder;
  EpochOrder order;
  BatchShape shape;
  SourceOptions options;
  std::string reader;   ///< how messages call it
  ProblemLog problems;  ///< of the index, as far as they were told
  bool fail_on_bad = false;
  std::optional<int64_t> num_examples_in_run;  ///< nothing: without end
  bool drop_remainder = false;
  int64_t cache_bytes = 0;  ///< of decoded examples that are kept for later epochs
};

/// Starts the threads that make batches.
/// ahead  finished batches that may wait
std::unique_ptr<RecordSource> start_loader(LoaderParts parts, int64_t num_threads, int64_t ahead);

/// Ends an evaluation at an unusable record.
/// error   names the record
[[noreturn]] void fail_evaluation(const std::string& error, const std::string& reader);

}  // namespace osprey::data
