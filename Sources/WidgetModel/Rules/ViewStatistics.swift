// SPDX-License-Identifier: Apache-2.0

internal import Foundation

/// Frequency of the views of a timeline's widgets (DESIGN.md, “Rules of reloads”).
///
/// The timeline's row keeps a decayed average of the *hours a day* with a view: a view within an hour after a counted
/// one writes nothing. Such an hour counts as 90 / 16 views, since people see the home screen over 90 times in a day of
/// 16 waking hours.
package struct ViewStatistics: Hashable, Sendable {
    /// Time in which the weight of a view falls to 1/e, in seconds: three days.
    package static let timeConstant = 3.0 * 86_400
    /// Views per hour with a view.
    package static let viewsPerHour = 90.0 / 16
    /// A view within this time after a counted one changes nothing.
    package static let interval: Duration = .seconds(3_600)
    /// Least views a day of an often-viewed widget.
    package static let oftenViewed = 40
    /// Time after its placing during which a widget counts as often viewed.
    package static let learningPeriod: Duration = .seconds(3 * 86_400)

    /// Views a day of all widgets that show the timeline.
    package var viewsADay: Double
    /// Time at which a widget that shows it was last viewed or placed; nil if unknown, which counts as active.
    package var lastActive: Timestamp?
    /// Time at which a widget that shows it was last placed.
    package var lastPlaced: Timestamp?

    package init(viewsADay: Double = 0, lastActive: Timestamp? = nil, lastPlaced: Timestamp? = nil) {
        self.viewsADay = viewsADay
        self.lastActive = lastActive
        self.lastPlaced = lastPlaced
    }

    /// The average some time after the last counted view.
    package static func decayed(_ rate: Double, for elapsed: Duration) -> Double {
        rate * exp(-max(0, Double(elapsed.wholeMicroseconds)) / 1_000_000 / timeConstant)
    }

    package func isLearning(at time: Timestamp) -> Bool {
        lastPlaced.map { time - $0 < Self.learningPeriod } ?? false
    }
}

// MARK: - Stored form

extension ViewStatistics {
    /// - Parameters:
    ///   - rate: hours a day in which the timeline was viewed, as of `viewedAt`.
    ///   - now: the database's time.
    package init(rate: Double, viewedAt: Timestamp?, placedAt: Timestamp, at now: Timestamp) {
        let decayed = viewedAt.map { Self.decayed(rate, for: now - $0) } ?? 0
        self.init(
            viewsADay: decayed * Self.viewsPerHour, lastActive: max(placedAt, viewedAt ?? placedAt),
            lastPlaced: placedAt)
    }

    /// Whether a view counts: it is at least ``interval`` after the last counted one.
    package static func isCounted(_ time: Timestamp, after last: Timestamp?) -> Bool {
        last.map { time - $0 >= interval } ?? true
    }

    /// Hours a day after a counted view, as the SQL function `count_views` computes them; a test compares the two.
    ///
    /// - Parameter elapsed: since the last counted one; nil for the first.
    package static func rate(_ rate: Double, viewedAfter elapsed: Duration?) -> Double {
        1 / (timeConstant / 86_400) + decayed(rate, for: elapsed ?? .zero)
    }
}

extension DailyBudget {
    /// Budgeted reloads in 24 hours: the number of views a day within the kind's bounds, at least one. In the learning
    /// period it is that of an often-viewed widget.
    package func reloads(for views: ViewStatistics, at time: Timestamp) -> Int {
        var wanted = views.viewsADay.isFinite ? max(0, views.viewsADay) : 0
        if views.isLearning(at: time) { wanted = max(wanted, Double(ViewStatistics.oftenViewed)) }
        return max(1, min(max(Int(min(wanted, 1e9).rounded()), minimum), max(minimum, maximum)))
    }
}
