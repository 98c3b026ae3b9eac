#pragma once

namespace lockstep::sim {

/// Gives LibTorch the devices, streams and events: c10::Stream, c10::Event and the guards work.
void install_guard();

/// Gives LibTorch the generators and pinned memory.
void install_hooks();

}  // namespace lockstep::sim
