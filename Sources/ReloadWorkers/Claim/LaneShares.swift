import WidgetModel

/// Order of lanes: next is the lane served least for its weight, the more urgent of equals.
///
/// Lanes with work share 8 : 4 : 2 : 1, so none starves, and unused shares go to the others. An empty lane saves no
/// credit.
struct LaneShares: Sendable {
    private static let weights: [ReloadLane: Int] = [.interactive: 8, .push: 4, .scheduled: 2, .bulk: 1]

    /// Served work by lane, divided by the weight.
    private var served: [ReloadLane: Int] = [:]
    private var active: Set<ReloadLane> = []

    mutating func begin(with lanes: Set<ReloadLane>) {
        let floor = lanes.intersection(active).map { served[$0, default: 0] }.min()
        for lane in lanes.subtracting(active) {
            served[lane] = floor.map { max($0, served[lane, default: 0]) } ?? 0
        }
        active = lanes
        // Only differences count; small numbers do not overflow.
        let least = lanes.map { served[$0, default: 0] }.min() ?? 0
        served = served.filter { lanes.contains($0.key) }.mapValues { $0 - least }
    }

    func next(among lanes: Set<ReloadLane>) -> ReloadLane? {
        lanes.min { left, right in
            (served[left, default: 0], left.rawValue) < (served[right, default: 0], right.rawValue)
        }
    }

    mutating func charge(_ lane: ReloadLane, _ amount: Int) {
        let greatest = Self.weights[.interactive, default: 1]
        served[lane, default: 0] += amount * greatest / Self.weights[lane, default: 1]
    }
}
