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
        let event: FreshetEvent
        do throws(EventError) {
            event = try decoder.decode(data: line, of: .widgetPlaced)
        } catch {
            throw LineRefused(error)
        }
        guard case .placed(let placement) = event else { throw LineRefused(message: "expected a placement") }
        return placement
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
}
