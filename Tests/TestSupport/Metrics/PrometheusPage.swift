// SPDX-License-Identifier: Apache-2.0

/// A page in Prometheus' text format (version 0.0.4). Parsing is strict: it throws an error wherever `promtool check
/// metrics` would report a problem.
package struct PrometheusPage: Sendable {
    package struct Sample: Hashable, Sendable {
        package var name: String
        package var labels: [String: String]
        package var value: Double
    }

    package struct Family: Sendable {
        package var name: String
        package var help: String
        package var sort: String
        package var samples: [Sample] = []

        /// Label names of the samples, without `le`.
        package var labelNames: Set<String> { Set(samples.flatMap(\.labels.keys)).subtracting(["le"]) }
    }

    package struct Problem: Error, CustomStringConvertible {
        package let line: Int
        package let message: String
        package var description: String { "line \(line): \(message)" }
    }

    package private(set) var families: [String: Family] = [:]

    /// - Throws: ``Problem``.
    package init(_ text: String) throws {
        guard text.isEmpty || text.hasSuffix("\n") else {
            throw Problem(line: 0, message: "the last line has no line feed")
        }
        var current: Family?
        var seen: Set<String> = []
        func finish() throws {
            guard let family = current else { return }
            try Self.check(family)
            families[family.name] = family
            current = nil
        }
        for (index, line) in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().enumerated() {
            let number = index + 1
            func refuse(_ message: String) -> Problem { Problem(line: number, message: "\(message): \(line)") }
            if line.hasPrefix("# HELP ") {
                try finish()
                let parts = line.dropFirst(7).split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2, Self.isName(parts[0]), !parts[1].isEmpty else { throw refuse("no help") }
                let name = String(parts[0])
                guard families[name] == nil else { throw refuse("the metric comes a second time") }
                current = Family(name: name, help: String(parts[1]), sort: "")
            } else if line.hasPrefix("# TYPE ") {
                let parts = line.dropFirst(7).split(separator: " ", omittingEmptySubsequences: false)
                guard parts.count == 2, current?.name == String(parts[0]), current?.sort == "",
                    ["counter", "gauge", "histogram", "summary", "untyped"].contains(String(parts[1]))
                else { throw refuse("no type") }
                current?.sort = String(parts[1])
            } else {
                guard let family = current, !family.sort.isEmpty else { throw refuse("a sample before its type") }
                let sample: Sample
                do {
                    var reader = SampleReader(text: Array(line.unicodeScalars))
                    sample = try reader.read()
                } catch {
                    throw refuse("\(error)")
                }
                let names =
                    family.sort == "histogram"
                    ? ["_bucket", "_sum", "_count"].map { family.name + $0 } : [family.name]
                guard names.contains(sample.name) else { throw refuse("a sample of another metric") }
                let key = "\(sample.name)|\(sample.labels.sorted { $0.key < $1.key })"
                guard seen.insert(key).inserted else { throw refuse("a series comes a second time") }
                current?.samples.append(sample)
            }
        }
        try finish()
    }

    /// Returns the value of the series with exactly these labels; nil if there is none.
    package func value(_ name: String, _ labels: [String: String] = [:]) -> Double? {
        all(name).first { $0.labels == labels }?.value
    }

    /// Returns the sum of a metric's series whose labels include these.
    package func sum(_ name: String, _ labels: [String: String] = [:]) -> Double {
        all(name).filter { sample in labels.allSatisfy { sample.labels[$0.key] == $0.value } }
            .reduce(0) { $0 + $1.value }
    }

    /// All series names; a histogram has three.
    package var sampleNames: Set<String> { Set(families.values.flatMap { $0.samples.map(\.name) }) }

    private func all(_ name: String) -> [Sample] {
        if let family = families[name], family.sort != "histogram" { return family.samples }
        return families.values.flatMap { $0.samples.filter { $0.name == name } }
    }

    // MARK: Checks of a metric

    private static func check(_ family: Family) throws {
        func refuse(_ message: String) -> Problem { Problem(line: 0, message: "\(family.name) \(message)") }
        guard !family.sort.isEmpty else { throw refuse("has no type") }
        guard !family.samples.isEmpty else { throw refuse("has no samples") }
        guard (family.sort == "counter") == family.name.hasSuffix("_total") else {
            throw refuse("is a \(family.sort): a counter's name ends with _total, and no other's")
        }
        for sample in family.samples {
            guard !sample.labels.keys.contains("quantile"), family.sort == "histogram" || sample.labels["le"] == nil
            else { throw refuse("uses a label that has a meaning of its own") }
            guard family.sort != "counter" || sample.value >= 0 else { throw refuse("is negative") }
        }
        if family.sort == "histogram" { try checkHistogram(family) }
    }

    private static func checkHistogram(_ family: Family) throws {
        let series = Dictionary(grouping: family.samples) { sample in
            sample.labels.filter { $0.key != "le" }.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        }
        for (labels, samples) in series {
            func refuse(_ message: String) -> Problem {
                Problem(line: 0, message: "\(family.name) \(labels): \(message)")
            }
            let buckets = samples.filter { $0.name.hasSuffix("_bucket") }
            let bounds = buckets.compactMap { $0.labels["le"].flatMap(SampleReader.number) }
            guard bounds.count == buckets.count, bounds == bounds.sorted(), bounds.last == .infinity else {
                throw refuse("the bounds do not ascend to +Inf")
            }
            guard buckets.map(\.value) == buckets.map(\.value).sorted() else { throw refuse("is not cumulative") }
            let count = samples.first { $0.name == family.name + "_count" }?.value
            guard count == buckets.last?.value, samples.contains(where: { $0.name == family.name + "_sum" }) else {
                throw refuse("count and buckets differ, or there is no sum")
            }
        }
    }

    fileprivate static func isName(_ text: some StringProtocol) -> Bool {
        guard let first = text.unicodeScalars.first, !("0"..."9").contains(first) else { return false }
        return text.unicodeScalars.allSatisfy { scalar in
            ("a"..."z").contains(scalar) || ("A"..."Z").contains(scalar) || ("0"..."9").contains(scalar)
                || scalar == "_" || scalar == ":"
        }
    }
}

