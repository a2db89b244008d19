// SPDX-License-Identifier: Apache-2.0

import Charts
import Synchronization
package import WidgetModel

/// Samples of the process's metrics of the last hour, for the console's charts. Its memory is bounded.
package final class MetricHistory: Sendable {
    /// A sample: values of kept series. A series is a metric's name, with the values of some labels, each after a space.
    private typealias Sample = (at: Timestamp, values: [String: Double])

    private static let span = Duration.seconds(3_600)
    private static let limit = 400

    private let state = Mutex([Sample]())

    package init() {}

    private var samples: [Sample] { state.withLock { $0 } }

    /// Adds a sample of the metrics that the charts show.
    package func record(_ metrics: MetricRegistry, at time: Timestamp = Timestamp.now()) {
        var values: [String: Double] = [:]
        /// Keeps the sums, or the largest values, of the series with the same values of the kept labels.
        func keep(
            _ metric: any AnyMetric, by kept: String..., joining join: (Double, Double) -> Double = { $0 + $1 }
        ) {
            let name = metric.definition.name
            let places = kept.compactMap { metric.definition.labels.firstIndex(of: $0) }
            for (labels, series) in metric.allSeries {
                guard let histogram = series as? HistogramSeries else {
                    let key = Self.series(name, places.map { labels[$0] })
                    values[key] = values[key].map { join($0, series.value) } ?? series.value
                    continue
                }
                for bucket in histogram.buckets {
                    values["\(name)_bucket \(MetricDefinition.number(bucket.bound))", default: 0] += Double(
                        bucket.count)
                }
            }
        }
        for metric in [
            metrics.ingestEvents, metrics.published, metrics.stored, metrics.deadLettersWaiting, metrics.reloadLatency,
            metrics.providerSeconds,
        ] as [any AnyMetric] { keep(metric) }
        keep(metrics.ingestOldest, joining: max)
        keep(metrics.readyLists, by: "lane")
        keep(metrics.oldestOverdue, by: "lane")
        keep(metrics.decisions, by: "app", "decision")
        keep(metrics.kindOldestDue, by: "app", joining: max)
        keep(metrics.timelineAge, by: "app", "percentile", joining: max)
        keep(metrics.breakerState, by: "app")
        for metric in [metrics.deliveryChanges, metrics.deliveryMissed] { keep(metric, by: "app", "window") }
        state.withLock { [values] samples in
            samples.append((time, values))
            samples.removeAll { $0.at < time - Self.span }
            samples.removeFirst(max(0, samples.count - Self.limit))
        }
    }
}

/// Lines of charts, over seconds until the last sample.
extension MetricHistory {
    /// Time of the last sample.
    var end: Timestamp { samples.last?.at ?? .now() }

    /// Name of a series.
    static func series(_ metric: String, _ labels: [String]) -> String { ([metric] + labels).joined(separator: " ") }

    /// A gauge, or several that are joined.
    func gauge(_ name: String, of series: String) -> Chart.Series {
        let samples = samples
        return Chart.Series(name, .line, points: samples.map { (Self.seconds($0, samples), $0.values[series]) })
    }

    /// Percentage of one gauge in another; nil where that is 0.
    func percentage(_ name: String, part series: String, of whole: String) -> Chart.Series {
        let samples = samples
        let points = samples.map { sample in
            let all = sample.values[whole].flatMap { $0 > 0 ? $0 : nil }
            return (x: Self.seconds(sample, samples), value: all.map { 100 * (sample.values[series] ?? 0) / $0 })
        }
        return Chart.Series(name, .line, points: points)
    }

    /// Increments of a counter per second.
    func rate(_ name: String, of series: String) -> Chart.Series {
        line(name) { before, after, seconds in
            guard let old = before.values[series], let new = after.values[series], new >= old else { return nil }
            return (new - old) / seconds
        }
    }

    /// A quantile of a histogram's values between two samples: the upper bound of its bucket; nil without values.
    func quantile(_ name: String, _ quantile: Double, of histogram: String) -> Chart.Series {
        let prefix = histogram + "_bucket "
        return line(name) { before, after, _ in
            let buckets = after.values.compactMap { key, value -> (bound: Double, count: Double)? in
                guard key.hasPrefix(prefix) else { return nil }
                let bound = Double(key.dropFirst(prefix.count)) ?? .infinity
                return (bound, max(0, value - (before.values[key] ?? 0)))
            }.sorted { $0.bound < $1.bound }
            guard let total = buckets.last?.count, total > 0 else { return nil }
            let bound = buckets.first { $0.count >= total * quantile }?.bound
            // Values above all bounds are drawn at the highest one.
            return bound.map { $0.isFinite ? $0 : buckets.dropLast().last?.bound ?? 0 }
        }
    }

    private func line(_ name: String, _ value: (Sample, Sample, Double) -> Double?) -> Chart.Series {
        let samples = samples
        let points = zip(samples, samples.dropFirst()).map { before, after in
            let seconds = (after.at - before.at) / .seconds(1)
            return (x: Self.seconds(after, samples), value: seconds > 0 ? value(before, after, seconds) : nil)
        }
        return Chart.Series(name, .line, points: points)
    }

    /// Negative seconds, until the last sample.
    private static func seconds(_ sample: Sample, _ samples: [Sample]) -> Double {
        (sample.at - (samples.last?.at ?? sample.at)) / .seconds(1)
    }
}
