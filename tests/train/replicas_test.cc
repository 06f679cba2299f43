#include "osprey/train/replicas.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <map>
#include <thread>

#include "osprey/base/error.h"
#include "osprey/core/batch.h"
#include "osprey/kernels/device.h"
#include "osprey/nn/batch_norm.h"
#include "osprey/train/gradient_sum.h"
#include "osprey/train/step.h"
#include "support/golden.h"
#include "support/toy_model.h"
#include "train/on_replicas.h"
#include "train/toy_run.h"

namespace osprey::train {
namespace {

using osprey::testing::expect_close;
using osprey::testing::expect_well;
using osprey::testing::make_toy_source;
using osprey::testing::on_replicas;
using osprey::testing::ToyOptions;
using osprey::testing::ToyRun;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void sum_copy_compare_and_meet(bool one_machine) {
  const auto work = [](Replicas& replicas) {
    for (const int64_t size : {5, 1, 100000}) {  // short ones and one that is too long for shared memory
      for (int round = 0; round < 50; ++round) {
        const at::Tensor numbers = at::full({size}, static_cast<double>(replicas.rank() + round), at::kDouble);
        replicas.sum(numbers);
        EXPECT_TRUE(at::equal(numbers, at::full({size}, 3.0 * round + 3, at::kDouble)));
      }
    }
    const at::Tensor weights = at::full({2, 3}, static_cast<double>(replicas.rank())).t();
    replicas.copy_from_chief({weights});
    EXPECT_EQ(weights.abs().sum().item<double>(), 0);
    EXPECT_EQ(replicas.largest(replicas.rank() == 1 ? 15 : 0), 15);
    EXPECT_THAT(replicas.texts(std::string(static_cast<size_t>(replicas.rank()), 'x')),
                ::testing::ElementsAre("", "x", "xx"));
    const std::vector<std::string> all = replicas.gather(std::string(static_cast<size_t>(2 * replicas.rank()), 'y'));
    if (replicas.is_chief()) {
      EXPECT_THAT(all, ::testing::ElementsAre("", "yy", "yyyy"));
    }
    EXPECT_EQ(replicas.is_chief(), replicas.rank() == 0);
    replicas.meet();
  };
  expect_well(on_replicas(3, work, 60, one_machine));
}

TEST(Replicas, SumCopyCompareAndMeet) { sum_copy_compare_and_meet(/*one_machine=*/true); }
TEST(Replicas, SumCopyCompareAndMeetThroughSockets) { sum_copy_compare_and_meet(/*one_machine=*/false); }

TEST(Replicas, NameThoseThatDiffer) {
  for (const std::string& error : on_replicas(3, [](Replicas& replicas) {
         require_same(replicas, "version", "1");
         require_same(replicas, "config", replicas.rank() == 1 ? "batch_size: 4" : "batch_size: 8");
       }))
    EXPECT_EQ(error, "replica 1 has another config than replica 0");
}

TEST(Replicas, ALostOneIsNoticed) {
  const auto work = [](Replicas& replicas) {
    if (replicas.rank() == 1) return;  // it goes without a word
    for (int i = 0; i < 100; ++i) replicas.sum(at::ones({1000}));
  };
  for (const bool one_machine : {true, false})
    EXPECT_THAT(on_replicas(2, work, 60, one_machine)[0], HasSubstr("replica 0 has lost another replica"));
}

TEST(Replicas, ASilentOneIsNoticed) {
  const auto work = [](Replicas& replicas) {
    if (replicas.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
    replicas.sum(at::ones({10}));
  };
  for (const bool one_machine : {true, false})
    EXPECT_THAT(on_replicas(2, work, /*seconds=*/2, one_machine)[0],
                HasSubstr("replica 0 had no answer from another replica for 2 s"));
}

TEST(Replicas, MeetingFailsWithItsReason) {
  const int64_t port = free_port();
  EXPECT_THAT(([&] { join_replicas({.rank = 0, .size = 2, .master_port = port}, 1); }),
              ThrowsMessage<ReplicaError>(HasSubstr("replica 1 of 2 did not come within 1 s")));
  EXPECT_THAT(([&] { join_replicas({.rank = 1, .size = 2, .master_port = port}, 1); }),
              ThrowsMessage<ReplicaError>(HasSubstr("replica 1 cannot reach replica 0 at 127.0.0.1:")));
  EXPECT_THAT(([&] { join_replicas({.rank = 1, .size = 2, .master_address = "no.such.machine.invalid"}, 1); }),
              ThrowsMessage<ConfigError>(HasSubstr("'no.such.machine.invalid' is not the name of a machine")));
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(socket, 1), 0);
  EXPECT_THAT(([&] { join_replicas({.rank = 0, .size = 2, .master_port = port}, 1); }),
              ThrowsMessage<ConfigError>(HasSubstr("is taken by another program")));
  ::close(socket);
}

/// What one replica has after some steps.
struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
};

Trained train(int64_t steps, int64_t parts, Replicas* replicas, at::ScalarType format = at::kFloat) {
  ToyRun run({.dropout = 0.3, .frozen_batch_norm = true});
  StepOptions options{.micro_batches = parts};
  std::unique_ptr<GradientSum> sum;
  if (replicas != nullptr) {
    sum = std::make_unique<GradientSum>(*replicas, optim::tensors_of(run.state.optimizer->parameters()),
                                        GradientSum::Options{.bucket_bytes = 256, .format = format});
    options.replicas = sum.get();
  }
  const auto source = make_toy_source(8);
  Trained result;
  for (int64_t i = 0; i < steps; ++i) {
    Batch batch = *source->next();
    if (replicas != nullptr) {
      const int64_t share = batch.size() / replicas->size();
      batch = slice(batch, replicas->rank() * share, (replicas->rank() + 1) * share);
    }
    const StepResult step = train_step(run.state, batch, *run.gradients, options);
    EXPECT_TRUE(step.ok());
    result.losses.push_back(step.losses.back().value.item<double>());
  }
  for (const auto& [name, tensor] : models::variables(*run.state.model))
    result.weights.push_back(tensor.detach().clone());
  return result;
}

std::map<int64_t, Trained> train_on(int64_t size, int64_t steps, int64_t parts = 1,
                                    at::ScalarType format = at::kFloat) {
  std::map<int64_t, Trained> result;
  std::mutex mutex;
  expect_well(on_replicas(size, [&](Replicas& replicas) {
    Trained trained = train(steps, parts, &replicas, format);
    const std::lock_guard lock(mutex);
    result[replicas.rank()] = std::move(trained);
  }));
  return result;
}

TEST(Replicas, TwoAndFourMakeTheStepsOfOne) {
  const Trained one = train(20, 1, nullptr);
  for (const int64_t size : {2, 4}) {
    const auto several = train_on(size, 20);
    for (const auto& [rank, trained] : several) {
      const std::string what = "rank " + std::to_string(rank) + " of " + std::to_string(size);
      for (size_t i = 0; i < one.losses.size(); ++i)
        EXPECT_NEAR(trained.losses[i], one.losses[i], 1e-5 * std::abs(one.losses[i])) << what << " step " << i;
      for (size_t i = 0; i < one.weights.size(); ++i) {
        expect_close(trained.weights[i], one.weights[i], 1e-5, 1e-6, what + " variable " + std::to_string(i));
        EXPECT_TRUE(at::equal(trained.weights[i], several.at(0).weights[i])) << "all replicas have the same weights";
      }
    }
  }
}

TEST(Replicas, RepeatThemselvesBitForBitAndAccumulate) {
  const auto first = train_on(2, 5, 2), second = train_on(2, 5, 2);
  const Trained one = train(5, 1, nullptr);
  for (size_t i = 0; i < one.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(first.at(0).weights[i], second.at(0).weights[i]));
    expect_close(first.at(1).weights[i], one.weights[i], 1e-5, 1e-6, "variable " + std::to_string(i));
  }
}

