#include "device/tower_pool.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <lockstep/error.h>
#include <malloc.h>

#include <utility>

#include "device/accelerator.h"

namespace lockstep::device {
namespace {

int spare_cores(const std::vector<Device>& devices) {
  int cores = backend(DeviceKind::cpu).count();
  for (const Device& each : devices) cores -= each.threads;
  return cores;
}

/// What a tower frees stays with the process for its next step. See "Note: memory of towers".
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kHeap = 64 << 20;  // bytes of the heaps that glibc makes for threads
  mallopt(M_MMAP_THRESHOLD, kHeap / 2);
  mallopt(M_TRIM_THRESHOLD, kHeap);
  mallopt(M_TOP_PAD, kHeap);
#endif
}

}  // namespace

TowerPool::TowerPool(std::vector<Device> devices)
    : devices_(std::move(devices)), spare_cores_(spare_cores(devices_)) {
  check(!devices_.empty(), "a tower pool needs a device");
  for (const Device& each : devices_) check(each.threads > 0, "a device needs a thread");
  if (!is_accelerator(devices_.front().kind)) keep_freed_memory();
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
  const auto done = [this] { return running_ == 0; };
  if (spare_cores_ <= 0 || !callers_spin_.until(done)) {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, done);
  }
  for (const std::exception_ptr& error : std::exchange(errors_, {}))
    if (error) std::rethrow_exception(error);
}

/// Returns when there is a round after so many; false: never.
bool TowerPool::await_round(int tower, std::uint64_t done, base::Spin& spin,
                            const std::stop_token& stop) {
  const auto begun = [&] { return round_ != done; };
  // Without a core to spare the first tower leaves its own to the caller: see "Note: short waits".
  if (spare_cores_ >= (tower == 0 ? 1 : 0) && spin.until(begun)) return true;
  std::unique_lock lock(mutex_);
  return started_.wait(lock, stop, begun);
}

void TowerPool::end_round(int tower) {
  if (tower == 0 && has_cores()) end_spin_.until([this] { return running_ == 1; });
  const std::scoped_lock lock(mutex_);
  if (--running_ == 0) finished_.notify_one();
}

void TowerPool::serve(int tower, const std::stop_token& stop) {
  const c10::DeviceGuard device_guard(torch_device(device(tower)));
  const c10::AutoGradMode grad_mode(true);
  // Once in LibTorch and once here, or else the first kernel would take the default again.
  at::get_num_threads();
  at::internal::lazy_init_num_threads();
  at::set_num_threads(device(tower).threads);
  base::Spin spin;
  for (std::uint64_t done = 0; await_round(tower, done, spin, stop); ++done) {
    try {
      (*job_)(tower);
    } catch (...) {
      errors_[static_cast<std::size_t>(tower)] = std::current_exception();
    }
    end_round(tower);
  }
}

}  // namespace lockstep::device
