#include "osprey/train/replicas.h"

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "train/device_group.h"
#include "train/shared_sum.h"

namespace osprey::train {
namespace {

using std::chrono::milliseconds;

milliseconds duration(double seconds) { return milliseconds(static_cast<int64_t>(seconds * 1000)); }

/// The first line of what a library says, without the places in its sources.
std::string reason(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

std::string meeting_point(const ReplicaPlace& place) {
  return fmt::format("{}:{}", place.master_address, place.master_port);
}

/// The address of this machine that others reach it by: the one from which it would speak to the meeting point.
std::string own_address(const ReplicaPlace& place) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(place.master_address.c_str(), std::to_string(place.master_port).c_str(), &hints, &found) != 0)
    throw ConfigError(fmt::format("MASTER_ADDR: '{}' is not the name of a machine", place.master_address));
  std::string result;
  for (const addrinfo* a = found; a != nullptr && result.empty(); a = a->ai_next) {
    const int socket = ::socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (socket < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST] = {};
    // Connecting a datagram socket sends nothing; it only chooses the way.
    if (::connect(socket, a->ai_addr, a->ai_addrlen) == 0 &&
        ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      result = text;
    ::close(socket);
  }
  freeaddrinfo(found);
  if (result.empty()) throw ReplicaError(fmt::format("there is no way to {}", meeting_point(place)));
  return result;
}

c10::intrusive_ptr<c10d::Store> reach(const ReplicaPlace& place, double seconds) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.master_port);
  options.isServer = place.rank == 0 && !place.meeting_point_is_there;
  options.waitWorkers = false;
  options.timeout = duration(seconds);
  FLAGS_caffe2_log_level = c10::GLOG_FATAL;  // what goes wrong is thrown, and said once; of NCCL see device_group.cc
  try {
    return c10::make_intrusive<c10d::PrefixStore>("osprey/" + place.attempt,
                                                  c10::make_intrusive<c10d::TCPStore>(place.master_address, options));
  } catch (const c10::Error& error) {
    const std::string why = reason(error);
    if (options.isServer && (why.find("EADDRINUSE") != std::string::npos || why.find("in use") != std::string::npos))
      throw ConfigError(
          fmt::format("port {} is taken by another program; choose another one (MASTER_PORT)", place.master_port));
    if (options.isServer) throw ReplicaError(fmt::format("cannot listen on {}: {}", meeting_point(place), why));
    throw ReplicaError(
        fmt::format("replica {} cannot reach replica 0 at {} within {:.0f} s: is it running there, and "
                    "does nothing stand between?",
                    place.rank, meeting_point(place), seconds));
  }
}

/// Waits until all replicas have come; says who is missing.
void await_all(c10d::Store& store, const ReplicaPlace& place, double seconds) {
  const auto key = [](int64_t rank) { return fmt::format("here/{}", rank); };
  store.set(key(place.rank), std::vector<uint8_t>{1});
  const double until = now() + seconds;
  while (true) {
    std::string missing;
    for (int64_t rank = 0; rank < place.size; ++rank)
      if (!store.check({key(rank)})) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    if (missing.empty()) return;
    if (now() > until)
      throw ReplicaError(fmt::format("replica {} of {} did not come within {:.0f} s", missing, place.size, seconds));
    std::this_thread::sleep_for(milliseconds(20));
  }
}

