#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// Frequency of the views of a timeline's widgets (design, section 6, rule 3).
///
/// The timeline's row keeps a decayed average of the *hours a day* in which it was viewed: a view within an hour after a
/// counted one writes nothing, so views themselves are not counted. An hour in which a widget was seen stands for
/// 90 / 16 views: a person sees the home screen over 90 times in a day of 16 waking hours.
package struct ViewStatistics: Hashable, Sendable {
    /// Time in which the weight of a view falls to 1/e, in seconds: three days.
    package static let timeConstant = 3.0 * 86_400
    /// Views that a viewed hour stands for.
    package static let viewsPerHour = 90.0 / 16
    /// A view within this time after a counted one changes nothing.
    package static let interval: Duration = .seconds(3_600)
    /// From this many views a day on, a widget is often viewed.
    package static let oftenViewed = 40
    /// Time after its placing during which a widget counts as often viewed.
    package static let learningPeriod: Duration = .seconds(3 * 86_400)

    /// Views a day of all widgets that show the timeline.
    package var viewsADay: Double
    /// Time at which a widget that shows it was last viewed or placed; nil if that is unknown: it is taken for active.
    package var lastActive: Timestamp?
    /// Time at which a widget that shows it was last placed.
    package var lastPlaced: Timestamp?

    package init(viewsADay: Double = 0, lastActive: Timestamp? = nil, lastPlaced: Timestamp? = nil) {
        self.viewsADay = viewsADay
        self.lastActive = lastActive
        self.lastPlaced = lastPlaced
    }

    /// An average as it is some time after the last counted view.
    package static func decayed(_ rate: Double, for elapsed: Duration) -> Double {
        rate * exp(-max(0, Double(elapsed.wholeMicroseconds)) / 1_000_000 / timeConstant)
    }

    package func isLearning(at time: Timestamp) -> Bool {
        lastPlaced.map { time - $0 < Self.learningPeriod } ?? false
    }
}

extension DailyBudget {
    /// Budgeted reloads in 24 hours: as many as the widgets are viewed a day, between the kind's bounds, and at least
    /// one. In the learning period it is that of an often-viewed widget.
    package func reloads(for views: ViewStatistics, at time: Timestamp) -> Int {
        var wanted = views.viewsADay.isFinite ? max(0, views.viewsADay) : 0
        if views.isLearning(at: time) { wanted = max(wanted, Double(ViewStatistics.oftenViewed)) }
        return max(1, min(max(Int(min(wanted, 1e9).rounded()), minimum), max(minimum, maximum)))
    }
}
