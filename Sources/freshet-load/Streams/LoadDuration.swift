import ArgumentParser
import WidgetModel

/// A length of time on the command line: whole seconds, or with a unit (`90s`, `30m`, `2h`).
struct LoadDuration: ExpressibleByArgument, Sendable {
    var length: Duration

    init(_ length: Duration) {
        self.length = length
    }

    init?(argument: String) {
        if let seconds = Int(argument), (0...1_000_000_000).contains(seconds) {
            length = .seconds(seconds)
        } else if let length = DurationText.parse(argument) {
            self.length = length
        } else {
            return nil
        }
    }

    var defaultValueDescription: String { DurationText.write(length) }

    func check(_ option: String, in range: ClosedRange<Duration>) throws {
        guard range.contains(length) else {
            throw ValidationError(
                "\(option) \(DurationText.write(length)): expected \(DurationText.write(range.lowerBound)) to "
                    + DurationText.write(range.upperBound))
        }
    }
}
