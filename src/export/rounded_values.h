#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace osprey {

// Which values of a traced network are rounded where it is to compute with 8 bits.

/// Whether it is an operation of libtorch that gives one tensor of floats.
bool gives_floats(const torch::jit::Node& node);
bool convolves(const torch::jit::Node& node);
/// Whether it rounds values itself.
bool rounds(const torch::jit::Node& node);
/// Whether it gives some of the values that it reads, and a filling. (That of a padding is zero, or what a pooling
/// never takes.)
bool only_moves(const torch::jit::Node& node);
/// What is only moved until it is `value`; of several that are put together the first.
const torch::jit::Value* source(const torch::jit::Value* value);
/// Whether it is an activation that limits values.
bool clamps(const torch::jit::Node& node);

struct RoundedValues {
  /// In the order of the network: what convolutions, sums, products and the like give from the first convolutions to
  /// the last ones; behind an activation that limits it, where that alone reads it, and not where something that rounds
  /// does. What is put together of rounded values is not rounded again.
  std::vector<torch::jit::Value*> all;
  /// Those whose numbers have to stand for the same, since an operation on numbers gives such as it takes: what is put
  /// together, and what is averaged and its averages.
  std::vector<std::vector<const torch::jit::Value*>> alike;
};

/// with_picture  also, before all others, what the first convolutions read
RoundedValues rounded_values(torch::jit::Graph& network, bool with_picture);

}  // namespace osprey
