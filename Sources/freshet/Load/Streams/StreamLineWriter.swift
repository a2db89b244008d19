import WidgetEvents
import WidgetModel

/// Writes the events of a stream as JSON lines: structured CloudEvents, with `topic` and `key` as extension attributes
/// (`schemas/load-event.json`). What stays the same from line to line is encoded once.
struct StreamLineWriter {
    private let population: StreamPopulation
    private let start: Timestamp
    private let beginning: [UInt8]
    private let types: [[UInt8]]
    private let topics: [[UInt8]]
    private let ends: [[UInt8]]
    private let app: [UInt8]
    private let kinds: [[UInt8]]

    private var second = Int64.min
    private var secondText: [UInt8] = []

    /// - Parameters:
    ///   - start: the time of the stream's start.
    ///   - names: of the topics.
    init(_ plan: StreamPlan, start: Timestamp, names: [EventTopic: String] = [:]) {
        population = plan.population
        self.start = start
        beginning =
            Array(#"{"specversion":"1.0","source":"/freshet/load","datacontenttype":"application/json","id":""#.utf8)
            + Array("\(plan.seed)-".utf8)
        let sorts = StreamEventSort.allCases
        types = sorts.map { sort in Array(#"","type":"\#(sort.type.rawValue)","time":""#.utf8) }
        topics = sorts.map { sort in
            let name = names[sort.type.topic] ?? sort.type.topic.defaultName
            return Array(#"Z","topic":"#.utf8) + JSONValue.string(name).encoded + Array(#","key":"#.utf8)
        }
        ends = sorts.map { sort in
            Array((sort == .push ? "]}}\n" : #"],"state":"\#(sort.rawValue)"}}"# + "\n").utf8)
        }
        app = JSONValue.string(population.app).encoded
        kinds = population.kinds.map { JSONValue.string($0).encoded }
    }

    /// Appends one line, with its end.
    mutating func write(_ event: StreamEvent, to out: inout [UInt8]) {
        let sort = StreamEventSort.allCases.firstIndex(of: event.sort) ?? 0
        out += beginning
        Self.append(event.index, to: &out)
        out += types[sort]
        appendTime(start + event.arrival, to: &out)
        out += topics[sort]
        let person = population.person(ofWidget: event.widget)
        if event.audience == .everyone { out += app } else { Self.append("\"u", person, to: &out) }
        out += #","data":{"app":"#.utf8
        out += app
        switch event.audience {
        case .user: Self.append(#","audience":{"user":"u"#, person, to: &out)
        case .device: Self.append(#","audience":{"device":"d"#, person, to: &out)
        case .widget: Self.append(#","audience":{"widget":"w"#, event.widget, to: &out)
        case .everyone: out += #","audience":{"everyone":true"#.utf8
        }
        out += #"},"kinds":["#.utf8
        out += kinds[event.widget % kinds.count]
        out += ends[sort]
    }

    /// A text that begins a string, its number, and the string's end.
    private static func append(_ text: StaticString, _ number: Int, to out: inout [UInt8]) {
        out.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        append(number, to: &out)
        out.append(UInt8(ascii: "\""))
    }

    private static func append(_ number: Int, to out: inout [UInt8]) {
        var divisor = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            out.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }

    /// RFC 3339 to the microsecond, without the zone; the part up to the second is kept from line to line.
    private mutating func appendTime(_ time: Timestamp, to out: inout [UInt8]) {
        var (whole, fraction) = time.microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        if fraction < 0 { (whole, fraction) = (whole - 1, fraction + 1_000_000) }
        if whole != second {
            second = whole
            secondText = Array(Timestamp(microseconds: whole * 1_000_000).rfc3339.utf8.dropLast())
        }
        out += secondText
        out.append(UInt8(ascii: "."))
        var divisor: Int64 = 100_000
        while divisor > 0 {
            out.append(UInt8(ascii: "0") + UInt8(fraction / divisor % 10))
            divisor /= 10
        }
    }
}

extension StreamEventSort {
    var type: EventType {
        self == .push ? .pushReceived : .appChanged
    }
}