TEST(Replicas, HalfTheBytesOnTheWireGiveNearlyTheSameSteps) {
  const Trained one = train(10, 1, nullptr);
  const auto several = train_on(2, 10, 1, at::kBFloat16), again = train_on(2, 10, 1, at::kBFloat16);
  for (size_t i = 0; i < one.losses.size(); ++i)
    // A summand keeps eight significant bits: each gradient is off by at most 2^-8.
    EXPECT_NEAR(several.at(0).losses[i], one.losses[i], std::ldexp(std::abs(one.losses[i]), -8)) << "step " << i;
  bool differ = false;
  for (size_t i = 0; i < one.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(several.at(0).weights[i], several.at(1).weights[i])) << "all replicas have the same weights";
    EXPECT_TRUE(at::equal(several.at(0).weights[i], again.at(0).weights[i])) << "a run repeats itself";
    differ = differ || !at::equal(several.at(0).weights[i], one.weights[i]);
  }
  EXPECT_TRUE(differ) << "the sums were made in bfloat16";
}

TEST(Replicas, EachNormalisesByItsShareAndTheChiefsAveragesAreSaved) {
  const Batch whole = *make_toy_source(8)->next();
  const auto averages_after = [&](int64_t rank, Replicas* replicas) {
    ToyRun run({});
    std::unique_ptr<GradientSum> sum;
    StepOptions options;
    if (replicas != nullptr) {
      sum = std::make_unique<GradientSum>(*replicas, optim::tensors_of(run.state.optimizer->parameters()),
                                          GradientSum::Options{});
      options.replicas = sum.get();
    }
    train_step(run.state, slice(whole, rank * 4, rank * 4 + 4), *run.gradients, options);
    std::map<std::string, at::Tensor> result;
    for (const auto& [name, tensor] : snapshot(run.state).tensors)  // what a checkpoint holds
      if (name.find("moving_mean") != name.npos || name.find("moving_variance") != name.npos)
        result[name] = tensor.clone();
    return result;
  };
  const auto chief = averages_after(0, nullptr), other = averages_after(1, nullptr);
  ASSERT_FALSE(chief.empty());
  expect_well(on_replicas(2, [&](Replicas& replicas) {
    const auto& alone = replicas.is_chief() ? chief : other;
    bool differ = false;
    for (const auto& [name, average] : averages_after(replicas.rank(), &replicas)) {
      expect_close(average, alone.at(name), 1e-6, 1e-6, name);
      differ = differ || !at::equal(chief.at(name), other.at(name));
    }
    EXPECT_TRUE(differ);
  }));
}

