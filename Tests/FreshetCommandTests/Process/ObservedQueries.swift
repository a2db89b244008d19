// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import WidgetModel

@testable import FreshetService

/// Queries in `deploy/prometheus/rules.yaml` and `deploy/grafana/freshet.json`, and the metrics in them.
struct ObservedQueries {
    struct Unreadable: Error, CustomStringConvertible {
        let description: String
    }

    /// Places of use by metric name.
    private(set) var names: [String: Set<String>] = [:]
    /// Names that the rules record.
    private(set) var recorded: Set<String> = []
    /// Alerts with their annotations.
    private(set) var alerts: [String: [String: String]] = [:]

    /// A rule of prometheus-adapter, which turns a series into a metric of the cluster.
    struct ScalingRule {
        /// Name in Prometheus.
        let series: String
        /// Name in the cluster.
        let name: String
        /// Labels by which the queries select.
        let labels: Set<String>
    }

    private(set) var scaling: [ScalingRule] = []
    /// Metrics that autoscalers read from the cluster.
    private(set) var scaledBy: Set<String> = []

    init() throws {
        try readRules()
        try readDashboard()
        try readScaling()
    }

    private mutating func readScaling() throws {
        let folder = "deploy/kubernetes/components/autoscaling"
        for document in try Self.documents("\(folder)/adapter-rules.yaml") {
            for rule in document["rules"]?.arrayValue ?? [] {
                guard let series = rule["seriesQuery"]?.stringValue, let name = rule["name"]?["as"]?.stringValue,
                    let query = rule["metricsQuery"]?.stringValue
                else { throw Unreadable(description: "a rule of the adapter lacks a query or a name") }
                for found in Self.metrics(in: series) {
                    scaling.append(
                        ScalingRule(
                            series: found, name: name,
                            labels: Self.labels(in: series).union(Self.labels(in: query))))
                    names[found, default: []].insert("adapter-rules.yaml")
                }
            }
        }
        for document in try Self.documents("\(folder)/workers.yaml") {
            for metric in document["spec"]?["metrics"]?.arrayValue ?? [] {
                for sort in ["object", "pods", "external"] {
                    if let name = metric[sort]?["metric"]?["name"]?.stringValue { scaledBy.insert(name) }
                }
            }
        }
    }

    private static func documents(_ path: String) throws -> [JSONValue] {
        let read = LocatedYAML.read(try text(path), file: path)
        guard read.problems.isEmpty, !read.documents.isEmpty else {
            throw Unreadable(description: "\(path): \(read.problems)")
        }
        return read.documents.map(\.json)
    }

    /// Returns the labels by which a query selects.
    static func labels(in query: String) -> Set<String> {
        var labels: Set<String> = []
        // Quoted text is a label's value, preceded by the label and an operator.
        for (index, part) in query.split(separator: "\"", omittingEmptySubsequences: false).enumerated()
        where index % 2 == 0 {
            let comparison = part.reversed().prefix { "=~!".contains($0) }
            guard !comparison.isEmpty else { continue }
            let label = part.dropLast(comparison.count).reversed()
                .prefix { $0.isLetter || $0.isNumber || $0 == "_" }
            if !label.isEmpty { labels.insert(String(label.reversed())) }
        }
        return labels
    }

    private mutating func readRules() throws {
        let text = try Self.text("deploy/prometheus/rules.yaml")
        let read = LocatedYAML.read(text, file: "rules.yaml")
        guard read.problems.isEmpty, let document = read.documents.first?.json,
            case .array(let groups)? = document["groups"], !groups.isEmpty
        else { throw Unreadable(description: "the rules have no groups: \(read.problems)") }
        for group in groups {
            guard case .array(let rules)? = group["rules"] else {
                throw Unreadable(description: "a group has no rules")
            }
            for rule in rules {
                guard let query = rule["expr"]?.stringValue ?? rule["expr"]?.numberValue.map({ "\($0)" }) else {
                    throw Unreadable(description: "a rule has no expr")
                }
                if let name = rule["record"]?.stringValue { recorded.insert(name) }
                if let name = rule["alert"]?.stringValue {
                    var annotations: [String: String] = [:]
                    if case .object(let members)? = rule["annotations"] {
                        for member in members.members { annotations[member.key] = member.value.stringValue }
                    }
                    alerts[name] = annotations
                }
                add(query, of: rule["alert"]?.stringValue ?? rule["record"]?.stringValue ?? "a rule")
            }
        }
    }

    private mutating func readDashboard() throws {
        let dashboard = try JSONValue.parse(try Self.text("deploy/grafana/freshet.json"))
        guard case .array(let panels)? = dashboard["panels"], !panels.isEmpty else {
            throw Unreadable(description: "the dashboard has no panels")
        }
        for panel in panels {
            let title = panel["title"]?.stringValue ?? "a panel"
            guard case .array(let targets)? = panel["targets"] else {
                guard panel["type"] == "row" else { throw Unreadable(description: "\(title) asks for nothing") }
                continue
            }
            for target in targets {
                guard let query = target["expr"]?.stringValue else {
                    throw Unreadable(description: "\(title) has a target without a query")
                }
                add(query, of: title)
            }
        }
    }

    private static func text(_ path: String) throws -> String {
        guard let found = Repository.path(path) else { throw Unreadable(description: "\(path) is missing") }
        return try String(contentsOfFile: found, encoding: .utf8)
    }

    private mutating func add(_ query: String, of place: String) {
        for name in Self.metrics(in: query) { names[name, default: []].insert(place) }
    }

    /// Returns Freshet's names in a query: `freshet_…`, and `freshet:…` for recorded ones.
    static func metrics(in query: String) -> Set<String> {
        // Quoted text is a label's value.
        var names: Set<String> = []
        for (index, part) in query.split(separator: "\"", omittingEmptySubsequences: false).enumerated()
        where index % 2 == 0 {
            for word in part.split(whereSeparator: { !($0.isLetter || $0.isNumber || $0 == "_" || $0 == ":") })
            where word.hasPrefix("freshet_") || word.hasPrefix("freshet:") {
                names.insert(String(word))
            }
        }
        return names
    }
}
