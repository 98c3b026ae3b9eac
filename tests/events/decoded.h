#pragma once

// Events as the tests look at them: the fields that they ask for, decoded with protozero.

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "events/wire.h"

namespace lockstep::events {

struct DecodedValue {
  std::string tag, plugin, plugin_content, tensor_content;
  std::vector<std::string> strings;
  double scalar = 0;
};

struct DecodedEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version, graph, session_log;
  std::vector<DecodedValue> values;
};

/// A field and how it is encoded: one that is encoded otherwise is another field, and skipped.
constexpr std::uint32_t field(unsigned number, protozero::pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
constexpr auto kNumber = protozero::pbf_wire_type::varint;
constexpr auto kFloat = protozero::pbf_wire_type::fixed32;
constexpr auto kDouble = protozero::pbf_wire_type::fixed64;

inline void decode_metadata(protozero::pbf_reader from, DecodedValue& value) {
  while (from.next(wire::Metadata::plugin_data, kBytes)) {
    protozero::pbf_reader plugin = from.get_message();
    while (plugin.next()) switch (plugin.tag_and_type()) {
        case field(wire::PluginData::plugin_name, kBytes):
          value.plugin = plugin.get_string();
          break;
        case field(wire::PluginData::content, kBytes):
          value.plugin_content = plugin.get_string();
          break;
        default:
          plugin.skip();
      }
  }
}

inline void decode_tensor(protozero::pbf_reader from, DecodedValue& value) {
  while (from.next()) switch (from.tag_and_type()) {
      case field(wire::Tensor::content, kBytes):
        value.tensor_content = from.get_string();
        break;
      case field(wire::Tensor::strings, kBytes):
        value.strings.push_back(from.get_string());
        break;
      default:
        from.skip();
    }
}

inline DecodedValue decode_value(protozero::pbf_reader from) {
  DecodedValue value;
  while (from.next()) switch (from.tag_and_type()) {
      case field(wire::Value::tag, kBytes):
        value.tag = from.get_string();
        break;
      case field(wire::Value::simple_value, kFloat):
        value.scalar = from.get_float();
        break;
      case field(wire::Value::metadata, kBytes):
        decode_metadata(from.get_message(), value);
        break;
      case field(wire::Value::tensor, kBytes):
        decode_tensor(from.get_message(), value);
        break;
      default:
        from.skip();
    }
  return value;
}

/// Throws protozero::exception if `data` is not an event.
inline DecodedEvent decode(std::string_view data) {
  DecodedEvent event;
  protozero::pbf_reader from(data.data(), data.size());
  while (from.next()) switch (from.tag_and_type()) {
      case field(wire::Event::wall_time, kDouble):
        event.wall_time = from.get_double();
        break;
      case field(wire::Event::step, kNumber):
        event.step = from.get_int64();
        break;
      case field(wire::Event::file_version, kBytes):
        event.file_version = from.get_string();
        break;
      case field(wire::Event::graph, kBytes):
        event.graph = from.get_string();
        break;
      case field(wire::Event::session_log, kBytes):
        event.session_log = from.get_string();
        break;
      case field(wire::Event::summary, kBytes): {
        protozero::pbf_reader summary = from.get_message();
        while (summary.next(wire::Summary::value, kBytes))
          event.values.push_back(decode_value(summary.get_message()));
        break;
      }
      default:
        from.skip();
    }
  return event;
}

}  // namespace lockstep::events
