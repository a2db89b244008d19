import WidgetModel

/// Timelines for load tests: about 650 bytes each, different at each request, and made of bytes that are prebuilt, so
/// that the provider is never what limits. Any name of a kind will do.
enum LoadContent: SampleContent {
    private static let lines: [StaticString] = ["Balance", "Pending", "Available"]

    static func writeTimeline(_ moment: SampleMoment, to writer: inout SampleWriter) {
        writer.policy(after: moment.now.startOfDay + .seconds(2 * 86_400))
        writer.key("entries")
        writer.beginArray()
        for index in lines.indices { writeEntry(moment, index, to: &writer) }
        writer.endArray()
    }

    static func writeSnapshot(_ moment: SampleMoment, to writer: inout SampleWriter) {
        writeEntry(moment, 0, to: &writer)
    }

    static func writePlaceholder(_ request: SampleRequest, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.endObject()
    }

    static func options(of parameter: String) -> [SampleSection]? { nil }

    private static func writeEntry(_ moment: SampleMoment, _ index: Int, to writer: inout SampleWriter) {
        writer.beginObject()
        writer.key("date")
        writer.date(moment.now.startOfDay + .seconds(index * 86_400))
        writer.key("content")
        writer.beginObject()
        writer.key("revision")
        writer.integer(moment.revision)
        writer.key("title")
        writer.string("\(lines[index])")
        writer.endObject()
        writer.endObject()
    }
}

/// Answers a request for load timelines from one template, into which ids and numbers are written.
struct LoadAnswer: Sendable {
    /// Behind the id: the policy and the entries, with digits in place of the number.
    private let template: [UInt8]
    /// Where the digits are.
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
        let mark = UInt8(ascii: "#")
        digits = template.indices.filter { template[$0] == mark && (template[$0 - 1] != mark) }
        for index in template.indices where template[index] == mark { template[index] = UInt8(ascii: "0") }
        self.template = template
    }

    /// Bytes of one timeline's content, about.
    var contentBytes: Int { template.count }

    /// `{"timelines": […]}` for the request's ids; nil for what is no request for timelines.
    ///
    /// - Parameter number: of the first timeline; they count up.
    func answer(_ body: [UInt8], from number: UInt64) -> (kind: String, count: Int, bytes: [UInt8])? {
        var kind = ""
        var out: [UInt8] = []
        var count = 0
        do throws(JSONError) {
            var reader = JSONReader(body)
            var object = try reader.beginObject()
            while let key = try reader.nextKey(&object) {
                if reader.matches(key, "kind") {
                    kind = try reader.string()
                } else if reader.matches(key, "requests") {
                    out.reserveCapacity(32 + body.count / 100 * (template.count + 64))
                    out.append(contentsOf: "{\"timelines\":[".utf8)
                    var array = try reader.beginArray()
                    while try reader.nextElement(&array) {
                        if count > 0 { out.append(UInt8(ascii: ",")) }
                        out.append(contentsOf: "{\"id\":\"".utf8)
                        var request = try reader.beginObject()
                        while let key = try reader.nextKey(&request) {
                            if reader.matches(key, "id") {
                                out.append(contentsOf: reader.utf8(of: try reader.stringToken()))
                            } else {
                                try reader.skip()
                            }
                        }
                        append(number &+ UInt64(count), to: &out)
                        count += 1
                    }
                    out.append(contentsOf: "]}".utf8)
                } else {
                    try reader.skip()
                }
            }
            try reader.finish()
        } catch {
            return nil
        }
        return kind.isEmpty || count == 0 ? nil : (kind, count, out)
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
