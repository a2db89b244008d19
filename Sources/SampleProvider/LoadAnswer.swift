// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// Answers a request for load timelines of about 650 bytes each from one template, into which ids and numbers are
/// written, so that the provider is not the bottleneck of a load test.
struct LoadAnswer: Sendable {
    /// Bytes after the id: the policy and the entries, with zeros in place of the number.
    private let template: [UInt8]
    /// Positions of the numbers.
    private let digits: [Int]

    private static let digitCount = 10

    /// - Parameter now: the day of the entries' dates; the policy's time is two days later.
    init(now: Timestamp) {
        let day = now.startOfDay
        let number = String(repeating: "#", count: Self.digitCount)
        let text = "Paid at the corner shop for bread and milk"
        let entries = (0..<3).map { index in
            """
            {"date":"\((day + .seconds(index * 86_400)).rfc3339)","content":{"amount":"\(index + 12).40","number":\
            "\(number)","text":"\(text)","title":"Account \(index)"},"relevance":{"duration":3600,"score":0.5}}
            """
        }
        let json = """
            ","policy":{"after":"\((day + .seconds(2 * 86_400)).rfc3339)"},"entries":[\(entries.joined(separator: ","))]}
            """
        var template = Array(json.utf8)
        let hash = UInt8(ascii: "#")
        digits = template.indices.filter { template[$0] == hash && (template[$0 - 1] != hash) }
        for index in template.indices where template[index] == hash { template[index] = UInt8(ascii: "0") }
        self.template = template
    }

    /// Timelines of each kind of a request, and the answer to it: `{"timelines": […]}`.
    typealias Answer = (kinds: [(name: String, timelines: Int)], bytes: [UInt8])

    /// The answer for the request's ids; nil if the body is not a request for timelines, or for too many.
    ///
    /// - Parameter number: of the first timeline; they count up.
    func answer(_ body: [UInt8], from number: UInt64) -> Answer? {
        var answer: Answer = ([], [])
        do throws(JSONError) {
            var reader = JSONReader(body)
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "requests":
                    guard try read(&reader, into: &answer, from: number, bodyBytes: body.count) else { return nil }
                default: try reader.skip()
                }
            }
            try reader.finish()
        } catch {
            return nil
        }
        return answer.kinds.isEmpty ? nil : answer
    }

    /// Reads the requests; returns false if one has no id or no kind, or if there are too many.
    private func read(
        _ reader: inout JSONReader, into answer: inout Answer, from number: UInt64, bodyBytes: Int
    ) throws(JSONError) -> Bool {
        answer.bytes.reserveCapacity(32 + bodyBytes / 100 * (template.count + 64))
        answer.bytes.append(contentsOf: "{\"timelines\":[".utf8)
        var count = 0
        try reader.beginArray()
        while try reader.nextElement() {
            var id: ArraySlice<UInt8>?
            var kind: ArraySlice<UInt8>?
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "id": id = reader.utf8(of: try reader.stringToken())
                case "kind": kind = reader.utf8(of: try reader.stringToken())
                default: try reader.skip()
                }
            }
            guard let id, let kind, count < SampleRequest.maximumBatch else { return false }
            if count > 0 { answer.bytes.append(UInt8(ascii: ",")) }
            answer.bytes.append(contentsOf: "{\"id\":\"".utf8)
            answer.bytes.append(contentsOf: id)
            append(number &+ UInt64(count), to: &answer.bytes)
            count += 1
            if let index = answer.kinds.firstIndex(where: { $0.name.utf8.elementsEqual(kind) }) {
                answer.kinds[index].timelines += 1
            } else {
                answer.kinds.append((String(decoding: kind, as: UTF8.self), 1))
            }
        }
        answer.bytes.append(contentsOf: "]}".utf8)
        return true
    }

    private func append(_ number: UInt64, to out: inout [UInt8]) {
        let start = out.count
        out.append(contentsOf: template)
        var rest = number
        for place in stride(from: Self.digitCount - 1, through: 0, by: -1) {
            let digit = UInt8(ascii: "0") + UInt8(rest % 10)
            for position in digits { out[start + position + place] = digit }
            rest /= 10
        }
    }
}
