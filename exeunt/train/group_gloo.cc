// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <unistd.h>

#include "exeunt/train/group_store.h"

namespace exeunt::nn {
namespace {

using std::chrono::seconds;

using GlooDevice = std::shared_ptr<::gloo::transport::Device>;

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

// The address from which this machine reaches the rendezvous; empty if it cannot be found. Gloo would take the one that
// the machine's name resolves to, which often is 127.0.1.1 or not that of the network between the two.
std::string address_towards(const Rendezvous& rendezvous) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;  // connecting one sends nothing: it only chooses the route
  addrinfo* found = nullptr;
  if (::getaddrinfo(rendezvous.host.c_str(), std::to_string(rendezvous.port).c_str(), &wanted, &found) != 0) return {};
  std::string out;
  for (const addrinfo* one = found; one != nullptr && out.empty(); one = one->ai_next) {
    const int descriptor = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (descriptor < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    char text[NI_MAXHOST] = {};
    if (::connect(descriptor, one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) ==
            0) {
      out = text;
    }
    ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return out;
}

GlooDevice device_for(const Rendezvous& rendezvous) {
  using Gloo = c10d::ProcessGroupGloo;
  if (rendezvous.file() || is_loopback(rendezvous.host)) return Gloo::createDeviceForHostname("127.0.0.1");
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME"); name != nullptr && *name != '\0')
    return Gloo::createDeviceForInterface(name);
  const std::string own = address_towards(rendezvous);
  return own.empty() || is_loopback(own) ? Gloo::createDefaultDevice() : Gloo::createDeviceForHostname(own);
}

}  // namespace

bool has_gloo() noexcept {
  return true;
}

AllReduce join_over_gloo(const Rendezvous& rendezvous) {
  const auto store = open_store(rendezvous);
  auto gloo = c10d::ProcessGroupGloo::Options::create(seconds(600));
  gloo->devices.push_back(device_for(rendezvous));
  gloo->threads = 2;
  return [group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rendezvous.rank, rendezvous.size, gloo)](
             torch::Tensor& tensor) {
    std::vector<torch::Tensor> list{tensor};
    group->allreduce(list)->wait();
  };
}

}  // namespace exeunt::nn
