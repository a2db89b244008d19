import WidgetModel

/// Which lane is served next: the one that has been served least for its weight, the more urgent of equals.
///
/// When all lanes have work they share 8 : 4 : 2 : 1, so each is guaranteed its part and none starves; what a lane does
/// not use goes to the others. A lane that was empty does not save up credit meanwhile.
struct LaneShares: Sendable {
    private static let weights: [ReloadLane: Int] = [.interactive: 8, .push: 4, .scheduled: 2, .bulk: 1]

    /// Work served to each lane, in units that cost a lane the more the less it weighs.
    private var served: [ReloadLane: Int] = [:]
    private var active: Set<ReloadLane> = []

    mutating func begin(with lanes: Set<ReloadLane>) {
        let floor = lanes.intersection(active).map { served[$0, default: 0] }.min()
        for lane in lanes.subtracting(active) {
            served[lane] = floor.map { max($0, served[lane, default: 0]) } ?? 0
        }
        active = lanes
        // Only differences count: kept small, they never overflow.
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
