// SPDX-License-Identifier: Apache-2.0

import Charts
import Foundation
import FreshetService
import JSON
import WidgetModel

/// Measurements of a scenario at one moment, or since the sample before.
struct LoadSample: Sendable, Equatable {
    /// Sampled quantities, named as the JSON members.
    enum Key: String, Sendable, CaseIterable {
        /// Since the sample before.
        case eventsPerSecond, timelinesPerSecond
        /// Latencies of stores since the sample before, in milliseconds.
        case p50, p99, max
        /// On disk: the table of the timelines' state with its free space map, and all its indexes.
        case stateTableBytes, stateIndexBytes
        /// As the statistics collector estimates them, of the same table.
        case deadTuples, liveTuples
        /// Since the sample before.
        case walBytesPerSecond
        case residentBytes

        var isLatency: Bool { self == .p50 || self == .p99 || self == .max }
    }

    /// From the start of the run.
    var seconds: Double
    var values: [Key: Double]

    init(seconds: Double, _ values: [Key: Double?] = [:]) {
        self.seconds = seconds
        self.values = values.compactMapValues { $0 }
    }

    var json: JSONValue {
        let members = Key.allCases.compactMap { key in
            values[key].map { (key: key.rawValue, value: JSONValue.rounded($0)) }
        }
        return .object(JSONObject([(key: "seconds", value: .rounded(seconds))] + members))
    }
}

/// Charts of a report.
struct LoadCharts: Sendable, Equatable {
    var samples: [LoadSample] = []
    /// Parts of the run in which something went on, in seconds from its start.
    var spans: [Chart.Span] = []

    /// The members of the report's JSON; empty arrays are left out.
    var members: [(key: String, value: JSONValue)] {
        var members: [(key: String, value: JSONValue)] = []
        if !samples.isEmpty { members.append(("samples", .array(samples.map(\.json)))) }
        if !spans.isEmpty { members.append(("spans", .array(spans.map(\.json)))) }
        return members
    }

    /// The samples merged to at most a number: means of the values, and the longest of the latencies.
    func thinned(to limit: Int) -> [LoadSample] {
        guard samples.count > limit else { return samples }
        let size = (samples.count + limit - 1) / limit
        return stride(from: 0, to: samples.count, by: size).map { first in
            let part = samples[first..<min(first + size, samples.count)]
            var merged = LoadSample(seconds: part.last?.seconds ?? 0)
            for key in LoadSample.Key.allCases {
                let values = part.compactMap { $0.values[key] }
                guard let largest = values.max() else { continue }
                merged.values[key] = key.isLatency ? largest : values.reduce(0, +) / Double(values.count)
            }
            return merged
        }
    }
}

extension Chart.Span {
    fileprivate var json: JSONValue { ["label": .string(label), "from": .rounded(from), "to": .rounded(to)] }
}