/// Parses a line: `name{label="value",…} number`.
private struct SampleReader {
    struct Malformed: Error, CustomStringConvertible {
        let description: String
    }

    let text: [Unicode.Scalar]
    var position = 0

    init(text: [Unicode.Scalar]) {
        self.text = text
    }

    private var next: Unicode.Scalar? { position < text.count ? text[position] : nil }

    mutating func read() throws -> PrometheusPage.Sample {
        let name = try name()
        var labels: [String: String] = [:]
        if next == "{" {
            position += 1
            while next != "}" {
                let label = try self.name()
                guard label.first != ":", take("="), take("\"") else { throw Malformed(description: "a label") }
                guard labels.updateValue(try value(), forKey: label) == nil else {
                    throw Malformed(description: "a label comes twice")
                }
                if next == "," { position += 1 } else if next != "}" { throw Malformed(description: "labels") }
            }
            position += 1
        }
        guard take(" ") else { throw Malformed(description: "no blank before the value") }
        var rest = ""
        rest.unicodeScalars.append(contentsOf: text[position...])
        guard let value = Self.number(rest) else { throw Malformed(description: "no number") }
        return PrometheusPage.Sample(name: name, labels: labels, value: value)
    }

    static func number(_ text: String) -> Double? {
        switch text {
        case "+Inf": .infinity
        case "-Inf": -.infinity
        case "NaN": .nan
        default: text.isEmpty || text.contains(" ") ? nil : Double(text).flatMap { $0.isFinite ? $0 : nil }
        }
    }

    private mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard next == scalar else { return false }
        position += 1
        return true
    }

    private mutating func name() throws -> String {
        var name = ""
        while let scalar = next, scalar != "{", scalar != "=", scalar != " " {
            name.unicodeScalars.append(scalar)
            position += 1
        }
        guard PrometheusPage.isName(name) else { throw Malformed(description: "no name") }
        return name
    }

    private mutating func value() throws -> String {
        var value = ""
        while let scalar = next {
            position += 1
            if scalar == "\"" { return value }
            guard scalar == "\\" else {
                value.unicodeScalars.append(scalar)
                continue
            }
            switch next {
            case "n": value += "\n"
            case "\\": value += "\\"
            case "\"": value += "\""
            default: throw Malformed(description: "an escape that is none")
            }
            position += 1
        }
        throw Malformed(description: "a value without its end")
    }
}
