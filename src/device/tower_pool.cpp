#include "device/tower_pool.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <lockstep/error.h>

#include <utility>

#include "device/accelerator.h"

namespace lockstep::device {

TowerPool::TowerPool(std::vector<Device> devices)
    : devices_(std::move(devices)), errors_(devices_.size()) {
  check(!devices_.empty(), "a tower pool needs a device");
  for (const Device& each : devices_) check(each.threads > 0, "a device needs a thread");
  // LibTorch gives threads to come the count that was set last: put the caller's back afterwards.
  const int callers = at::get_num_threads();
  for (int tower = 0; tower < size(); ++tower)
    threads_.emplace_back([this, tower](const std::stop_token& stop) { serve(tower, stop); });
  run([](int) {});  // all threads have set theirs
  at::set_num_threads(callers);
}

void TowerPool::run(const std::function<void(int tower)>& job) {
  start(job);
  finish();
}

void TowerPool::start(const std::function<void(int tower)>& job) {
  const std::scoped_lock lock(mutex_);
  check(running_ == 0, "a tower pool runs one job at a time");
  job_ = &job;
  running_ = size();
  errors_.assign(devices_.size(), nullptr);
  ++round_;
  started_.notify_all();
}

void TowerPool::finish() {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return running_ == 0; });
  const auto errors = std::move(errors_);
  lock.unlock();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

void TowerPool::serve(int tower, const std::stop_token& stop) {
  const c10::DeviceGuard device_guard(torch_device(device(tower)));
  const c10::AutoGradMode grad_mode(true);
  // Once in LibTorch and once here, or else the first kernel would take the default again.
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  at::set_num_threads(device(tower).threads);
  for (std::uint64_t done = 0;; ++done) {
    std::unique_lock lock(mutex_);
    if (!started_.wait(lock, stop, [&] { return round_ != done; })) return;
    const auto& job = *job_;
    lock.unlock();
    std::exception_ptr error;
    try {
      job(tower);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    errors_[static_cast<std::size_t>(tower)] = error;
    if (--running_ == 0) finished_.notify_one();
  }
}

}  // namespace lockstep::device
