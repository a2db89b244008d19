import Foundation
import WidgetModel

/// Days in the time zone of a request.
struct SampleDays {
    private static let day: Int64 = 86_400_000_000
    private let zone: TimeZone

    init(of moment: SampleMoment) {
        zone = moment.request.timeZone.flatMap { TimeZone(identifier: $0) } ?? .gmt
    }

    /// Number of a local day since 1970.
    func number(of time: Timestamp) -> Int {
        Int((time + offset(at: time)).startOfDay.microseconds / Self.day)
    }

    func midnight(ofDay number: Int) -> Timestamp {
        // The offset that is in force at the local midnight, of which the first one may be an hour off.
        let midnight = Timestamp(microseconds: Int64(number) * Self.day)
        let near = midnight - offset(at: midnight)
        return midnight - offset(at: near)
    }

    func midnight(after time: Timestamp) -> Timestamp { midnight(ofDay: number(of: time) + 1) }

    func count(from start: Timestamp, to end: Timestamp) -> Int { number(of: end) - number(of: start) }

    private func offset(at time: Timestamp) -> Duration {
        .seconds(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(time.microseconds) / 1_000_000)))
    }
}
