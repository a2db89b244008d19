import FreshetService
import WidgetEvents
import WidgetModel
import WidgetStore

/// Reads placements from lines of JSON: the data of `freshet.widget.placed.v1`, with an optional `time`.
struct PlacementLines: Sendable {
    static let maximumBytes = 1_048_576

    private let targets: TargetCheck
    private let now: Timestamp
    private let decoder = EventDecoder(maximumEventBytes: maximumBytes)

    /// - Parameter now: time of lines without one.
    init(directory: KindDirectory, now: Timestamp) {
        targets = TargetCheck(directory: directory)
        self.now = now
    }

    func widget(_ line: [UInt8]) throws(LineRefused) -> ImportedWidget {
        let placement = try placement(line)
        let kind: RegisteredKind
        do throws(TargetCheck.Unknown) {
            kind = try targets.kind(placement.kind, of: try targets.app(placement.app))
        } catch {
            throw LineRefused(message: "/\(error.member): \(error.message)")
        }
        guard kind.definition.families.contains(placement.family) else {
            let supported = kind.definition.families.map(\.name).joined(separator: ", ")
            throw LineRefused(
                message: "/family: kind \(Text.quoted(placement.kind)) does not support \(placement.family.name); "
                    + "expected one of \(supported)")
        }
        return ImportedWidget(placement: placement, kind: kind, time: try time(line) ?? now)
    }

    private func placement(_ line: [UInt8]) throws(LineRefused) -> WidgetPlacement {
        let arena = Self.attributes.bytes + line
        let result = decoder.decode(
            bytes: arena, value: Self.attributes.bytes.count..<arena.count, headers: Self.attributes.headers,
            topic: .widgets)
        switch result {
        case .success(let decoded):
            guard case .placed(let placement) = decoded.event else {
                throw LineRefused(message: "expected a placement")
            }
            return placement
        case .failure(let error):
            throw LineRefused(message: (error.pointer.map { $0.isEmpty ? "" : $0 + ": " } ?? "") + error.message)
        }
    }

    /// The line has been checked to be an object.
    private func time(_ line: [UInt8]) throws(LineRefused) -> Timestamp? {
        var reader = JSONReader(line)
        var time: Timestamp?
        do throws(JSONError) {
            var object = try reader.beginObject()
            while let key = try reader.nextKey(&object) {
                guard reader.matches(key, "time") else {
                    try reader.skip()
                    continue
                }
                if try !reader.takeNull() { time = try reader.timestamp() }
            }
        } catch {
            throw LineRefused(message: "\(error.pointer): \(error.message)")
        }
        return time
    }

    /// Headers that make a line an event in binary mode, for the decoder.
    private static let attributes: (bytes: [UInt8], headers: [(name: Range<Int>, value: Range<Int>?)]) = {
        var bytes: [UInt8] = []
        var headers: [(name: Range<Int>, value: Range<Int>?)] = []
        for (name, value) in [
            ("ce_specversion", "1.0"), ("ce_id", "import"), ("ce_source", "/freshet/import"),
            ("ce_type", EventType.widgetPlaced.rawValue),
        ] {
            let start = bytes.count
            bytes += name.utf8
            let middle = bytes.count
            bytes += value.utf8
            headers.append((start..<middle, middle..<bytes.count))
        }
        return (bytes, headers)
    }()
}
