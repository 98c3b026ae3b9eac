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

inline DecodedValue decode_value(protozero::pbf_reader from) {
  DecodedValue value;
  while (from.next()) switch (from.tag()) {
      case wire::Value::tag:
        value.tag = from.get_string();
        break;
      case wire::Value::simple_value:
        value.scalar = from.get_float();
        break;
      case wire::Value::metadata: {
        protozero::pbf_reader metadata = from.get_message();
        while (metadata.next(wire::Metadata::plugin_data)) {
          protozero::pbf_reader plugin = metadata.get_message();
          while (plugin.next()) {
            const bool name = plugin.tag() == wire::PluginData::plugin_name;
            (name ? value.plugin : value.plugin_content) = plugin.get_string();
          }
        }
        break;
      }
      case wire::Value::tensor: {
        protozero::pbf_reader tensor = from.get_message();
        while (tensor.next()) switch (tensor.tag()) {
            case wire::Tensor::content:
              value.tensor_content = tensor.get_string();
              break;
            case wire::Tensor::strings:
              value.strings.push_back(tensor.get_string());
              break;
            default:
              tensor.skip();
          }
        break;
      }
      default:
        from.skip();
    }
  return value;
}

/// Throws protozero::exception if `data` is not an event.
inline DecodedEvent decode(std::string_view data) {
  DecodedEvent event;
  protozero::pbf_reader from(data.data(), data.size());
  while (from.next()) switch (from.tag()) {
      case wire::Event::wall_time:
        event.wall_time = from.get_double();
        break;
      case wire::Event::step:
        event.step = from.get_int64();
        break;
      case wire::Event::file_version:
        event.file_version = from.get_string();
        break;
      case wire::Event::graph:
        event.graph = from.get_string();
        break;
      case wire::Event::session_log:
        event.session_log = from.get_string();
        break;
      case wire::Event::summary: {
        protozero::pbf_reader summary = from.get_message();
        while (summary.next(wire::Summary::value))
          event.values.push_back(decode_value(summary.get_message()));
        break;
      }
      default:
        from.skip();
    }
  return event;
}

}  // namespace lockstep::events