/// Replicas that speak through Gloo, and through NCCL where tensors lie on GPUs.
class GroupedReplicas final : public Replicas {
 public:
  GroupedReplicas(const ReplicaPlace& place, double seconds) : place_(place), seconds_(seconds) {
    const std::string address = own_address(place);
    store_ = reach(place, seconds);
    guarded([&] {
      await_all(*store_, place, seconds);
      auto options = c10d::ProcessGroupGloo::Options::create(duration(seconds));
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, static_cast<int>(place.rank),
                                                           static_cast<int>(place.size), options);
      meet();  // connects everybody with everybody
    });
    if (place.local_size == place.size) share_memory();
  }

  const ReplicaPlace& place() const override { return place_; }

  std::unique_ptr<PendingSum> sum_later(at::Tensor tensor) override {
    return guarded([&] {
      std::vector<at::Tensor> tensors{std::move(tensor)};
      return std::make_unique<Pending>(*this, group_of(tensors[0]).allreduce(tensors));
    });
  }

  void copy_from_chief(const std::vector<at::Tensor>& tensors) override {
    guarded([&] {
      for (const at::Tensor& tensor : tensors) {
        std::vector<at::Tensor> flat{tensor.detach().contiguous().flatten()};
        group_of(flat[0]).broadcast(flat)->wait();
        if (!is_chief()) tensor.detach().copy_(flat[0].view(tensor.sizes()));
      }
    });
  }

  void sum(const at::Tensor& tensor) override {
    if (shared_ && tensor.is_cpu() && static_cast<int64_t>(tensor.nbytes()) <= SharedSum::kMostBytes) {
      shared_->sum(tensor);
    } else {
      Replicas::sum(tensor);
    }
  }

  std::vector<std::string> texts(const std::string& text) override {
    const auto key = [this](int64_t rank) { return fmt::format("text/{}/{}", texts_, rank); };
    std::vector<std::string> result;
    guarded([&] {
      store_->set(key(rank()), std::vector<uint8_t>(text.begin(), text.end()));
      for (int64_t rank = 0; rank < size(); ++rank) {
        const std::vector<uint8_t> bytes = store_->get(key(rank));
        result.emplace_back(bytes.begin(), bytes.end());
      }
    });
    ++texts_;
    return result;
  }

  std::vector<std::string> gather(const std::string& bytes) override {
    const auto size = static_cast<int64_t>(bytes.size());
    at::Tensor sizes = at::zeros({place_.size}, at::kLong);
    sizes[rank()] = size;
    sum(sizes);
    const int64_t longest = sizes.max().item<int64_t>();
    std::vector<at::Tensor> own{at::zeros({longest}, at::kByte)};
    std::memcpy(own[0].mutable_data_ptr(), bytes.data(), bytes.size());
    std::vector<std::vector<at::Tensor>> all;
    if (is_chief()) {
      all.emplace_back();
      for (int64_t rank = 0; rank < place_.size; ++rank) all[0].push_back(at::empty({longest}, at::kByte));
    }
    guarded([&] { group_->gather(all, own)->wait(); });
    std::vector<std::string> result;
    for (int64_t rank = 0; is_chief() && rank < place_.size; ++rank)
      result.emplace_back(static_cast<const char*>(all[0][static_cast<size_t>(rank)].const_data_ptr()),
                          static_cast<size_t>(sizes[rank].item<int64_t>()));
    return result;
  }

  void meet() override {
    constexpr milliseconds kNoLimit = std::chrono::hours(24 * 365);
    std::vector<at::Tensor> nothing{at::zeros({1})};
    c10d::AllreduceOptions options;
    options.timeout = kNoLimit;
    guarded([&] { group_->allreduce(nothing, options)->wait(); });
  }

 private:
  class Pending final : public PendingSum {
   public:
    Pending(GroupedReplicas& replicas, c10::intrusive_ptr<c10d::Work> work)
        : replicas_(replicas), work_(std::move(work)) {}
    void wait() override {
      replicas_.guarded([&] { work_->wait(); });
    }

   private:
    GroupedReplicas& replicas_;
    c10::intrusive_ptr<c10d::Work> work_;
  };

  c10d::Backend& group_of(const at::Tensor& tensor) {
    if (tensor.is_cpu()) return *group_;
    if (!device_group_) device_group_ = make_device_group(store_, place_, seconds_);
    return *device_group_;
  }

  /// From now on small sums go through memory, if everybody can use it.
  void share_memory() {
    const std::string name = texts(fmt::format("/osprey-{}-{}", ::getpid(), place_.master_port))[0];
    if (is_chief()) shared_ = SharedSum::open(name, /*create=*/true, place_, seconds_);
    texts("");  // it is there now, or will not be
    if (!is_chief()) shared_ = SharedSum::open(name, /*create=*/false, place_, seconds_);
    // Containers may share memory but not the numbers of their processes, by which a lost replica is noticed.
    const std::vector<std::string> all = texts(shared_ ? SharedSum::process_space() : "none");
    if (is_chief() && shared_) SharedSum::forget(name);
    if (std::any_of(all.begin(), all.end(), [&](const auto& one) { return one == "none" || one != all[0]; }))
      shared_.reset();
  }

  /// Calls the library, and says its errors in our words.
  template <class Call>
  auto guarded(Call call) -> decltype(call()) try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // gloo's own errors are no c10::Error
    const auto* known = dynamic_cast<const c10::Error*>(&error);
    const std::string text = known != nullptr ? known->what_without_backtrace() : error.what();
    const bool silent = text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
    throw ReplicaError(
        silent ? fmt::format("replica {} had no answer from another replica for {:.0f} s", rank(), seconds_)
               : fmt::format("replica {} has lost another replica: {}", rank(), text.substr(0, text.find('\n'))));
  }

  ReplicaPlace place_;
  double seconds_;
  int64_t texts_ = 0;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  c10::intrusive_ptr<c10d::Backend> device_group_;  ///< null as long as no tensor lies on a GPU
  std::unique_ptr<SharedSum> shared_;               ///< null where sums go through sockets only
};

}  // namespace

int64_t Replicas::largest(int64_t number) {
  const at::Tensor numbers = at::zeros({size()}, at::kLong);
  numbers[rank()] = number;
  sum(numbers);
  return numbers.max().item<int64_t>();
}

int64_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = socket >= 0 && ::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (socket >= 0) ::close(socket);
  if (!found) throw ReplicaError(fmt::format("no port is free for the replicas: {}", std::strerror(errno)));
  return ntohs(address.sin_port);
}

std::unique_ptr<Replicas> join_replicas(const ReplicaPlace& place, double seconds) {
  return std::make_unique<GroupedReplicas>(place, seconds);
}

}  // namespace osprey::train