/// What a batch norm makes of a map and of the gradient that comes back.
struct Normed {
  at::Tensor y, gradient_x, gradient_gamma, gradient_beta, moving_mean, moving_variance;
};

/// addend  undefined: none
Normed normed(const at::Tensor& map, const at::Tensor& gradient, const at::Tensor& addend, Replicas* replicas) {
  nn::BatchNorm batch_norm(map.size(1), {.decay = 0.9, .scale = true, .synchronized = true});
  {
    const at::NoGradGuard no_gradients;
    batch_norm.named_parameters()["gamma"].fill_(1.5);
    batch_norm.named_parameters()["beta"].fill_(0.4);
    for (at::Tensor& statistic : batch_norm.buffers()) statistic.fill_(1);
  }
  if (replicas != nullptr)
    batch_norm.synchronize(std::make_shared<const kernels::ReplicaSum>(
        kernels::ReplicaSum{[=](const at::Tensor& numbers) { replicas->sum(numbers); }, replicas->size()}));
  const at::Tensor x = map.detach().clone(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  const at::Tensor y = batch_norm.forward_plus(x, addend, nn::Activation::kRelu6).map;
  y.backward(gradient);
  nn::BatchNorm::commit({&batch_norm});
  const auto parameters = batch_norm.named_parameters();
  const auto buffers = batch_norm.named_buffers();
  return {y.detach(),
          x.grad(),
          parameters["gamma"].grad(),
          parameters["beta"].grad(),
          buffers["moving_mean"],
          buffers["moving_variance"]};
}

/// on_device  by the kernels for GPUs, which the CPU runs here
void expect_synchronized(bool on_device) {
  at::manual_seed(9);
  // Means far from zero, where a variance from sums of squares loses digits first.
  const at::Tensor map = at::randn({8, 6, 5, 7}) * 0.3 + at::arange(6).view({1, 6, 1, 1}) * 30,
                   gradient = at::randn({8, 6, 5, 7});
  for (const int64_t size : {2, 4}) {
    const at::Tensor addend = size == 2 ? at::Tensor() : gradient.cos();  // with and without the sum of a residual unit
    const Normed whole = normed(map, gradient, addend, nullptr);
    expect_well(on_replicas(size, [&](Replicas& replicas) {
      std::optional<kernels::device::Emulation> emulation;
      if (on_device) emulation.emplace();
      const int64_t share = 8 / size, first = replicas.rank() * share;
      Normed part = normed(map.slice(0, first, first + share), gradient.slice(0, first, first + share),
                           addend.defined() ? addend.slice(0, first, first + share) : addend, &replicas);
      expect_close(part.y, whole.y.slice(0, first, first + share), 1e-5, 1e-5, "y");
      expect_close(part.gradient_x, whole.gradient_x.slice(0, first, first + share), 1e-4, 1e-4, "gradient of x");
      expect_close(part.moving_mean, whole.moving_mean, 1e-6, 1e-6, "moving mean");
      expect_close(part.moving_variance, whole.moving_variance, 1e-5, 1e-6, "moving variance");
      replicas.sum(part.gradient_gamma);
      replicas.sum(part.gradient_beta);
      expect_close(part.gradient_gamma, whole.gradient_gamma, 1e-4, 1e-3, "gradient of gamma");
      expect_close(part.gradient_beta, whole.gradient_beta, 1e-5, 1e-4, "gradient of beta");
    }));
  }
}

TEST(Replicas, SynchronizedBatchNormIsThatOfTheWholeBatch) { expect_synchronized(/*on_device=*/false); }
TEST(Replicas, SynchronizedBatchNormOnADeviceIsThatOfTheWholeBatch) { expect_synchronized(/*on_device=*/true); }

TEST(GradientSum, AParameterWithoutGradientCountsAsZero) {
  expect_well(on_replicas(2, [](Replicas& replicas) {
    const at::Tensor used = at::ones({3}).requires_grad_(true), unused = at::ones({2, 2}).requires_grad_(true),
                     once = at::ones({4}).requires_grad_(true);
    GradientSum sum(replicas, {unused, used, once}, {});
    for (int step = 0; step < 2; ++step) {
      for (const at::Tensor& t : {used, unused, once}) t.mutable_grad() = at::Tensor();
      sum.begin();
      at::Tensor loss = (used * static_cast<double>(replicas.rank() + 1)).sum();
      if (replicas.rank() == 1) loss = loss + once.sum();
      loss.backward();
      sum.finish();
      EXPECT_TRUE(at::equal(used.grad(), at::full({3}, 3.0)));
      EXPECT_TRUE(at::equal(once.grad(), at::ones({4})));
      EXPECT_TRUE(at::equal(unused.grad(), at::zeros({2, 2})));
    }
  }));
}

std::optional<ReplicaPlace> place_in(const std::map<std::string, std::string>& environment) {
  return place_from_environment([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(ReplicaPlace, IsWhatTheStarterSays) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_FALSE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_LOCALID", "0"}}));

  const auto torchrun = place_in({{"RANK", "3"},
                                  {"WORLD_SIZE", "4"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "node0"},
                                  {"MASTER_PORT", "1234"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  ASSERT_TRUE(torchrun);
  EXPECT_EQ(torchrun->rank, 3);
  EXPECT_EQ(torchrun->size, 4);
  EXPECT_EQ(torchrun->local_rank, 1);
  EXPECT_EQ(torchrun->local_size, 2);
  EXPECT_EQ(torchrun->master_address, "node0");
  EXPECT_EQ(torchrun->master_port, 1234);
  EXPECT_TRUE(torchrun->meeting_point_is_there);

  const auto mpirun = place_in({{"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(mpirun);
  EXPECT_EQ(mpirun->starter, "mpirun");
  EXPECT_EQ(mpirun->master_address, "127.0.0.1");
  EXPECT_FALSE(mpirun->meeting_point_is_there);

  const auto srun =
      place_in({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}, {"MASTER_ADDR", "10.0.0.1"}});
  ASSERT_TRUE(srun);
  EXPECT_EQ(srun->rank, 2);
  EXPECT_EQ(srun->master_port, 29500);
}

TEST(ReplicaPlace, NamesVariablesThatAreMissingOrMakeNoSense) {
  EXPECT_THAT(
      [] {
        place_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("torchrun says that this is replica 2 of 2")));
  EXPECT_THAT(
      [] {
        place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "0"}, {"MASTER_ADDR", "node0"}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("torchrun says that no replica is on this machine, where replica 0 runs")));
  EXPECT_THAT(
      [] {
        place_in({{"RANK", "x"}, {"WORLD_SIZE", "2"}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("RANK='x' in the environment is not a number")));
  EXPECT_THAT(
      [] {
        place_in({{"OMPI_COMM_WORLD_RANK", "0"}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("mpirun did not set OMPI_COMM_WORLD_SIZE")));
  EXPECT_THAT(
      [] {
        place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("MASTER_ADDR has to name the machine of replica 0")));
  EXPECT_THAT(
      [] {
        place_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "99999"}});
      },
      ThrowsMessage<ConfigError>(HasSubstr("MASTER_PORT=99999 is not a port")));
}

}  // namespace
}  // namespace osprey::train
